#include "runtime/Device.h"

#include <c10/util/Exception.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "cann/Acl.h"
#include "cann/Env.h"
#include "cann/Library.h"

namespace torch_npu {

namespace detail {
constinit thread_local ThreadDevice threadDevice;
}  // namespace detail

namespace {

using detail::threadDevice;

// How long exit waits for a device whose work does not end, a hanging collective for instance, if
// the user set no shorter limit.
constexpr std::chrono::milliseconds kDrainTimeout{10'000};
// Autograd's device threads release the last graph after backward() returned. One that asks for the
// interpreter lock during CPython's finalisation is ended by a forced unwind, which aborts the
// process. Nothing tells when they are done; this was ample when it was measured.
constexpr std::chrono::milliseconds kAutogradGrace{10};

constinit std::atomic<bool> gInitialized{false};
constinit std::atomic<bool> gFinalized{false};
constinit std::atomic<bool> gBadFork{false};
constinit std::atomic<bool> gDrainFailed{false};
// Each device's primary context, once this process has it. aclrtSetDevice counts its calls and
// wants as many aclrtResetDevice, so it is called once a device, and threads switch by context.
constinit std::array<std::atomic<aclrtContext>, kMaxDevices> gContexts{};
bool gOwnsRuntime = false;  // written under initMutex(), read at exit

// Serialises aclInit and the making of contexts. CANN is called while it is held; nobody who holds
// another lock of ours takes it.
std::mutex& initMutex() {
  static std::mutex* mutex = new std::mutex;
  return *mutex;
}

struct Stops {
  std::mutex mutex;  // guards functions
  std::vector<std::function<void()>> functions;
};

Stops& stops() {
  static Stops* instance = new Stops;
  return *instance;
}

struct Count {
  int devices = 0;
  std::string failure;  // why there are none
};

Count countDevices() noexcept {
  try {
    uint32_t devices = 0;
    const int code = cann::aclrtGetDeviceCount(&devices);
    if (code != ACL_SUCCESS) return {0, cann::describeError("aclrtGetDeviceCount", code)};
    if (devices == 0) {
      return {0, "CANN sees no NPU: check `npu-smi info` and ASCEND_RT_VISIBLE_DEVICES."};
    }
    if (devices > kMaxDevices) {
      return {0, c10::str(devices, " NPUs are visible, a process can use ", kMaxDevices,
                          " at most: choose some by ASCEND_RT_VISIBLE_DEVICES.")};
    }
    return {static_cast<int>(devices), ""};
  } catch (const c10::Error& error) {
    return {0, error.what_without_backtrace()};
  } catch (const std::exception& error) {
    return {0, error.what()};
  }
}

const Count& knownCount() noexcept {
  static const Count* count = new Count(countDevices());
  return *count;
}

int defaultDevice() {
  static const int device = [] {
    if (!cann::env::isSet("TORCH_NPU_DEFAULT_DEVICE")) return 0;
    const int64_t wanted = cann::env::integer("TORCH_NPU_DEFAULT_DEVICE", 0);
    return wanted < deviceCount() ? static_cast<int>(wanted) : 0;
  }();
  return device;
}

void onForkInChild() {
  gBadFork.store(true);
  threadDevice.bound = -1;  // so that the next use leaves the fast path and meets the check
}

void checkFork() {
  TORCH_CHECK(
      !gBadFork.load(std::memory_order_relaxed),
      "Cannot use the NPU in a forked subprocess: the parent had it in use already, and a device's "
      "context does not survive fork. Use the 'spawn' start method: "
      "torch.multiprocessing.set_start_method('spawn').");
}

aclrtContext contextOf(int device) noexcept {
  return gContexts[device].load(std::memory_order_acquire);
}

void bind(int device) {
  initialize();
  if (aclrtContext context = contextOf(device)) {
    cann::aclrtSetCurrentContext.check(context);
  } else {
    std::lock_guard lock(initMutex());
    context = contextOf(device);
    if (context != nullptr) {
      cann::aclrtSetCurrentContext.check(context);
    } else {
      cann::aclrtSetDevice.check(device);
      cann::aclrtGetCurrentContext.check(&context);
      gContexts[device].store(context, std::memory_order_release);
    }
  }
  threadDevice.bound = device;
}

// Makes CANN's current context that of `device` if it has one. For places that must not throw.
void rebind(int device) noexcept {
  if (threadDevice.bound == device || gFinalized.load(std::memory_order_relaxed)) return;
  aclrtContext context = contextOf(device);
  if (context == nullptr || gBadFork.load(std::memory_order_relaxed)) return;
  // On failure nothing is bound, and the next useDevice() reports it.
  threadDevice.bound = cann::aclrtSetCurrentContext(context) == ACL_SUCCESS ? device : -1;
}

// limit 0: none
int waitForDevice(std::chrono::milliseconds limit) {
  if (limit.count() > 0 && cann::aclrtSynchronizeDeviceWithTimeout.available()) {
    return cann::aclrtSynchronizeDeviceWithTimeout(static_cast<int32_t>(limit.count()));
  }
  return cann::aclrtSynchronizeDevice();
}

void reportAtExit(const std::string& what) noexcept {
  std::fprintf(stderr, "torch_npu: at exit: %s\n", what.c_str());
}

// False, and a line on stderr, if it throws.
template <class Function>
bool reportFailure(const Function& function) noexcept {
  try {
    function();
    return true;
  } catch (const c10::Error& error) {
    reportAtExit(error.what_without_backtrace());
  } catch (const std::exception& error) {
    reportAtExit(error.what());
  }
  return false;
}

// Waits for every device in use, once: after a failure it would only fail again. False if there was
// nothing to wait for.
bool waitForDevices() noexcept {
  if (!isInitialized() || gFinalized.load() || gDrainFailed.load()) return false;
  bool any = false;
  for (int device = 0; device < kMaxDevices; ++device) {
    if (contextOf(device) == nullptr) continue;
    any = true;
    const bool done = reportFailure([device] {
      DeviceScope scope(device);
      const std::chrono::milliseconds limit = syncTimeout();
      const int code =
          waitForDevice(limit.count() > 0 ? std::min(limit, kDrainTimeout) : kDrainTimeout);
      if (code != ACL_SUCCESS) cann::throwError("aclrtSynchronizeDevice", code);
    });
    if (!done) gDrainFailed.store(true);
  }
  return any;
}

}  // namespace

int deviceCount() noexcept {
  return knownCount().devices;
}

int requireDevices() {
  const Count& count = knownCount();
  TORCH_CHECK(count.devices > 0, "No NPU can be used. ", count.failure);
  return count.devices;
}

int detail::chooseFirstDevice() {
  return threadDevice.current = defaultDevice();
}

int checkedDevice(int device) {
  if (device == -1) return currentDevice();
  if (device < 0 || device >= deviceCount()) {
    const int count = requireDevices();
    TORCH_CHECK_VALUE(false, "NPU device index ", device, " is out of range: this process sees ",
                      count, " (npu:0 to npu:", count - 1, ").");
  }
  return device;
}

void setDevice(int device) {
  exchangeDevice(device);
}

int exchangeDevice(int device) {
  const int previous = currentDevice();
  if (device == previous && threadDevice.bound == device) [[likely]]
    return previous;
  threadDevice.current = checkedDevice(device);
  if (contextOf(threadDevice.current) != nullptr) useDevice();
  return previous;
}

void uncheckedSetDevice(int device) noexcept {
  if (device < 0 || device >= kMaxDevices) return;
  threadDevice.current = device;
  rebind(device);
}

void initialize() {
  checkFork();
  if (gInitialized.load(std::memory_order_acquire)) [[likely]]
    return;
  requireDevices();
  std::lock_guard lock(initMutex());
  if (gInitialized.load(std::memory_order_relaxed)) return;
  cann::announceEmulator();
  const std::string config = cann::env::text("TORCH_ACL_INIT_CONFIG_PATH");
  const int code = cann::aclInit(config.empty() ? nullptr : config.c_str());
  if (code != ACL_SUCCESS && code != ACL_ERROR_REPEAT_INITIALIZE) cann::throwError("aclInit", code);
  gOwnsRuntime = code == ACL_SUCCESS;  // another library in this process may have been first
  pthread_atfork(nullptr, nullptr, onForkInChild);
  std::atexit([] { finalize(); });
  gInitialized.store(true, std::memory_order_release);
}

bool isInitialized() {
  return gInitialized.load(std::memory_order_acquire) && !isInBadFork();
}

bool isInBadFork() {
  return gBadFork.load(std::memory_order_relaxed);
}

void detail::bindCurrentDevice() {
  const int device = currentDevice();
  if (threadDevice.bound != device) bind(device);
}

bool hasPrimaryContext(int device) {
  return contextOf(checkedDevice(device)) != nullptr && !isInBadFork();
}

std::chrono::milliseconds syncTimeout() {
  static const std::chrono::milliseconds limit = cann::env::seconds("ACL_DEVICE_SYNC_TIMEOUT");
  return limit;
}

void synchronizeDevice(int device) {
  device = checkedDevice(device);
  checkFork();
  if (!hasPrimaryContext(device)) return;
  DeviceScope scope(device);
  const int code = waitForDevice(syncTimeout());
  if (code != ACL_SUCCESS) cann::throwError("aclrtSynchronizeDevice", code);
}

DeviceProperties deviceProperties(int device) {
  device = checkedDevice(device);
  initialize();
  const auto ask = [device](aclrtDevAttr attribute) {
    int64_t value = 0;
    cann::aclrtGetDeviceInfo.check(static_cast<uint32_t>(device), attribute, &value);
    return value;
  };
  DeviceProperties properties;
  properties.name = cann::aclrtGetSocName.check();
  if (cann::provider() == cann::Provider::Emulator) properties.name += " (emulated)";
  properties.totalMemory = static_cast<size_t>(ask(ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE));
  properties.cubeCoreCount = ask(ACL_DEV_ATTR_CUBE_CORE_NUM);
  properties.vectorCoreCount = ask(ACL_DEV_ATTR_VECTOR_CORE_NUM);
  properties.l2CacheSize = ask(ACL_DEV_ATTR_L2_CACHE_SIZE);
  aclrtUuid uuid;
  if (cann::aclrtDeviceGetUuid.available() &&
      cann::aclrtDeviceGetUuid(device, &uuid) == ACL_SUCCESS) {
    for (const char byte : uuid.bytes) {
      constexpr const char* kDigits = "0123456789abcdef";
      properties.uuid += kDigits[static_cast<uint8_t>(byte) >> 4];
      properties.uuid += kDigits[static_cast<uint8_t>(byte) & 15];
    }
  }
  return properties;
}

std::pair<size_t, size_t> memoryInfo(int device) {
  DeviceScope scope(checkedDevice(device));
  size_t free = 0;
  size_t total = 0;
  cann::aclrtGetMemInfo.check(ACL_HBM_MEM, &free, &total);
  return {free, total};
}

bool canAccessPeer(int device, int peer) {
  device = checkedDevice(device);
  peer = checkedDevice(peer);
  if (device == peer) return true;
  initialize();
  int32_t possible = 0;
  cann::aclrtDeviceCanAccessPeer.check(&possible, device, peer);
  return possible != 0;
}

void enablePeerAccess(int device, int peer) {
  if (device == peer) return;
  static std::mutex* mutex = new std::mutex;  // guards enabled; CANN is called while it is held
  static auto* enabled = new std::set<std::pair<int, int>>;
  std::lock_guard lock(*mutex);
  if (enabled->contains({device, peer})) return;
  TORCH_CHECK(canAccessPeer(device, peer), "npu:", device, " cannot reach the memory of npu:", peer,
              ": copy through the CPU.");
  DeviceScope scope(device);
  cann::aclrtDeviceEnablePeerAccess.check(peer, 0);
  enabled->emplace(device, peer);
}

DeviceScope::DeviceScope(int device) : previous_(currentDevice()) {
  threadDevice.current = checkedDevice(device);
  try {
    useDevice();
  } catch (...) {
    threadDevice.current = previous_;
    throw;
  }
}

DeviceScope::~DeviceScope() {
  uncheckedSetDevice(previous_);
}

void drain() noexcept {
  if (waitForDevices()) std::this_thread::sleep_for(kAutogradGrace);
}

void finalize() noexcept {
  if (!isInitialized() || gFinalized.load()) return;
  std::vector<std::function<void()>> functions;
  {
    std::lock_guard lock(stops().mutex);
    functions.swap(stops().functions);
  }
  for (auto stop = functions.rbegin(); stop != functions.rend(); ++stop) reportFailure(*stop);
  waitForDevices();
  gFinalized.store(true);
  // A reset waits for the device's streams without limit, which was in vain already if the drain
  // failed; aclFinalize drops their work.
  for (int device = 0; device < kMaxDevices && !gDrainFailed.load(); ++device) {
    if (contextOf(device) == nullptr) continue;
    reportFailure([device] { cann::aclrtResetDevice.check(device); });
  }
  if (gOwnsRuntime) reportFailure([] { cann::aclFinalize.check(); });
}

bool isFinalized() noexcept {
  return gFinalized.load(std::memory_order_acquire);
}

void onFinalize(std::function<void()> stop) {
  std::lock_guard lock(stops().mutex);
  stops().functions.push_back(std::move(stop));
}

}  // namespace torch_npu
