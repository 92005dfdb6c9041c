// One HCCL communicator on one device, with the stream that its work runs on.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "cann/abi/hccl.h"
#include "runtime/Stream.h"

namespace torch_npu::distributed {

// What a group asks of its communicators. Zero or empty: HCCL's own default.
struct CommunicatorConfig {
  uint32_t bufferSize = 0;  // MiB
  std::string name;
  bool highPriority = false;
};

// Who takes part: `rank` of `size`, and what the members are called in messages.
struct Membership {
  int rank = 0;
  int size = 1;
  std::vector<uint64_t> globalRanks;  // of the members; empty: as groupRanks
  std::vector<int> groupRanks;        // where the members are part of a group; empty: member i is i

  // "rank 1 (global rank 5)", or "rank 1" where both are the same
  std::string describe(int member) const;
};

// An exception's message without the C++ backtrace that c10's carry.
std::string messageOf(const std::exception& error);

class Communicator {
 public:
  // Meets the other members under `key` of the store and builds the communicator on `device`.
  // Blocks until all have come; after `timeout` it throws c10::DistBackendError naming the ranks
  // that did not come. The key must be used once per communicator.
  static std::shared_ptr<Communicator> connect(
      c10d::Store& store, const std::string& key, const Membership& members, int device,
      const CommunicatorConfig& config, std::chrono::milliseconds timeout);

  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int device() const noexcept { return stream_.deviceIndex(); }
  int size() const noexcept { return size_; }
  const NPUStream& stream() const noexcept { return stream_; }
  // As HCCL knows it, for tools that look communicators up by name.
  std::string name() const;

  // Holds the handle for the calls of one launch: abort() waits for it, though not for long.
  // Throws c10::DistBackendError if the communicator was ended.
  class Lease {
   public:
    explicit Lease(const Communicator& owner);
    HcclComm handle() const noexcept { return handle_; }

   private:
    std::shared_lock<std::shared_timed_mutex> lock_;
    HcclComm handle_;
  };

  // What went wrong in work that was launched before, as HCCL tells it; nothing while all is well.
  std::optional<std::string> asyncError() const;

  // Ends the communicator now, from any thread: work in flight fails. Idempotent, never throws.
  void abort() noexcept;
  // Ends it after its work is done.
  void close() noexcept { end(); }
  bool isEnded() const noexcept { return ended_.load(std::memory_order_acquire); }
  // The stream carries a failed task, so no other communicator may get it.
  void poisonStream() noexcept { poisoned_.store(true, std::memory_order_release); }

 private:
  Communicator(HcclComm handle, int size, NPUStream stream, bool highPriority);
  void end() noexcept;

  HcclComm handle_;
  const int size_;
  const NPUStream stream_;
  const bool highPriority_;
  std::atomic<bool> ended_{false};
  std::atomic<bool> poisoned_{false};
  // Guards handle_'s life: shared while HCCL is called with it, exclusive to destroy it.
  mutable std::shared_timed_mutex life_;
};

}  // namespace torch_npu::distributed
