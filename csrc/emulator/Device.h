// Devices, contexts and each thread's current one.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "emulator/Abi.h"

namespace npu_emulator {

class Stream;
class DeviceMemory;

// One emulated NPU. Created at the first aclrtSetDevice of it, never destroyed.
class Device {
 public:
  Device(int index, int physicalId, uint64_t capacity);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device();

  int index() const { return index_; }            // as the process counts them
  int physicalId() const { return physicalId_; }  // as the machine counts them
  uint64_t capacity() const { return capacity_; }
  DeviceMemory& memory() { return *memory_; }
  // A task ran that long (nanoseconds).
  void addBusy(uint64_t duration) { busy_.fetch_add(duration, std::memory_order_relaxed); }
  // Share of the time since the last question (or since the start) that tasks ran, at most 100.
  int busyPercent();

 private:
  const int index_;
  const int physicalId_;
  const uint64_t capacity_;
  std::unique_ptr<DeviceMemory> memory_;
  std::atomic<uint64_t> busy_{0};
  std::mutex askedMutex_;  // guards what follows
  uint64_t askedAt_;       // nanoseconds
  uint64_t busyThen_ = 0;
};

// What aclrtSetDevice makes current: the device with its default stream. One per device.
struct Context {
  Device* device = nullptr;
  std::mutex mutex;  // guards defaultStream; no other lock is taken under it but a stream's own
  std::shared_ptr<Stream> defaultStream;
  std::atomic<int> users{0};  // aclrtSetDevice minus aclrtResetDevice; 0: not active
  std::mutex settingsMutex;   // guards systemParameters
  std::map<int, int64_t> systemParameters;      // by aclSysParamOpt
  std::atomic<uint32_t> resourceLimit[2] = {0, 0};  // by aclrtDevResLimitType, 0: all cores
  std::atomic<int> floatOverflowMode{ACL_RT_OVERFLOW_MODE_INFNAN};
};

// How many devices this process sees; fails on a bad environment with a message.
aclError visibleDeviceCount(uint32_t* count);

// Memory of one device in bytes, as the environment or this machine's memory says.
aclError deviceCapacity(uint64_t* bytes);

// The current context of this thread, or null after fail(107002).
Context* currentContext();

Context* currentContextOrNone() noexcept;
void setCurrentContext(Context* context) noexcept;

// Index of the current device without an error message; -1 when there is none.
int currentDeviceOrNone() noexcept;

// The device of that index if it was ever set, else null. No error message.
Device* deviceAt(int index) noexcept;
Context* contextAt(int index) noexcept;
// One more than the largest index that contextAt() knows.
int openedDevices() noexcept;

// All contexts that were ever active.
std::vector<Context*> allContexts();

// Checks an index against the visible devices: 0 or fail(107001).
aclError checkDeviceIndex(int64_t index, const char* call);

// The context of a device that was set before, or a code with a message.
aclError openedContext(const char* call, int32_t index, Context** context);

// True if copies between two devices are allowed (the same one, or aclrtDeviceEnablePeerAccess).
bool peersAllowed(int device, int peer);

// Name of the emulated chip for people ("Ascend910B1 (emulated)"); for programs, aclrtGetSocName.
const char* deviceDisplayName();

// Rank of this process in its job (environment variable RANK), -1 outside of one.
int jobRank();

}  // namespace npu_emulator
