// A communicator as one of its ranks sees it: membership, failure, waiting, departure.
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "emulator/Abi.h"
#include "emulator/Segment.h"
#include "emulator/Shm.h"

namespace npu_emulator {

// Fails every HCCL task of this process and tells peers that its ranks leave: for the end of the
// process, before stream workers are joined.
void leaveCommunicators(const char* why) noexcept;

}  // namespace npu_emulator

namespace npu_emulator::hccl {

// An error on its way to the caller of an Hccl function.
struct Failure : std::exception {
  Failure(HcclResult code, std::string text) : code(code), text(std::move(text)) {}
  const char* what() const noexcept override { return text.c_str(); }
  HcclResult code;
  std::string text;
};

// The code that a stream keeps when a task of ours fails.
aclError streamError(HcclResult code);

// Turns the exception being handled into a result and its message.
Failure currentFailure(const char* where);

struct Member {
  int device = 0;  // as the machine counts devices
  int process = 0;
  std::shared_ptr<Mapping> memory;
};

// What joining yields.
struct Membership {
  uint32_t rank = 0;
  uint32_t ranks = 0;
  int device = 0;  // as this process counts devices
  std::string name;
  std::unique_ptr<Mapping> segment;
  std::vector<Member> members;
  std::chrono::seconds patience{0};  // limit for one operation; 0: none
};

// Part of a device's memory that an operation reads or writes.
struct Buffer {
  std::byte* data = nullptr;
  uint64_t bytes = 0;
  std::vector<Extent> extents;
};

// What a task sleeps for.
class Condition {
 public:
  virtual ~Condition() = default;
  virtual bool ready() = 0;
  // Completes "HcclX #n of communicator c waits ...", for messages.
  virtual std::string describe() = 0;
  // A rank that this needs and that departed.
  virtual std::optional<uint32_t> lostRank() = 0;
  // Called about four times a second while it sleeps.
  virtual void tick() {}
};

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  explicit Communicator(Membership membership);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  uint32_t rank() const { return self_.rank; }
  uint32_t ranks() const { return self_.ranks; }
  int device() const { return self_.device; }
  const std::string& name() const { return self_.name; }
  const Segment& segment() const { return segment_; }
  SegmentHeader& header() const { return segment_.header(); }
  RankArea& area() const { return segment_.rank(self_.rank); }
  const Member& member(uint32_t rank) const { return self_.members[rank]; }

  // Ends the communicator on every rank; the first failure stays.
  void fail(HcclResult code, const std::string& text) noexcept;
  bool failed() const {
    return header().failureState.load(std::memory_order_acquire) != 0;
  }
  HcclResult failure() const;
  std::string failureText() const;
  // Throws the failure if there is one, or if this rank has departed.
  void throwIfFailed() const;

  // Sleeps on the bell until the condition is ready. Throws Failure when the communicator failed,
  // its stream was aborted, a needed rank departed or the patience is over (the last three fail the
  // communicator). `nap`: the longest sleep.
  void wait(Bell& bell, Condition& condition, std::chrono::nanoseconds nap = kNap);

  // Marks that a task of this rank touches buffers of others. False: the communicator failed.
  class Touch {
   public:
    explicit Touch(Communicator& communicator);
    ~Touch();
    explicit operator bool() const { return allowed_; }

   private:
    Communicator& communicator_;
    bool allowed_;
  };
  // Waits until no rank that lives touches buffers, after a failure: the owner of a buffer may then
  // free it. Gives up after 10 s (a stopped process).
  void quiesce() noexcept;

  // Tells everybody that this rank is no longer there.
  void depart(Departure why) noexcept;
  void peerDied(uint32_t rank) noexcept;

  // Checks that the bytes are memory of this communicator's device. `what` names it in messages.
  Buffer describeBuffer(
      const void* data, uint64_t bytes, size_t alignment, const char* call, const char* what) const;

  // Orders what the host calls: held while numbers are given out and the task is queued.
  std::mutex& postMutex() { return postMutex_; }

  // One direction to or from a peer. `posted` is guarded by postMutex(); `parts` belongs to the
  // message whose turn it is (number == completed).
  struct Line {
    uint64_t posted = 0;
    std::atomic<uint64_t> completed{0};
    uint64_t parts = 0;
  };
  Line& sendLine(uint32_t peer) { return sends_[peer]; }
  Line& receiveLine(uint32_t peer) { return receives_[peer]; }

  uint64_t collectivesPosted = 0;  // guarded by postMutex()
  std::atomic<uint64_t> collectivesCompleted{0};
  std::atomic<int64_t> outstanding{0};  // tasks queued or running
  std::map<uint64_t, uint64_t>& splits() { return splits_; }  // guarded by postMutex()

  // HcclCommDestroy.
  void destroy() noexcept;

  static constexpr std::chrono::milliseconds kNap{200};

 private:
  void ringEveryone() noexcept;
  std::string describeBlocked();

  Membership self_;
  Segment segment_;
  std::mutex postMutex_;  // before any lock of a stream
  std::vector<Line> sends_;
  std::vector<Line> receives_;
  std::map<uint64_t, uint64_t> splits_;

  std::mutex blockedMutex_;  // guards blocked_; conditions only read under it
  std::vector<Condition*> blocked_;
};

// Keeps a communicator alive and counted while a task is queued or runs; a task that is dropped
// without having run fails the communicator.
class OutstandingTask {
 public:
  OutstandingTask(std::shared_ptr<Communicator> communicator, std::string what);
  ~OutstandingTask();
  OutstandingTask(const OutstandingTask&) = delete;
  OutstandingTask& operator=(const OutstandingTask&) = delete;

  // Runs the body; a Failure becomes the stream's error, after everybody left the buffers. Counts
  // as finished when it returns: who synchronised the stream may destroy the communicator at once.
  template <class Body>
  aclError run(Body&& body) {
    armed_ = false;
    aclError result = ACL_SUCCESS;
    try {
      body();
    } catch (...) {
      result = finishFailed();
    }
    release();
    return result;
  }
  Communicator& communicator() { return *communicator_; }
  // From here on it counts as queued; withdraw() when queueing failed.
  void arm() { armed_ = true; }
  void withdraw() {
    armed_ = false;
    release();
  }

 private:
  aclError finishFailed() noexcept;
  void release();

  std::shared_ptr<Communicator> communicator_;
  std::string what_;
  bool armed_ = false;
  bool counted_ = true;
};

// Live communicators by handle.
HcclComm addHandle(std::shared_ptr<Communicator> communicator);
std::shared_ptr<Communicator> findHandle(HcclComm handle);
std::shared_ptr<Communicator> removeHandle(HcclComm handle);

}  // namespace npu_emulator::hccl
