#include "emulator/Event.h"

#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "emulator/Error.h"
#include "emulator/Handle.h"
#include "emulator/Trace.h"

namespace npu_emulator {
namespace {

HandleTable<Event>& table() {
  static auto* handles = new HandleTable<Event>;
  return *handles;
}

// aclrtSetOpWaitTimeout in seconds; 0: for ever.
std::atomic<uint32_t> waitTimeout{0};

// Sleeps until `word` differs from `seen` or 100 ms passed.
void futexWait(std::atomic<uint32_t>* word, uint32_t seen) {
  const timespec step{0, 100'000'000};
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAIT, seen, &step, nullptr, 0);
}

void futexWakeAll(std::atomic<uint32_t>* word) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool reached(const SharedSlot& slot, uint32_t version) {
  return static_cast<int32_t>(slot.completed.load(std::memory_order_acquire) - version) >= 0;
}

// Waits for a version that any process recorded.
aclError waitShared(SharedSlot& slot, uint32_t version) {
  while (!reached(slot, version)) {
    if (taskCancelled()) {
      return fail(
          ACL_ERROR_RT_STREAM_ABORT, "the wait for an event of another process was cancelled");
    }
    const uint32_t seen = slot.completed.load(std::memory_order_acquire);
    if (static_cast<int32_t>(seen - version) >= 0) {
      break;
    }
    futexWait(&slot.completed, seen);
    const int32_t recorder = slot.recorder.load();
    if (!reached(slot, version) && recorder != 0 && ::kill(recorder, 0) != 0 && errno == ESRCH) {
      return fail(
          ACL_ERROR_RT_LOST_HEARTBEAT,
          "process " + std::to_string(recorder) + ", which recorded the shared event, is gone");
    }
  }
  return slot.error.load();
}

void completeShared(SharedSlot& slot, uint32_t version, uint64_t timestamp, aclError error) {
  if (!reached(slot, version)) {
    slot.timestamp.store(timestamp);
    slot.error.store(error);
    slot.completed.store(version, std::memory_order_release);
    futexWakeAll(&slot.completed);
  }
}

aclError recordingError(const Recording& recording) {
  return recording.error == ACL_SUCCESS ? ACL_SUCCESS : fail(recording.error, recording.message);
}

// Waits for a recording; runs the stream that it is on where nobody else does.
aclError waitRecording(Recording& recording, std::chrono::nanoseconds timeout) {
  if (!recording.done.load(std::memory_order_acquire) &&
      !recording.stream->waitFor(recording.ticket, timeout)) {
    return fail(
        ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "the event on stream " +
                                             std::to_string(recording.stream->id()) +
                                             " was not reached in time");
  }
  return recordingError(recording);
}

std::shared_ptr<Recording> latestRecording(Event& event) {
  std::lock_guard lock(event.mutex);
  return event.latest != nullptr && event.latest->reset.load() ? nullptr : event.latest;
}

aclError createEvent(aclrtEvent* event, uint32_t flag, const char* name) {
  if (event == nullptr) {
    return fail(ACL_ERROR_INVALID_PARAM, std::string(name) + ": the event pointer is null");
  }
  if (currentContext() == nullptr) {
    return ACL_ERROR_RT_CONTEXT_NULL;
  }
  constexpr uint32_t kKnown = ACL_EVENT_SYNC | ACL_EVENT_CAPTURE_STREAM_PROGRESS |
      ACL_EVENT_TIME_LINE | ACL_EVENT_DEVICE_USE_ONLY | ACL_EVENT_EXTERNAL | ACL_EVENT_IPC;
  if ((flag & ~kKnown) != 0) {
    return fail(
        ACL_ERROR_INVALID_PARAM,
        std::string(name) + ": unknown flags " + std::to_string(flag & ~kKnown));
  }
  auto made = std::make_shared<Event>(flag);
  if ((flag & ACL_EVENT_IPC) != 0) {
    made->device = currentDeviceOrNone();
    made->shared = takeSlot(made->device, SharedSlot::EventSlot);
    if (made->shared == nullptr) {
      return ACL_ERROR_RT_NO_EVENT_RESOURCE;
    }
  }
  *event = table().add(std::move(made));
  return ACL_SUCCESS;
}

aclError record(const std::shared_ptr<Event>& event, aclrtStream handle) {
  auto stream = findStream(handle);
  if (stream == nullptr) {
    return streamErrorCode(handle);
  }
  auto recording = std::make_shared<Recording>();
  recording->stream = stream;
  SharedSlot* const shared = event->shared;
  uint32_t version = 0;
  if (shared != nullptr) {
    version = shared->recorded.fetch_add(1) + 1;
    shared->recorder.store(static_cast<int32_t>(::getpid()));
  }
  uint64_t ticket = 0;
  const aclError code = stream->push(
      "aclrtRecordEvent",
      [recording, shared, version, keep = shared != nullptr ? event : nullptr,
       raw = stream.get()]() -> aclError {
        recording->timestamp = nowNanoseconds();
        recording->error = raw->stickyError(&recording->message);
        recording->done.store(true, std::memory_order_release);
        if (shared != nullptr) {
          completeShared(*shared, version, recording->timestamp, recording->error);
        }
        return ACL_SUCCESS;
      },
      &ticket, /*always=*/true);
  if (code != ACL_SUCCESS) {
    return code;
  }
  recording->ticket = ticket;
  std::lock_guard lock(event->mutex);
  event->latest = std::move(recording);
  return ACL_SUCCESS;
}

aclError waitOnStream(const std::shared_ptr<Event>& event, aclrtStream handle) {
  auto stream = findStream(handle);
  if (stream == nullptr) {
    return streamErrorCode(handle);
  }
  if (SharedSlot* shared = event->shared) {
    const uint32_t version = shared->recorded.load();
    event->pendingWaits.fetch_add(1);
    return stream->push(
        "aclrtStreamWaitEvent",
        [event, shared, version]() -> aclError {
          const aclError code = waitShared(*shared, version);
          event->pendingWaits.fetch_sub(1);
          return code;
        },
        nullptr, /*always=*/true);
  }
  auto recording = latestRecording(*event);
  if (recording == nullptr || recording->stream == stream ||
      (recording->done.load(std::memory_order_acquire) && recording->error == ACL_SUCCESS)) {
    return ACL_SUCCESS;  // never recorded, or reached before: there is nothing to wait for
  }
  event->pendingWaits.fetch_add(1);
  return stream->push(
      "aclrtStreamWaitEvent",
      [event, recording, raw = stream.get()]() -> aclError {
        aclError code = ACL_SUCCESS;
        if (!raw->dropping()) {
          const uint32_t limit = waitTimeout.load();
          code = waitRecording(
              *recording, limit == 0 ? Stream::kForever : std::chrono::seconds(limit));
        }
        event->pendingWaits.fetch_sub(1);
        return code;
      },
      nullptr, /*always=*/true);
}

// Both ends of a measured time.
aclError timestampOf(Event& event, const char* name, uint64_t* timestamp) {
  if ((event.flags & ACL_EVENT_TIME_LINE) == 0) {
    return fail(
        ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
        std::string(name) + ": the event was made without ACL_EVENT_TIME_LINE");
  }
  if (event.shared != nullptr) {
    const uint32_t version = event.shared->recorded.load();
    if (version == 0 || !reached(*event.shared, version)) {
      return fail(
          ACL_ERROR_RT_EVENT_NOT_COMPLETE, std::string(name) + ": the event was not reached yet");
    }
    *timestamp = event.shared->timestamp.load();
    return ACL_SUCCESS;
  }
  auto recording = latestRecording(event);
  if (recording == nullptr) {
    return fail(
        ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, std::string(name) + ": the event was not recorded");
  }
  if (!recording->done.load(std::memory_order_acquire)) {
    return fail(
        ACL_ERROR_RT_EVENT_NOT_COMPLETE,
        std::string(name) + ": the stream has not reached the event: synchronise first");
  }
  *timestamp = recording->timestamp;
  return ACL_SUCCESS;
}

template <class Body>
aclError withEvent(aclrtEvent handle, Body body) {
  auto event = findEvent(handle);
  return event == nullptr
             ? (isForkedChild() ? ACL_ERROR_RT_CONTEXT_NULL : ACL_ERROR_RT_INVALID_HANDLE)
             : body(event);
}

aclError nullResult(const char* name) {
  return fail(ACL_ERROR_INVALID_PARAM, std::string(name) + ": the result pointer is null");
}

}  // namespace

