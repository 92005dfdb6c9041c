#include "emulator/Device.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <set>

#include "emulator/Communicator.h"
#include "emulator/Environment.h"
#include "emulator/Error.h"
#include "emulator/Memory.h"
#include "emulator/Stream.h"
#include "emulator/Trace.h"

namespace npu_emulator {
namespace {

// What the process has made of devices. Never destroyed: tasks may run until the very end.
struct State {
  std::mutex mutex;  // guards what follows
  std::unique_ptr<Environment> environment;  // kept from the first use of a device on
  std::vector<std::unique_ptr<Context>> contexts;  // by device index
  std::vector<std::unique_ptr<Device>> devices;
  std::set<std::pair<int, int>> peers;
  int initialized = 0;  // 0 never, 1 now, 2 finalized
};

State& state() {
  static auto* value = new State;
  return *value;
}

// contexts[i] for lookups without a lock; filled once per device.
constexpr int kMaxDevices = 1024;
std::array<std::atomic<Context*>, kMaxDevices> contextTable{};
std::atomic<int> opened{0};

thread_local Context* threadContext = nullptr;

aclError environmentError(const Environment& environment) {
  return fail(
      environment.badDevices ? ACL_ERROR_RT_INVALID_DEVICEID : ACL_ERROR_INVALID_PARAM,
      environment.error);
}

// The environment as it was at first use; under the state's mutex.
const Environment& frozenEnvironment(State& s) {
  if (s.environment == nullptr) {
    s.environment = std::make_unique<Environment>(readEnvironment());
  }
  return *s.environment;
}

Environment environmentNow() {
  State& s = state();
  if (!isForkedChild()) {
    std::lock_guard lock(s.mutex);
    if (s.environment != nullptr) {
      return *s.environment;
    }
  }
  return readEnvironment();
}

}  // namespace

Device::Device(int index, int physicalId, uint64_t capacity)
    : index_(index),
      physicalId_(physicalId),
      capacity_(capacity),
      memory_(std::make_unique<DeviceMemory>(*this)),
      askedAt_(nowNanoseconds()) {}

Device::~Device() = default;

int Device::busyPercent() {
  std::lock_guard lock(askedMutex_);
  const uint64_t now = nowNanoseconds();
  const uint64_t busy = busy_.load(std::memory_order_relaxed);
  const uint64_t elapsed = std::max<uint64_t>(1, now - askedAt_);
  const uint64_t percent = 100 * (busy - busyThen_) / elapsed;
  askedAt_ = now;
  busyThen_ = busy;
  return static_cast<int>(std::min<uint64_t>(100, percent));
}

aclError visibleDeviceCount(uint32_t* count) {
  const Environment environment = environmentNow();
  if (!environment.error.empty()) {
    return environmentError(environment);
  }
  *count = static_cast<uint32_t>(environment.visible.size());
  return ACL_SUCCESS;
}

aclError deviceCapacity(uint64_t* bytes) {
  const Environment environment = environmentNow();
  if (!environment.error.empty()) {
    return environmentError(environment);
  }
  *bytes = environment.bytesPerDevice;
  return ACL_SUCCESS;
}

Context* currentContextOrNone() noexcept {
  return threadContext;
}

void setCurrentContext(Context* context) noexcept {
  threadContext = context;
}

Context* currentContext() {
  if (isForkedChild()) {
    forkedError();
    return nullptr;
  }
  if (threadContext == nullptr || threadContext->users.load(std::memory_order_relaxed) == 0) {
    fail(
        ACL_ERROR_RT_CONTEXT_NULL,
        "no device is set on this thread: call aclrtSetDevice first (each thread has its own)");
    return nullptr;
  }
  return threadContext;
}

int currentDeviceOrNone() noexcept {
  Context* context = threadContext;
  return context == nullptr || context->users.load(std::memory_order_relaxed) == 0
      ? -1
      : context->device->index();
}

Context* contextAt(int index) noexcept {
  return index < 0 || index >= kMaxDevices ? nullptr
                                           : contextTable[index].load(std::memory_order_acquire);
}

int openedDevices() noexcept {
  return opened.load(std::memory_order_acquire);
}

Device* deviceAt(int index) noexcept {
  Context* context = contextAt(index);
  return context == nullptr ? nullptr : context->device;
}

std::vector<Context*> allContexts() {
  State& s = state();
  std::lock_guard lock(s.mutex);
  std::vector<Context*> result;
  for (const auto& context : s.contexts) {
    if (context != nullptr) {
      result.push_back(context.get());
    }
  }
  return result;
}

aclError checkDeviceIndex(int64_t index, const char* call) {
  uint32_t count = 0;
  if (const aclError code = visibleDeviceCount(&count)) {
    return code;
  }
  if (index >= 0 && index < count) {
    return ACL_SUCCESS;
  }
  std::string exist = count == 0 ? "this process sees no devices"
      : "this process sees devices 0 to " + std::to_string(count - 1);
  if (std::getenv("ASCEND_RT_VISIBLE_DEVICES") != nullptr) {
    exist += std::string(" (ASCEND_RT_VISIBLE_DEVICES=") +
             std::getenv("ASCEND_RT_VISIBLE_DEVICES") + ")";
  }
  return fail(
      ACL_ERROR_RT_INVALID_DEVICEID,
      std::string(call) + ": device " + std::to_string(index) + " does not exist: " + exist);
}

aclError openedContext(const char* call, int32_t index, Context** context) {
  if (const aclError code = checkDeviceIndex(index, call)) {
    return code;
  }
  *context = contextAt(index);
  return *context != nullptr
      ? ACL_SUCCESS
      : fail(
            ACL_ERROR_RT_CONTEXT_NULL,
            std::string(call) + ": device " + std::to_string(index) + " was not set");
}

bool peersAllowed(int device, int peer) {
  if (device == peer) {
    return true;
  }
  State& s = state();
  std::lock_guard lock(s.mutex);
  return s.peers.contains({device, peer}) || s.peers.contains({peer, device});
}

const char* deviceDisplayName() {
  return "Ascend910B1 (emulated)";
}

int jobRank() {
  return static_cast<int>(integerFromEnvironment("RANK", -1));
}

namespace {

// The device's context, made at its first use.
aclError openDevice(int32_t index, Context** result) {
  if (const aclError code = checkDeviceIndex(index, "aclrtSetDevice")) {
    return code;
  }
  markDeviceUsed();
  State& s = state();
  std::lock_guard lock(s.mutex);
  const Environment& environment = frozenEnvironment(s);
  s.contexts.resize(environment.visible.size());
  s.devices.resize(environment.visible.size());
  auto& context = s.contexts[static_cast<size_t>(index)];
  if (context == nullptr) {
    auto& device = s.devices[static_cast<size_t>(index)];
    device = std::make_unique<Device>(
        index, environment.visible[static_cast<size_t>(index)], environment.bytesPerDevice);
    context = std::make_unique<Context>();
    context->device = device.get();
    contextTable[static_cast<size_t>(index)].store(context.get(), std::memory_order_release);
    opened.store(std::max(opened.load(), index + 1), std::memory_order_release);
  }
  *result = context.get();
  return ACL_SUCCESS;
}

aclError nullArgument(const char* call, const char* what) {
  return fail(ACL_ERROR_INVALID_PARAM, std::string(call) + ": " + what + " is null");
}

}  // namespace
}  // namespace npu_emulator

