#include "emulator/Error.h"

#include <dlfcn.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "emulator/Communicator.h"
#include "emulator/Stream.h"

namespace npu_emulator {
namespace {

thread_local std::string recentMessage;
thread_local std::string returnedMessage;  // what aclGetRecentErrMsg gave out last
thread_local aclError lastError = ACL_SUCCESS;

std::atomic<bool> forkedChild{false};

void stopAtExit() {
  if (!isForkedChild()) {
    leaveCommunicators("the process ends");
    stopAllStreams(kExitPatience);
  }
}

}  // namespace

aclError fail(aclError code, std::string message) {
  lastError = code;
  recentMessage = std::move(message);
  return code;
}

std::string takeRecentMessage() {
  return std::exchange(recentMessage, std::string());
}

void setRecentMessage(std::string message) {
  recentMessage = std::move(message);
}

bool isForkedChild() noexcept {
  return forkedChild.load(std::memory_order_relaxed);
}

aclError forkedError() {
  return fail(
      ACL_ERROR_RT_CONTEXT_NULL,
      "this process was forked after its parent had used an NPU; a forked child cannot use one: "
      "start it by the method 'spawn' or 'forkserver', or fork before the first use");
}

void markDeviceUsed() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Worker threads run this library's code until the process ends.
    Dl_info self{};
    if (dladdr(reinterpret_cast<void*>(&stopAtExit), &self) != 0 && self.dli_fname != nullptr) {
      dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    }
    pthread_atfork(nullptr, nullptr, [] { forkedChild.store(true, std::memory_order_relaxed); });
    std::atexit(stopAtExit);
  });
}

}  // namespace npu_emulator

using namespace npu_emulator;

extern "C" {

const char* aclGetRecentErrMsg() {
  if (recentMessage.empty()) {
    return nullptr;
  }
  returnedMessage = takeRecentMessage();
  return returnedMessage.c_str();
}

aclError aclrtGetLastError(aclrtLastErrLevel level) {
  if (level != ACL_RT_THREAD_LEVEL) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtGetLastError: level must be ACL_RT_THREAD_LEVEL");
  }
  return std::exchange(lastError, ACL_SUCCESS);
}

aclError aclrtPeekAtLastError(aclrtLastErrLevel level) {
  if (level != ACL_RT_THREAD_LEVEL) {
    return fail(ACL_ERROR_INVALID_PARAM, "aclrtPeekAtLastError: level must be ACL_RT_THREAD_LEVEL");
  }
  return lastError;
}

}  // extern "C"
