// What is known of a launched operation and of its group. Holds no tensor, so the watchdog may own
// it: letting a tensor go can need Python's interpreter lock, which that thread must never wait
// for.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "distributed/Communicator.h"
#include "runtime/Event.h"

namespace torch_npu::distributed {

using Clock = std::chrono::steady_clock;

// What happens to the process when a collective fails or does not finish
// (TORCH_HCCL_ASYNC_ERROR_HANDLING).
enum class ErrorHandling : int64_t {
  None = 0,  // only waiters learn of it
  AbortAndTearDown = 1,
  AbortOnly = 2,
  TearDown = 3,  // without waiting for an abort
};

// The part of a process group that its operations and the watchdog share. Outlives the group while
// operations are in flight.
class GroupState {
 public:
  explicit GroupState(Membership membership);

  const Membership members;
  const ErrorHandling errorHandling;

  // "group 'tp' (desc), rank 1 (global rank 5) of 4"
  std::string describe() const;
  void setName(std::string name);
  void setDescription(std::string description);
  std::string name() const;

  // Communicators by the key that they were made under; null if there is none.
  std::shared_ptr<Communicator> find(const std::string& key) const;
  void add(const std::string& key, std::shared_ptr<Communicator> communicator);
  std::vector<std::shared_ptr<Communicator>> communicators() const;

  // The first failure decides; later ones are consequences. True for the first one.
  bool fail(const std::string& text);
  bool hasFailed() const noexcept { return failed_.load(std::memory_order_acquire); }
  // Throws c10::DistBackendError with the first failure, if there is one, and counts as delivery.
  void throwIfFailed() const;
  // Whether somebody who waits has been told. If nobody is, the watchdog ends the process.
  bool isDelivered() const noexcept { return delivered_.load(std::memory_order_acquire); }
  std::string failure() const;
  // True once: for the caller that shall react to the failure.
  bool claimReaction() noexcept { return !reacted_.exchange(true, std::memory_order_acq_rel); }

  // Ends all communicators now.
  void abortCommunicators() noexcept;

 private:
  std::atomic<bool> failed_{false};
  mutable std::atomic<bool> delivered_{false};
  std::atomic<bool> reacted_{false};
  mutable std::mutex mutex_;  // guards what follows; no CANN call while held
  std::string name_;
  std::string description_;
  std::string failure_;
  std::vector<std::pair<std::string, std::shared_ptr<Communicator>>> communicators_;
};

// Which operation, with what. Kept as facts, made into text only when something fails.
struct OperationFacts {
  // One of a batch of sends and receives.
  struct Message {
    bool sends;
    int peer;
    at::ScalarType dtype;
    int64_t elements;
  };

  c10d::OpType type = c10d::OpType::UNKNOWN;
  const char* name = "";  // "all_reduce"
  uint64_t sequence = 0;
  at::ScalarType dtype = at::ScalarType::Undefined;
  std::vector<int64_t> shape;  // of the first input
  size_t inputs = 0;           // tensors
  size_t outputs = 0;
  int64_t inputElements = 0;
  int64_t outputElements = 0;
  std::string detail;  // "root 0", "to rank 1"
  std::vector<Message> messages;

  void describeTensors(at::TensorList in, at::TensorList out);
  // "all_reduce, sequence number 3, float32 [10]"
  std::string text() const;
};

class Operation {
 public:
  enum class Status { Running, Done, Failed };

  // The time for `timeout` runs from begin().
  Operation(
      std::shared_ptr<GroupState> group, std::shared_ptr<Communicator> communicator,
      OperationFacts facts, std::chrono::milliseconds timeout, bool timing);

  const std::shared_ptr<GroupState> group;
  const std::shared_ptr<Communicator> communicator;
  OperationFacts facts;  // fixed once launched
  const std::chrono::milliseconds timeout;

  int device() const noexcept { return communicator->device(); }
  const NPUStream& stream() const noexcept { return communicator->stream(); }

  bool isLaunched() const noexcept { return done_.isCreated(); }
  // Launching: the communication stream waits for the caller's stream, then runs the work, then
  // end().
  void begin(const NPUStream& callersStream);
  void end();

  // Throws if the group failed before this was seen to be done.
  void throwIfFailed() const {
    if (!finished_.load(std::memory_order_acquire)) group->throwIfFailed();
  }
  // Asks the device. An error of the stream becomes a failure of the group.
  Status poll();
  bool isExpired() const noexcept;
  // Called by whoever waits on the host for less time than the group's timeout.
  void shortenDeadline(std::chrono::milliseconds fromNow) noexcept;
  // The host waits until the work is done. Throws the group's failure.
  void waitOnHost();
  // Later work of `stream` waits for this.
  void block(const NPUStream& stream) const { done_.block(stream); }
  // Milliseconds between start and end on the device; needs timing.
  float duration() const;

  // Name, number, group, sizes and rank of this operation, then `what` happened to it.
  std::string failureText(const std::string& what) const;
  // Fails the group with it, and logs it if it is the group's first failure.
  void fail(const std::string& what);

 private:
  void failAsToldBy(const std::exception& error);

  NPUEvent started_;  // recorded with timing only
  NPUEvent done_;
  const bool timing_;
  std::atomic<bool> finished_{false};
  std::atomic<Clock::rep> deadline_{Clock::time_point::max().time_since_epoch().count()};
};

}  // namespace torch_npu::distributed