Event::~Event() {
  // The cell belongs to whoever exported it; an importer only unmaps (sharedOwner).
  if (shared != nullptr && sharedOwner == nullptr) {
    releaseSlot(shared);
  }
}

std::shared_ptr<Event> findEvent(aclrtEvent handle) {
  if (isForkedChild()) {
    forkedError();
    return nullptr;
  }
  auto event = table().find(handle);
  if (event == nullptr) {
    fail(
        ACL_ERROR_RT_INVALID_HANDLE,
        "the event handle is not one that aclrtCreateEvent* gave, or it was destroyed");
  }
  return event;
}

aclrtEvent addEvent(std::shared_ptr<Event> event) {
  return table().add(std::move(event));
}

}  // namespace npu_emulator

using namespace npu_emulator;

extern "C" {

aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t flag) {
  return call("aclrtCreateEventWithFlag", [&] {
    return createEvent(event, flag, "aclrtCreateEventWithFlag");
  });
}

aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t flag) {
  return call("aclrtCreateEventExWithFlag", [&] {
    return createEvent(event, flag, "aclrtCreateEventExWithFlag");
  });
}

aclError aclrtDestroyEvent(aclrtEvent event) {
  return call("aclrtDestroyEvent", [&] {
    return withEvent(event, [&](const std::shared_ptr<Event>&) -> aclError {
      table().remove(event);
      return ACL_SUCCESS;
    });
  });
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream) {
  return call("aclrtRecordEvent", [&] {
    return withEvent(event, [&](const std::shared_ptr<Event>& e) { return record(e, stream); });
  });
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event) {
  return call("aclrtStreamWaitEvent", [&] {
    return withEvent(
        event, [&](const std::shared_ptr<Event>& e) { return waitOnStream(e, stream); });
  });
}