using namespace npu_emulator;

extern "C" {

aclError aclInit(const char*) {
  return call("aclInit", []() -> aclError {
    if (isForkedChild()) {
      return forkedError();
    }
    State& s = state();
    const Environment environment = environmentNow();
    if (!environment.error.empty()) {
      return environmentError(environment);
    }
    std::lock_guard lock(s.mutex);
    if (s.initialized == 1) {
      return fail(ACL_ERROR_REPEAT_INITIALIZE, "aclInit: already initialised");
    }
    s.initialized = 1;
    markDeviceUsed();
    return ACL_SUCCESS;
  });
}

aclError aclFinalize() {
  return call("aclFinalize", []() -> aclError {
    if (isForkedChild()) {
      return forkedError();
    }
    {
      State& s = state();
      std::lock_guard lock(s.mutex);
      if (s.initialized != 1) {
        return s.initialized == 0
            ? fail(ACL_ERROR_UNINITIALIZE, "aclFinalize: aclInit was not called")
            : fail(ACL_ERROR_REPEAT_FINALIZE, "aclFinalize: called twice");
      }
      s.initialized = 2;
    }
    leaveCommunicators("aclFinalize was called");
    for (Context* context : allContexts()) {
      // Work that is still queued has nobody left to wait for it.
      for (const auto& stream : streamsOf(context->device->index())) {
        stream->abort();
      }
      destroyStreamsOf(context->device->index(), kExitPatience);
      context->users.store(0);
    }
    return ACL_SUCCESS;
  });
}

aclError aclrtGetDeviceCount(uint32_t* count) {
  return call("aclrtGetDeviceCount", [&]() -> aclError {
    return count == nullptr ? nullArgument("aclrtGetDeviceCount", "the count pointer")
                            : visibleDeviceCount(count);
  });
}

aclError aclrtSetDevice(int32_t deviceId) {
  return call("aclrtSetDevice", [&]() -> aclError {
    if (isForkedChild()) {
      return forkedError();
    }
    Context* context = contextAt(deviceId);
    if (context == nullptr) {
      if (const aclError code = openDevice(deviceId, &context)) {
        return code;
      }
    }
    context->users.fetch_add(1);  // each call counts: aclrtResetDevice is its pair
    threadContext = context;
    return ACL_SUCCESS;
  });
}

aclError aclrtResetDevice(int32_t deviceId) {
  return call("aclrtResetDevice", [&]() -> aclError {
    if (isForkedChild()) {
      return forkedError();
    }
    if (const aclError code = checkDeviceIndex(deviceId, "aclrtResetDevice")) {
      return code;
    }
    Context* context = contextAt(deviceId);
    if (context == nullptr || context->users.load() == 0) {
      return ACL_SUCCESS;
    }
    if (context->users.fetch_sub(1) == 1) {
      context->users.store(1);  // its streams finish in a context that is still there
      destroyStreamsOf(deviceId);
      context->users.store(0);
    }
    if (threadContext == context) {
      threadContext = nullptr;
    }
    return ACL_SUCCESS;
  });
}

aclError aclrtGetDevice(int32_t* deviceId) {
  return call("aclrtGetDevice", [&]() -> aclError {
    if (deviceId == nullptr) {
      return nullArgument("aclrtGetDevice", "the device pointer");
    }
    Context* context = currentContext();
    if (context == nullptr) {
      return ACL_ERROR_RT_CONTEXT_NULL;
    }
    *deviceId = context->device->index();
    return ACL_SUCCESS;
  });
}

aclError aclrtGetCurrentContext(aclrtContext* context) {
  return call("aclrtGetCurrentContext", [&]() -> aclError {
    if (context == nullptr) {
      return nullArgument("aclrtGetCurrentContext", "the context pointer");
    }
    *context = currentContext();
    return *context == nullptr ? ACL_ERROR_RT_CONTEXT_NULL : ACL_SUCCESS;
  });
}

aclError aclrtSetCurrentContext(aclrtContext context) {
  return call("aclrtSetCurrentContext", [&]() -> aclError {
    if (isForkedChild()) {
      return forkedError();
    }
    for (Context* known : allContexts()) {
      if (known == context && known->users.load() > 0) {
        threadContext = known;
        return ACL_SUCCESS;
      }
    }
    return fail(
        ACL_ERROR_RT_CONTEXT_NULL,
        "aclrtSetCurrentContext: not a context of aclrtGetCurrentContext, or its device was reset");
  });
}

aclError aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t* flags, int32_t* active) {
  return call("aclrtGetPrimaryCtxState", [&]() -> aclError {
    if (const aclError code = checkDeviceIndex(deviceId, "aclrtGetPrimaryCtxState")) {
      return code;
    }
    if (flags != nullptr) {
      *flags = 0;
    }
    if (active != nullptr) {
      Context* context = contextAt(deviceId);
      *active = context != nullptr && context->users.load() > 0 ? 1 : 0;
    }
    return ACL_SUCCESS;
  });
}

