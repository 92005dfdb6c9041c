// What a collective has to move: derived by each worker from what all ranks posted.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/Segment.h"

namespace npu_emulator::hccl {

// `bytes` from one rank's input, or all inputs reduced, to one rank's output, or to all outputs.
struct Transfer {
  static constexpr int kAll = -1;
  // Where an offset comes from when ranks may each have their own: row `index` of that vector.
  static constexpr uint32_t kFixed = kVectors;

  uint64_t bytes = 0;
  int source = kAll;
  int target = kAll;
  uint64_t sourceOffset = 0;  // bytes
  uint64_t targetOffset = 0;
  uint32_t sourceVector = kFixed;
  uint32_t targetVector = kFixed;
  uint32_t index = 0;
};

class Plan {
 public:
  // All ranks have posted, and agree.
  Plan(const Segment& segment, uint32_t ranks);

  const std::vector<Transfer>& transfers() const { return transfers_; }
  // Bytes read and written.
  uint64_t traffic() const { return traffic_; }
  uint64_t largest() const { return largest_; }

  // Chunks of at most `chunkBytes` of single transfers, numbered through.
  uint64_t chunks(uint64_t chunkBytes) const;
  struct Chunk {
    const Transfer* transfer;
    uint64_t begin;
    uint64_t end;
  };
  Chunk chunk(uint64_t number, uint64_t chunkBytes) const;

 private:
  void add(const Transfer& transfer);

  uint32_t ranks_;
  std::vector<Transfer> transfers_;
  uint64_t traffic_ = 0;
  uint64_t largest_ = 0;
};

// Empty if all ranks posted the same operation with values that fit; else what each of them posted.
std::string findMismatch(const Segment& segment, uint32_t ranks, const std::string& communicator);

const char* functionName(Operation operation);
bool hasRoot(Operation operation);
bool reduces(Operation operation);

}  // namespace npu_emulator::hccl
