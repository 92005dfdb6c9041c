// Streams: queues of tasks, executed in order, apart from the host's thread.
//
// Note [Who runs a task]
// A stream has a worker thread, made at its first task. A host thread that waits for a stream runs
// its tasks itself as long as nobody else does: that saves two thread switches for each small
// operation. A task that waits for an event does the same with the stream where the event was
// recorded, up to the event and no further. So whatever a thread holds while it runs nested tasks
// needs them, and since an event can only be waited for after it was recorded, there is no cycle.
// A worker is woken lazily: it dozes some tenths of a millisecond after its last task, and a task
// that arrives meanwhile is found at the end of the doze, without a system call by the host.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "emulator/Abi.h"
#include "emulator/Device.h"

namespace npu_emulator {

using Work = std::function<aclError()>;

// Appends a task to the stream (null: the default stream of the current context) and returns.
// `name` must live as long as the process (a literal). The work runs later, on another thread or on
// a thread that waits for the stream, with the stream's context current. It may block. What it
// captures must own its data. A code other than 0 becomes the stream's sticky error, with the
// message that the work gave to fail().
aclError enqueue(aclrtStream stream, const char* name, Work work);

// Inside a task: true once its stream was aborted (aclrtDestroyStreamForce, aclrtDeviceTaskAbort,
// end of the process). A task that blocks asks at every wake-up, at least each 250 ms, and returns
// ACL_ERROR_RT_STREAM_ABORT. False outside of tasks.
bool taskCancelled() noexcept;

// Makes `code` the sticky error of the stream as if a task had failed.
void failStream(aclrtStream stream, aclError code, const std::string& message);

// Index of the stream's device, or -1 after fail() for a handle that is no stream.
int deviceOfStream(aclrtStream stream);

class Stream : public std::enable_shared_from_this<Stream> {
 public:
  static constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();

  Stream(Context* context, uint32_t priority, uint32_t flags);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  Context* context() const { return context_; }
  int32_t id() const { return id_; }
  uint32_t priority() const { return priority_; }
  uint32_t flags() const { return flags_; }

  // Appends a task and gives its ticket: tasks are numbered from 1 in the order of the stream.
  // `always` tasks run even when the stream drops its work after a failure: they complete events.
  aclError push(const char* name, Work work, uint64_t* ticket = nullptr, bool always = false);

  // Returns when the first `ticket` tasks are done, running them itself where it can. With a
  // timeout it only waits, since a task cannot be interrupted; false: it passed.
  bool waitFor(uint64_t ticket, std::chrono::nanoseconds timeout = kForever);

  // Waits for everything pushed before; returns the sticky error (message by fail()).
  aclError synchronize(std::chrono::nanoseconds timeout = kForever);

  bool isDone(uint64_t ticket);
  uint64_t lastTicket();

  // The sticky error, 0 if none; its message goes to fail().
  aclError reportError();
  aclError stickyError(std::string* message);
  void setError(aclError code, std::string message);
  void clearError();
  // True when tasks are dropped: after an abort, or after a failure in the mode stop-on-failure.
  bool dropping();

  // Drops queued tasks and tells the running one to stop (taskCancelled).
  void abort();
  // Takes tasks again after an abort.
  void revive();
  bool aborted() const { return cancel_.load(std::memory_order_acquire); }
  // Ends the worker once the queue is empty; waits for that at most `timeout`, true if it ended.
  bool stop(std::chrono::nanoseconds timeout);

  // Attributes that CANN lets programs set and read.
  std::atomic<uint64_t> failureMode{ACL_CONTINUE_ON_FAILURE};
  std::atomic<uint32_t> overflowSwitch{0};
  std::atomic<uint32_t> customTag{0};
  std::atomic<uint32_t> cacheOpInfo{0};
  std::atomic<uint32_t> resourceLimit[2] = {0, 0};  // by aclrtDevResLimitType, 0: the device's
  std::atomic<uint64_t> reportThread{0};            // thread of aclrtSubscribeReport, 0: none

 private:
  struct Task {
    const char* name;
    Work work;
    bool always;
    uint64_t queuedAt;  // nanoseconds, only when tracing
  };
  enum class Worker { None, Running, Dozing, Asleep, Ended };

  void runFront(std::unique_lock<std::mutex>& lock);
  void passOn();
  void workerLoop();
  void needWorker();

  Context* const context_;
  const int32_t id_;
  const uint32_t priority_;
  const uint32_t flags_;
  std::atomic<bool> cancel_{false};

  // Guards what follows. Nothing else is locked and no task runs while it is held.
  std::mutex mutex_;
  std::condition_variable done_;  // for waitFor
  std::condition_variable work_;  // for the worker: there is much to do, or the stream ends
  std::deque<Task> queue_;
  uint64_t pushed_ = 0;           // tickets given
  uint64_t completed_ = 0;        // tasks done; they end in order
  uint64_t wakeAt_ = kNever;      // smallest ticket that somebody waits for
  int waiters_ = 0;
  bool running_ = false;          // some thread runs the front task
  bool stopping_ = false;
  bool hurry_ = false;            // the worker shall not doze
  Worker worker_ = Worker::None;
  aclError error_ = ACL_SUCCESS;
  std::string errorMessage_;
  std::thread thread_;

  static constexpr uint64_t kNever = ~uint64_t{0};
};

// The stream behind a handle (null: default stream of the current context), or null after fail().
std::shared_ptr<Stream> findStream(aclrtStream handle);
// The code that goes with the message of findStream() when it gave null.
aclError streamErrorCode(aclrtStream handle);

// All streams that exist, for aclrtSynchronizeDevice (device -1: of every device).
std::vector<std::shared_ptr<Stream>> streamsOf(int device);

// Waits for all streams of a device; the first sticky error.
aclError synchronizeDevice(int device, std::chrono::nanoseconds timeout = Stream::kForever);

// Makes a stream of the current context; waits for its tasks and destroys it.
aclError createStream(aclrtStream* handle, uint32_t priority, uint32_t flags, const char* call);
// By force: drops its tasks instead.
aclError destroyStream(aclrtStream handle, bool force, const char* call);

// Waits for every stream of a device whose context is reset, and destroys them. Tasks that do not
// end within `timeout` are left alone.
void destroyStreamsOf(int device, std::chrono::nanoseconds timeout = Stream::kForever);

// Ends all workers; tasks that do not end within `timeout` are left alone.
void stopAllStreams(std::chrono::nanoseconds timeout);

}  // namespace npu_emulator