aclError aclrtDeviceCanAccessPeer(
    int32_t* canAccessPeer, int32_t deviceId, int32_t peerDeviceId) {
  return call("aclrtDeviceCanAccessPeer", [&]() -> aclError {
    if (canAccessPeer == nullptr) {
      return nullArgument("aclrtDeviceCanAccessPeer", "the result pointer");
    }
    for (const int32_t device : {deviceId, peerDeviceId}) {
      if (const aclError code = checkDeviceIndex(device, "aclrtDeviceCanAccessPeer")) {
        return code;
      }
    }
    *canAccessPeer = deviceId != peerDeviceId ? 1 : 0;
    return ACL_SUCCESS;
  });
}

aclError aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags) {
  return call("aclrtDeviceEnablePeerAccess", [&]() -> aclError {
    if (flags != 0) {
      return fail(ACL_ERROR_INVALID_PARAM, "aclrtDeviceEnablePeerAccess: flags must be 0");
    }
    if (const aclError code = checkDeviceIndex(peerDeviceId, "aclrtDeviceEnablePeerAccess")) {
      return code;
    }
    Context* context = currentContext();
    if (context == nullptr) {
      return ACL_ERROR_RT_CONTEXT_NULL;
    }
    const int device = context->device->index();
    if (device == peerDeviceId) {
      return fail(
          ACL_ERROR_INVALID_PARAM, "aclrtDeviceEnablePeerAccess: the peer is the current device");
    }
    State& s = state();
    std::lock_guard lock(s.mutex);
    s.peers.insert({device, peerDeviceId});
    return ACL_SUCCESS;
  });
}

aclError aclrtGetLogicDevIdByUserDevId(const int32_t userDevid, int32_t* const logicDevId) {
  return call("aclrtGetLogicDevIdByUserDevId", [&]() -> aclError {
    if (logicDevId == nullptr) {
      return nullArgument("aclrtGetLogicDevIdByUserDevId", "the result pointer");
    }
    if (const aclError code = checkDeviceIndex(userDevid, "aclrtGetLogicDevIdByUserDevId")) {
      return code;
    }
    *logicDevId = environmentNow().visible[static_cast<size_t>(userDevid)];
    return ACL_SUCCESS;
  });
}

}  // extern "C"
