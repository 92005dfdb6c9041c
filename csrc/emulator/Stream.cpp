#include "emulator/Stream.h"

#include <algorithm>
#include <array>

#include "emulator/Error.h"
#include "emulator/Handle.h"
#include "emulator/Trace.h"

namespace npu_emulator {
namespace {

using std::chrono::microseconds;

// See Note [Who runs a task].
constexpr microseconds kDoze{250};
constexpr int kDozes = 4;
constexpr size_t kHurryDepth = 32;
// A host this far ahead of its stream helps, so that the queue's memory stays bounded.
constexpr uint64_t kMaxQueued = 16384;

// How long a destroyed stream's worker may take after its last task.
constexpr std::chrono::seconds kWorkerPatience{5};

std::atomic<int32_t> nextStreamId{1};

HandleTable<Stream>& table() {
  static auto* handles = new HandleTable<Stream>;  // never destroyed: workers outlive main()
  return *handles;
}

thread_local Stream* runningStream = nullptr;

// Time until `end`, not negative.
std::chrono::nanoseconds remaining(std::chrono::steady_clock::time_point end) {
  return std::max<std::chrono::nanoseconds>(
      end - std::chrono::steady_clock::now(), std::chrono::nanoseconds{0});
}

}  // namespace

Stream::Stream(Context* context, uint32_t priority, uint32_t flags)
    : context_(context),
      id_(nextStreamId.fetch_add(1, std::memory_order_relaxed)),
      priority_(priority),
      flags_(flags) {}

Stream::~Stream() {
  if (thread_.joinable()) {
    thread_.detach();  // it is this thread, or one that did not end in time
  }
}

aclError Stream::push(const char* name, Work work, uint64_t* ticket, bool always) {
  std::unique_lock lock(mutex_);
  if (stopping_) {
    return fail(
        ACL_ERROR_RT_STREAM_ABORT,
        std::string(name) + ": stream " + std::to_string(id_) + " takes no more work: it was "
            "destroyed, or the process is ending");
  }
  queue_.push_back(Task{name, std::move(work), always, tracing() ? nowNanoseconds() : 0});
  const uint64_t mine = ++pushed_;
  if (ticket != nullptr) {
    *ticket = mine;
  }
  if (!running_) {
    needWorker();
  }
  if (queue_.size() > kMaxQueued && runningStream == nullptr) {
    lock.unlock();
    waitFor(mine - kMaxQueued / 2);
  }
  return ACL_SUCCESS;
}

// Makes sure that the worker will look at the queue. Under mutex_.
void Stream::needWorker() {
  switch (worker_) {
    case Worker::None:
      worker_ = Worker::Dozing;
      thread_ = std::thread([self = shared_from_this()] { self->workerLoop(); });
      break;
    case Worker::Asleep:
      worker_ = Worker::Dozing;
      work_.notify_one();
      break;
    case Worker::Dozing:
      if (!hurry_ && queue_.size() >= kHurryDepth) {
        hurry_ = true;
        work_.notify_one();
      }
      break;
    case Worker::Running:
    case Worker::Ended:
      break;
  }
}

// Runs the first task. Under mutex_, which is released meanwhile; nobody else may be running.
void Stream::runFront(std::unique_lock<std::mutex>& lock) {
  Task task = std::move(queue_.front());
  queue_.pop_front();
  running_ = true;
  const bool dropped = !task.always &&
      (aborted() || (error_ != ACL_SUCCESS && failureMode.load() != ACL_CONTINUE_ON_FAILURE));
  lock.unlock();

  aclError code = ACL_SUCCESS;
  std::string message;
  if (!dropped) {
    Stream* const outerStream = std::exchange(runningStream, this);
    Context* const outerContext = currentContextOrNone();
    setCurrentContext(context_);
    std::string outerMessage = takeRecentMessage();
    const uint64_t start = nowNanoseconds();
    code = instrumented() ? faultAtTask(task.name) : ACL_SUCCESS;
    if (code == ACL_SUCCESS) {
      try {
        code = task.work();
      } catch (const std::exception& error) {
        code = fail(
            ACL_ERROR_RT_AICORE_EXCEPTION, std::string(task.name) + " failed: " + error.what());
      }
    }
    const uint64_t end = nowNanoseconds();
    context_->device->addBusy(end - start);
    if (tracing()) {
      traceTask(task.name, context_->device->index(), id_, task.queuedAt, start, end, code);
    }
    message = takeRecentMessage();
    setRecentMessage(std::move(outerMessage));
    setCurrentContext(outerContext);
    runningStream = outerStream;
  }
  task.work = nullptr;  // what it holds is released before anyone hears that it is done

  lock.lock();
  if (code != ACL_SUCCESS && error_ == ACL_SUCCESS) {
    error_ = code;
    errorMessage_ = message.empty() ? std::string(task.name) + " failed" : std::move(message);
  }
  running_ = false;
  if (++completed_ >= wakeAt_) {
    wakeAt_ = kNever;
    done_.notify_all();
  }
}

// A thread that stops running tasks leaves the rest to whoever waits, or to the worker.
void Stream::passOn() {
  if (queue_.empty() || running_) {
    return;
  }
  if (waiters_ > 0) {
    wakeAt_ = kNever;
    done_.notify_all();
  } else {
    needWorker();
  }
}

void Stream::workerLoop() {
  std::unique_lock lock(mutex_);
  int dozes = 0;
  while (!(stopping_ && queue_.empty())) {
    const bool free = !running_ && !queue_.empty();
    if (free && (hurry_ || dozes > 0 || stopping_)) {
      worker_ = Worker::Running;
      while (!queue_.empty() && !running_) {
        runFront(lock);
      }
      hurry_ = false;
      dozes = 0;
    } else if (dozes < kDozes) {
      worker_ = Worker::Dozing;
      work_.wait_for(lock, kDoze, [&] { return hurry_ || stopping_; });
      ++dozes;
    } else {
      worker_ = Worker::Asleep;
      work_.wait(lock, [&] { return worker_ != Worker::Asleep || stopping_; });
      dozes = 0;
    }
    if (stopping_ && running_) {
      // Another thread runs the last tasks; it calls passOn() or empties the queue.
      ++waiters_;
      done_.wait_for(lock, kDoze);
      --waiters_;
    }
  }
  worker_ = Worker::Ended;
  done_.notify_all();
}

bool Stream::waitFor(uint64_t ticket, std::chrono::nanoseconds timeout) {
  const bool forever = timeout == kForever;
  const auto end =
      std::chrono::steady_clock::now() + (forever ? std::chrono::nanoseconds{0} : timeout);
  std::unique_lock lock(mutex_);
  while (completed_ < ticket) {
    if (forever && !running_) {
      runFront(lock);
      continue;
    }
    if (!forever && !running_) {
      needWorker();
    }
    wakeAt_ = std::min(wakeAt_, ticket);
    ++waiters_;
    bool inTime = true;
    if (forever) {
      done_.wait(lock);
    } else {
      inTime = done_.wait_until(lock, end) == std::cv_status::no_timeout;
    }
    --waiters_;
    if (!inTime && completed_ < ticket) {
      passOn();
      return false;
    }
  }
  passOn();
  return true;
}

aclError Stream::synchronize(std::chrono::nanoseconds timeout) {
  if (runningStream == this) {
    return fail(
        ACL_ERROR_RT_STREAM_NOT_SUPPORT_OPERA, "a task of stream " + std::to_string(id_) +
                                                   " waits for its own stream: it would never end");
  }
  if (!waitFor(lastTicket(), timeout)) {
    return fail(
        ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
        "stream " + std::to_string(id_) + " of device " +
            std::to_string(context_->device->index()) + " did not finish in " +
            std::to_string(std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count()) +
            " ms");
  }
  return reportError();
}

bool Stream::isDone(uint64_t ticket) {
  std::lock_guard lock(mutex_);
  return completed_ >= ticket;
}

uint64_t Stream::lastTicket() {
  std::lock_guard lock(mutex_);
  return pushed_;
}

aclError Stream::reportError() {
  std::lock_guard lock(mutex_);
  return error_ == ACL_SUCCESS ? ACL_SUCCESS : fail(error_, errorMessage_);
}

void Stream::setError(aclError code, std::string message) {
  std::lock_guard lock(mutex_);
  if (error_ == ACL_SUCCESS) {
    error_ = code;
    errorMessage_ = std::move(message);
  }
}

void Stream::clearError() {
  std::lock_guard lock(mutex_);
  error_ = ACL_SUCCESS;
  errorMessage_.clear();
}

aclError Stream::stickyError(std::string* message) {
  std::lock_guard lock(mutex_);
  if (error_ != ACL_SUCCESS) {
    *message = errorMessage_;
  } else if (aborted()) {
    *message = "the work of stream " + std::to_string(id_) + " was aborted";
    return ACL_ERROR_RT_STREAM_ABORT;
  }
  return error_;
}

bool Stream::dropping() {
  std::lock_guard lock(mutex_);
  return aborted() || (error_ != ACL_SUCCESS && failureMode.load() != ACL_CONTINUE_ON_FAILURE);
}

void Stream::abort() {
  std::lock_guard lock(mutex_);
  cancel_.store(true, std::memory_order_release);
  if (!running_ && !queue_.empty()) {
    hurry_ = true;
    if (worker_ == Worker::Dozing) {
      work_.notify_one();
    }
    needWorker();
  }
}

void Stream::revive() {
  std::lock_guard lock(mutex_);
  cancel_.store(false, std::memory_order_release);
}

bool Stream::stop(std::chrono::nanoseconds timeout) {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  if (worker_ == Worker::None) {
    return true;
  }
  work_.notify_all();
  ++waiters_;
  const bool ended = done_.wait_for(lock, timeout, [&] { return worker_ == Worker::Ended; });
  --waiters_;
  lock.unlock();
  if (ended && thread_.joinable() && thread_.get_id() != std::this_thread::get_id()) {
    thread_.join();
  }
  return ended;
}

bool taskCancelled() noexcept {
  return runningStream != nullptr && runningStream->aborted();
}

std::shared_ptr<Stream> findStream(aclrtStream handle) {
  if (isForkedChild()) {
    forkedError();
    return nullptr;
  }
  if (handle == nullptr) {
    Context* context = currentContext();
    if (context == nullptr) {
      return nullptr;
    }
    std::lock_guard lock(context->mutex);
    if (context->defaultStream == nullptr) {
      context->defaultStream = std::make_shared<Stream>(context, 0, 0);
    }
    return context->defaultStream;
  }
  auto stream = table().find(handle);
  if (stream == nullptr) {
    fail(
        ACL_ERROR_RT_INVALID_HANDLE,
        "the stream handle is not one that aclrtCreateStream* gave, or it was destroyed");
  }
  return stream;
}

aclError streamErrorCode(aclrtStream handle) {
  return handle == nullptr || isForkedChild() ? ACL_ERROR_RT_CONTEXT_NULL
                                              : ACL_ERROR_RT_INVALID_HANDLE;
}

aclError enqueue(aclrtStream handle, const char* name, Work work) {
  auto stream = findStream(handle);
  if (stream == nullptr) {
    return streamErrorCode(handle);
  }
  return stream->push(name, std::move(work));
}

void failStream(aclrtStream handle, aclError code, const std::string& message) {
  if (auto stream = findStream(handle)) {
    stream->setError(code, message);
  }
}

int deviceOfStream(aclrtStream handle) {
  auto stream = findStream(handle);
  return stream == nullptr ? -1 : stream->context()->device->index();
}

std::vector<std::shared_ptr<Stream>> streamsOf(int device) {
  auto streams = table().objects();
  std::erase_if(streams, [&](const auto& stream) {
    return device >= 0 && stream->context()->device->index() != device;
  });
  for (Context* context : allContexts()) {
    if (device < 0 || context->device->index() == device) {
      std::lock_guard lock(context->mutex);
      if (context->defaultStream != nullptr) {
        streams.push_back(context->defaultStream);
      }
    }
  }
  return streams;
}

aclError synchronizeDevice(int device, std::chrono::nanoseconds timeout) {
  const auto end = std::chrono::steady_clock::now() +
      (timeout == Stream::kForever ? std::chrono::nanoseconds{0} : timeout);
  aclError first = ACL_SUCCESS;
  std::string message;
  for (const auto& stream : streamsOf(device)) {
    const aclError code =
        stream->synchronize(timeout == Stream::kForever ? timeout : remaining(end));
    if (code != ACL_SUCCESS && first == ACL_SUCCESS) {
      first = code;
      message = takeRecentMessage();
    }
  }
  return first == ACL_SUCCESS ? ACL_SUCCESS : fail(first, std::move(message));
}

aclError createStream(
    aclrtStream* handle, uint32_t priority, uint32_t flags, const char* name) {
  if (handle == nullptr) {
    return fail(ACL_ERROR_INVALID_PARAM, std::string(name) + ": the stream pointer is null");
  }
  Context* context = currentContext();
  if (context == nullptr) {
    return ACL_ERROR_RT_CONTEXT_NULL;
  }
  *handle = table().add(std::make_shared<Stream>(context, priority, flags));
  return ACL_SUCCESS;
}

aclError destroyStream(aclrtStream handle, bool force, const char* name) {
  if (handle == nullptr) {
    return fail(ACL_ERROR_INVALID_PARAM, std::string(name) + ": the stream is null");
  }
  if (isForkedChild()) {
    return forkedError();
  }
  auto stream = table().remove(handle);
  if (stream == nullptr) {
    return fail(
        ACL_ERROR_RT_INVALID_HANDLE,
        std::string(name) + ": not a stream of aclrtCreateStream*, or destroyed before");
  }
  if (force) {
    stream->abort();
  } else {
    stream->waitFor(stream->lastTicket());
  }
  stream->stop(kWorkerPatience);
  return ACL_SUCCESS;
}

void destroyStreamsOf(int device, std::chrono::nanoseconds timeout) {
  auto streams = table().removeIf(
      [&](const Stream& stream) { return stream.context()->device->index() == device; });
  if (Context* context = contextAt(device)) {
    std::lock_guard lock(context->mutex);
    if (context->defaultStream != nullptr) {
      streams.push_back(std::move(context->defaultStream));
    }
  }
  const bool forever = timeout == Stream::kForever;
  const auto end =
      std::chrono::steady_clock::now() + (forever ? std::chrono::nanoseconds{0} : timeout);
  for (const auto& stream : streams) {
    const auto left = remaining(end);
    stream->waitFor(stream->lastTicket(), forever ? timeout : left);
    stream->stop(forever ? kWorkerPatience : left);
  }
}

void stopAllStreams(std::chrono::nanoseconds timeout) {
  const auto streams = streamsOf(-1);
  for (const auto& stream : streams) {
    stream->abort();
  }
  const auto end = std::chrono::steady_clock::now() + timeout;
  for (const auto& stream : streams) {
    stream->stop(remaining(end));
  }
}

}  // namespace npu_emulator
