// Events with versions: a wait holds on to the recording that it saw, so that recording the event
// again does not move it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "emulator/Abi.h"
#include "emulator/SharedSlot.h"
#include "emulator/Stream.h"

namespace npu_emulator {

// One recording of an event on a stream.
struct Recording {
  std::shared_ptr<Stream> stream;
  uint64_t ticket = 0;            // of its task on the stream
  std::atomic<bool> done{false};  // set last: what follows is valid then
  uint64_t timestamp = 0;         // nanoseconds, when the stream reached it
  // The stream's sticky error when it reached the event: whoever waits for the event inherits it,
  // since the data that it stands for is not there.
  aclError error = ACL_SUCCESS;
  std::string message;
  std::atomic<bool> reset{false};
};

struct Event {
  explicit Event(uint32_t eventFlags) : flags(eventFlags) {}
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  const uint32_t flags;
  std::mutex mutex;  // guards latest; nothing else is locked under it
  std::shared_ptr<Recording> latest;
  std::atomic<int> pendingWaits{0};  // aclrtStreamWaitEvent whose stream has not got there
  // Of an event that other processes see (ACL_EVENT_IPC): its slot, and the memory that holds it.
  SharedSlot* shared = nullptr;
  int device = -1;  // whose file has the slot, when it is of this process
  std::shared_ptr<void> sharedOwner;
};

// The event behind a handle, or null after fail().
std::shared_ptr<Event> findEvent(aclrtEvent handle);

aclrtEvent addEvent(std::shared_ptr<Event> event);

}  // namespace npu_emulator
