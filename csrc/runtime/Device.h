// Devices: which is current, when CANN is initialised, when it is let go.
//
// Note [Lazy devices]
// The current device is a number per thread; choosing one touches no hardware. A context on a
// device comes into being at the first call that needs it (useDevice, made by streams, events and
// the allocator), so a process that only names device 3 never occupies device 0. CANN keeps a
// current context per thread too: every path that makes device calls goes through useDevice or
// DeviceScope.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "cann/abi/acl.h"

namespace torch_npu {

inline constexpr int kMaxDevices = 127;  // c10::DeviceIndex has 8 bits

struct DeviceProperties {
  std::string name;        // contains "emulated" when the emulator runs
  size_t totalMemory = 0;  // bytes
  int64_t cubeCoreCount = 0;
  int64_t vectorCoreCount = 0;
  int64_t l2CacheSize = 0;  // bytes
  std::string uuid;         // 32 hexadecimal digits, "" where CANN cannot tell
};

// Number of devices this process may use; 0 if there is none or CANN cannot be loaded (initialize()
// then says why). Starts no thread and no runtime; asked once, then remembered.
int deviceCount() noexcept;

// As deviceCount, but throws the reason when there is no usable device.
int requireDevices();

namespace detail {

struct ThreadDevice {
  int current = -1;  // the thread's choice; -1: none yet
  int bound = -1;    // whose context we last made current for CANN on this thread; -1: nobody's
};

// Read at every launch: eight bytes of the room that the C library keeps for such variables.
extern constinit thread_local ThreadDevice threadDevice __attribute__((tls_model("initial-exec")));

int chooseFirstDevice();
void bindCurrentDevice();

}  // namespace detail

// The calling thread's device. Starts as TORCH_NPU_DEFAULT_DEVICE if that exists, else 0.
inline int currentDevice() {
  const int device = detail::threadDevice.current;
  return device >= 0 ? device : detail::chooseFirstDevice();
}

// Chooses the calling thread's device; c10::ValueError if there is no such device. Makes the
// device's context current if one exists already, else leaves that to the first use.
void setDevice(int device);
int exchangeDevice(int device);
// For destructors: no check, no throw.
void uncheckedSetDevice(int device) noexcept;

// `device`, or the current one for -1; c10::ValueError if there is no such device.
int checkedDevice(int device);

// Loads CANN and starts its runtime (aclInit). Idempotent and thread-safe. Creates no context.
// In a forked child of an initialised process it throws: use the "spawn" start method.
void initialize();
bool isInitialized();
bool isInBadFork();

// Makes the current device's context current for CANN on this thread, creating it at first use and
// initialising the runtime before that. A few nanoseconds when nothing is to be done.
inline void useDevice() {
  const detail::ThreadDevice& thread = detail::threadDevice;
  if (thread.current != thread.bound || thread.bound < 0) [[unlikely]]
    detail::bindCurrentDevice();
}

// Whether this process has a context on the device. Never creates one.
bool hasPrimaryContext(int device);

// How long a synchronise of a device or stream may take (ACL_DEVICE_SYNC_TIMEOUT); 0: no limit.
std::chrono::milliseconds syncTimeout();

// Waits for all work on the device (-1: the current one). A device without context has none.
void synchronizeDevice(int device = -1);

DeviceProperties deviceProperties(int device = -1);
// {free, total} in bytes
std::pair<size_t, size_t> memoryInfo(int device = -1);
bool canAccessPeer(int device, int peer);
// Lets `device` read and write memory of `peer` (once per ordered pair; later calls cost a lookup).
void enablePeerAccess(int device, int peer);

// Makes `device` current with a live context until the end of the scope, then puts the thread's
// device and CANN's context back as they were.
class DeviceScope {
 public:
  explicit DeviceScope(int device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int previous_;
};

// Note [Exit]
// Python's atexit calls drain() with the interpreter lock released, while everything still lives:
// it waits, for a bounded time, for the devices in use. A C atexit handler, registered at aclInit
// and thus run before libtorch's destructors, calls finalize(): it runs the functions given to
// onFinalize, last one first (each stops and joins what it started), resets the devices (unless
// waiting for them failed: a reset waits for ever) and ends CANN's runtime. After that no handle is
// destroyed any more: CANN took them with it.
void drain() noexcept;
void finalize() noexcept;
bool isFinalized() noexcept;
void onFinalize(std::function<void()> stop);

}  // namespace torch_npu