aclError aclrtResetEvent(aclrtEvent event, aclrtStream stream) {
  return call("aclrtResetEvent", [&] {
    return withEvent(event, [&](const std::shared_ptr<Event>& e) -> aclError {
      auto recording = latestRecording(*e);
      if (recording == nullptr) {
        return findStream(stream) == nullptr ? streamErrorCode(stream) : ACL_SUCCESS;
      }
      return enqueue(stream, "aclrtResetEvent", [recording]() -> aclError {
        recording->reset.store(true);
        return ACL_SUCCESS;
      });
    });
  });
}

aclError aclrtSynchronizeEvent(aclrtEvent event) {
  return call("aclrtSynchronizeEvent", [&] {
    return withEvent(event, [&](const std::shared_ptr<Event>& e) -> aclError {
      if (e->shared != nullptr) {
        return waitShared(*e->shared, e->shared->recorded.load());
      }
      auto recording = latestRecording(*e);
      return recording == nullptr ? ACL_SUCCESS : waitRecording(*recording, Stream::kForever);
    });
  });
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status) {
  return call("aclrtQueryEventStatus", [&] {
    return withEvent(event, [&](const std::shared_ptr<Event>& e) -> aclError {
      if (status == nullptr) {
        return nullResult("aclrtQueryEventStatus");
      }
      bool done = false;
      if (e->shared != nullptr) {
        const uint32_t version = e->shared->recorded.load();
        done = version != 0 && reached(*e->shared, version);
      } else {
        auto recording = latestRecording(*e);
        done = recording != nullptr && recording->done.load(std::memory_order_acquire);
        if (done && recording->error != ACL_SUCCESS) {
          *status = ACL_EVENT_RECORDED_STATUS_COMPLETE;
          return recordingError(*recording);
        }
      }
      *status = done ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
      return ACL_SUCCESS;
    });
  });
}

aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus* status) {
  return call("aclrtQueryEventWaitStatus", [&] {
    return withEvent(event, [&](const std::shared_ptr<Event>& e) -> aclError {
      if (status == nullptr) {
        return nullResult("aclrtQueryEventWaitStatus");
      }
      *status = e->pendingWaits.load() == 0 ? ACL_EVENT_WAIT_STATUS_COMPLETE
                                            : ACL_EVENT_WAIT_STATUS_NOT_READY;
      return ACL_SUCCESS;
    });
  });
}

aclError aclrtEventElapsedTime(float* ms, aclrtEvent startEvent, aclrtEvent endEvent) {
  return call("aclrtEventElapsedTime", [&] {
    return withEvent(startEvent, [&](const std::shared_ptr<Event>& start) {
      return withEvent(endEvent, [&](const std::shared_ptr<Event>& end) -> aclError {
        if (ms == nullptr) {
          return nullResult("aclrtEventElapsedTime");
        }
        uint64_t from = 0;
        uint64_t to = 0;
        for (auto [event, time] : {std::pair{&start, &from}, std::pair{&end, &to}}) {
          if (const aclError code = timestampOf(**event, "aclrtEventElapsedTime", time)) {
            return code;
          }
        }
        *ms = static_cast<float>(static_cast<double>(static_cast<int64_t>(to - from)) / 1e6);
        return ACL_SUCCESS;
      });
    });
  });
}

aclError aclrtEventGetTimestamp(aclrtEvent event, uint64_t* timestamp) {
  return call("aclrtEventGetTimestamp", [&] {
    return withEvent(event, [&](const std::shared_ptr<Event>& e) -> aclError {
      if (timestamp == nullptr) {
        return nullResult("aclrtEventGetTimestamp");
      }
      const aclError code = timestampOf(*e, "aclrtEventGetTimestamp", timestamp);
      *timestamp = code == ACL_SUCCESS ? *timestamp / 1000 : *timestamp;  // in microseconds
      return code;
    });
  });
}

aclError aclrtSetOpWaitTimeout(uint32_t timeout) {
  return call("aclrtSetOpWaitTimeout", [&]() -> aclError {
    waitTimeout.store(timeout);
    return ACL_SUCCESS;
  });
}

}  // extern "C"
