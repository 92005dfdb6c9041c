// Host functions in streams: aclrtLaunchHostFunc runs them by itself, aclrtLaunchCallback hands
// them to the thread that the program subscribed and that calls aclrtProcessReport.
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>

#include "emulator/Error.h"
#include "emulator/Stream.h"
#include "emulator/Trace.h"

namespace npu_emulator {
namespace {

struct Report {
  aclrtCallback function = nullptr;
  void* argument = nullptr;
  std::shared_ptr<std::atomic<bool>> done;
};

// Callbacks that wait for one subscribed thread.
struct Mailbox {
  std::deque<Report> reports;
  int streams = 0;  // subscriptions
};

struct Mailboxes {
  std::mutex mutex;  // guards boxes; no callback runs and nothing else is locked under it
  std::condition_variable arrived;
  std::condition_variable processed;
  std::map<uint64_t, Mailbox> boxes;
};

Mailboxes& mailboxes() {
  static auto* value = new Mailboxes;
  return *value;
}

// Programs name a thread by pthread_self() or by its number in the system.
uint64_t subscribedThread(const Mailboxes& m) {
  const auto self = static_cast<uint64_t>(::pthread_self());
  if (m.boxes.contains(self)) {
    return self;
  }
  const auto number = static_cast<uint64_t>(::syscall(SYS_gettid));
  return m.boxes.contains(number) ? number : 0;
}

aclError bad(const char* name, const std::string& what) {
  return fail(ACL_ERROR_INVALID_PARAM, std::string(name) + ": " + what);
}

constexpr std::chrono::milliseconds kLook{200};  // how often a waiting task looks for cancellation

aclError deliver(uint64_t thread, Report report, bool wait) {
  Mailboxes& m = mailboxes();
  std::unique_lock lock(m.mutex);
  const auto box = m.boxes.find(thread);
  if (box == m.boxes.end()) {
    return fail(
        ACL_ERROR_RT_STREAM_NO_CB_REG,
        "a callback's stream was unsubscribed before the callback was due");
  }
  auto done = report.done;
  box->second.reports.push_back(std::move(report));
  m.arrived.notify_all();
  while (wait && !done->load()) {
    if (taskCancelled()) {
      return fail(ACL_ERROR_RT_STREAM_ABORT, "a callback was cancelled before its thread ran it");
    }
    m.processed.wait_for(lock, kLook);
  }
  return ACL_SUCCESS;
}

}  // namespace
}  // namespace npu_emulator

using namespace npu_emulator;

extern "C" {

aclError aclrtSubscribeReport(uint64_t threadId, aclrtStream stream) {
  return call("aclrtSubscribeReport", [&]() -> aclError {
    auto found = findStream(stream);
    if (found == nullptr) {
      return streamErrorCode(stream);
    }
    if (threadId == 0) {
      return bad("aclrtSubscribeReport", "the thread is 0");
    }
    uint64_t nobody = 0;
    if (!found->reportThread.compare_exchange_strong(nobody, threadId)) {
      return fail(
          ACL_ERROR_REPEAT_SUBSCRIBE, "aclrtSubscribeReport: the stream has a thread already");
    }
    Mailboxes& m = mailboxes();
    std::lock_guard lock(m.mutex);
    ++m.boxes[threadId].streams;
    m.arrived.notify_all();
    return ACL_SUCCESS;
  });
}

aclError aclrtUnSubscribeReport(uint64_t threadId, aclrtStream stream) {
  return call("aclrtUnSubscribeReport", [&]() -> aclError {
    auto found = findStream(stream);
    if (found == nullptr) {
      return streamErrorCode(stream);
    }
    uint64_t expected = threadId;
    if (!found->reportThread.compare_exchange_strong(expected, 0)) {
      return fail(
          ACL_ERROR_STREAM_NOT_SUBSCRIBE,
          "aclrtUnSubscribeReport: the stream is not subscribed by this thread");
    }
    Mailboxes& m = mailboxes();
    std::lock_guard lock(m.mutex);
    auto box = m.boxes.find(threadId);
    if (box != m.boxes.end() && --box->second.streams == 0) {
      m.boxes.erase(box);
      m.arrived.notify_all();
    }
    return ACL_SUCCESS;
  });
}

aclError aclrtProcessReport(int32_t timeout) {
  return call("aclrtProcessReport", [&]() -> aclError {
    if (timeout < -1) {
      return bad("aclrtProcessReport", "the timeout must be -1 (none) or milliseconds");
    }
    if (isForkedChild()) {
      return forkedError();
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout);
    Mailboxes& m = mailboxes();
    std::unique_lock lock(m.mutex);
    for (;;) {
      const uint64_t thread = subscribedThread(m);
      if (thread != 0 && !m.boxes[thread].reports.empty()) {
        Report report = std::move(m.boxes[thread].reports.front());
        m.boxes[thread].reports.pop_front();
        lock.unlock();
        report.function(report.argument);
        lock.lock();
        report.done->store(true);
        m.processed.notify_all();
        return ACL_SUCCESS;
      }
      if (thread == 0 && timeout == -1) {
        return fail(
            ACL_ERROR_THREAD_NOT_SUBSCRIBE,
            "aclrtProcessReport: no stream is subscribed by this thread");
      }
      if (timeout == -1) {
        m.arrived.wait(lock);
      } else if (m.arrived.wait_until(lock, end) == std::cv_status::timeout) {
        return thread == 0 ? fail(
                                 ACL_ERROR_THREAD_NOT_SUBSCRIBE,
                                 "aclrtProcessReport: no stream is subscribed by this thread")
                           : fail(
                                 ACL_ERROR_WAIT_CALLBACK_TIMEOUT,
                                 "aclrtProcessReport: no callback was due in time");
      }
    }
  });
}

aclError aclrtLaunchCallback(
    aclrtCallback fn, void* userData, aclrtCallbackBlockType blockType, aclrtStream stream) {
  return call("aclrtLaunchCallback", [&]() -> aclError {
    if (fn == nullptr || blockType > ACL_CALLBACK_BLOCK) {
      return bad("aclrtLaunchCallback", "the function is null or the type unknown");
    }
    auto found = findStream(stream);
    if (found == nullptr) {
      return streamErrorCode(stream);
    }
    const uint64_t thread = found->reportThread.load();
    if (thread == 0) {
      return fail(
          ACL_ERROR_STREAM_NOT_SUBSCRIBE,
          "aclrtLaunchCallback: no thread is subscribed to the stream: aclrtSubscribeReport first");
    }
    Report report{fn, userData, std::make_shared<std::atomic<bool>>(false)};
    return found->push("aclrtLaunchCallback", [thread, report, blockType] {
      return deliver(thread, report, blockType == ACL_CALLBACK_BLOCK);
    });
  });
}

aclError aclrtLaunchHostFunc(aclrtStream stream, aclrtHostFunc fn, void* args) {
  return call("aclrtLaunchHostFunc", [&]() -> aclError {
    if (fn == nullptr) {
      return bad("aclrtLaunchHostFunc", "the function is null");
    }
    return enqueue(stream, "aclrtLaunchHostFunc", [fn, args]() -> aclError {
      fn(args);
      return ACL_SUCCESS;
    });
  });
}

}  // extern "C"
