// Collective operations: every rank posts its buffers, the last to arrive checks that all agree,
// and the ranks that wait anyway help with the work.
//
// Note [Combining engine]
// There is no barrier before or after an operation. Each rank writes its Posting and adds one to
// the arrival counter; who completes the count does a small operation alone and opens a large one
// to helpers, who claim chunks by an atomic counter; who finishes the last chunk declares the
// operation done. Nobody can arrive at the next operation before it saw this one done, so a late
// helper finds no chunk left and disturbs nothing. A block of all inputs is reduced in rank order
// into a scratch that stays in the first-level cache, then written to all outputs: results do not
// depend on who works, and are equal bit by bit on all ranks.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "emulator/Communicator.h"

namespace npu_emulator::hccl {

// One rank's call, as checked against itself. Counts, displacements: elements.
struct CollectiveCall {
  const char* function = "";
  Operation operation = Operation::None;
  uint32_t dataType = 0;
  uint32_t receiveType = 0;
  uint32_t reduceOp = HCCL_REDUCE_RESERVED;
  uint32_t root = 0;
  uint64_t count = 0;
  Buffer input;
  Buffer output;
  std::array<std::vector<uint64_t>, kVectors> vectors;
  std::vector<uint64_t> matrix;
};

// Gives the call its number and puts it on the stream. Throws Failure.
void enqueueCollective(
    const std::shared_ptr<Communicator>& communicator, CollectiveCall call, aclrtStream stream);

// "HcclAllReduce(count=10, FP32, SUM)" of what a rank posted.
std::string describePosting(const Posting& posting);

}  // namespace npu_emulator::hccl
