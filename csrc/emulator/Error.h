// Status codes with a message: aclGetRecentErrMsg and aclrtGetLastError of the calling thread.
#pragma once

#include <chrono>
#include <string>

#include "emulator/Abi.h"

namespace npu_emulator {

// Keeps `message` as this thread's recent message and `code` as its last error; returns `code`,
// so that a function can end with `return fail(...)`. Works in a stream's task too: the message
// then travels with the stream's sticky error to whoever synchronises.
aclError fail(aclError code, std::string message);

// The recent message of this thread, which is empty afterwards.
std::string takeRecentMessage();

// Restores what takeRecentMessage() took: a task that runs on a host thread must not disturb the
// messages of that thread.
void setRecentMessage(std::string message);

// True in a child process that was forked after its parent had used a device. Locks of the parent
// may be held by threads that do not exist here, so nothing may be locked: functions that use the
// device return forkedError() first.
bool isForkedChild() noexcept;
aclError forkedError();

// A running task gets this long when the process ends, or aclFinalize is called.
inline constexpr std::chrono::seconds kExitPatience{2};

// Marks this process as a user of devices (fork detection, exit handler, library stays loaded).
void markDeviceUsed();

}  // namespace npu_emulator
