#include "runtime/CachingAllocator.h"

#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <iterator>
#include <mutex>
#include <utility>

#include "cann/Acl.h"
#include "runtime/Device.h"
#include "runtime/DeviceMemory.h"

namespace torch_npu {

namespace {

using c10::CachingDeviceAllocator::DeviceStats;

constexpr c10::MempoolId_t kDefaultPool{0, 0};

void deleteBlock(void* context);

class NPUCachingAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    const int device = currentDevice();
    if (bytes == 0) {
      return nothingOn(device);
    }
    return allocate(bytes, getCurrentStream(device));
  }

  c10::DataPtr allocate(size_t bytes, const NPUStream& stream) {
    const auto device = static_cast<c10::DeviceIndex>(stream.deviceIndex());
    if (bytes == 0) {
      return nothingOn(device);
    }
    Block* block = memory(device).allocate(bytes, stream.id());
    return {reinterpret_cast<void*>(block->address), block, &deleteBlock,
            c10::Device(c10::kPrivateUse1, device)};
  }

  void copy_data(void* destination, const void* source, size_t count) const override {
    cann::aclrtMemcpyAsync.check(destination, count, source, count, ACL_MEMCPY_DEVICE_TO_DEVICE,
                                 getCurrentStream().handle());
  }

  bool is_simple_data_ptr(const c10::DataPtr& pointer) const override {
    return pointer.get_deleter() == &deleteBlock;
  }

  bool initialized() override {
    return isInitialized();
  }

  void emptyCache(c10::MempoolId_t pool) override {
    TORCH_CHECK_NOT_IMPLEMENTED(
        pool == kDefaultPool, "emptyCache: npu has no private memory pools yet, got pool (",
        pool.first, ", ", pool.second, ")");
    for (int device = 0; device < kMaxDevices; ++device) {
      if (DeviceMemory* existing = memories_[device].load(std::memory_order_acquire)) {
        existing->emptyCache();
      }
    }
  }

  void recordStream(const c10::DataPtr& pointer, c10::Stream stream) override {
    torch_npu::recordStream(pointer, NPUStream(stream));
  }

  DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    return memory(checked(device)).stats();
  }

  void resetAccumulatedStats(c10::DeviceIndex device) override {
    memory(checked(device)).resetAccumulatedStats();
  }

  void resetPeakStats(c10::DeviceIndex device) override {
    memory(checked(device)).resetPeakStats();
  }

  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    return memoryInfo(checked(device));
  }

  static c10::DeviceIndex checked(int device) {
    return static_cast<c10::DeviceIndex>(checkedDevice(device));
  }

  DeviceMemory& memory(c10::DeviceIndex device) {
    TORCH_INTERNAL_ASSERT(device >= 0 && device < kMaxDevices, static_cast<int>(device));
    if (DeviceMemory* existing = memories_[device].load(std::memory_order_acquire)) {
      return *existing;
    }
    std::lock_guard lock(creation_);
    DeviceMemory* existing = memories_[device].load(std::memory_order_relaxed);
    if (existing == nullptr) {
      existing = new DeviceMemory(device);  // lives as long as the process: see cachingAllocator()
      memories_[device].store(existing, std::memory_order_release);
    }
    return *existing;
  }

  std::vector<c10::CachingDeviceAllocator::SegmentInfo> snapshot() {
    std::vector<c10::CachingDeviceAllocator::SegmentInfo> all;
    for (auto& entry : memories_) {
      if (DeviceMemory* existing = entry.load(std::memory_order_acquire)) {
        auto segments = existing->snapshot();
        std::move(segments.begin(), segments.end(), std::back_inserter(all));
      }
    }
    return all;
  }

 private:
  static c10::DataPtr nothingOn(int device) {
    return {nullptr, nullptr, &deleteBlock,
            c10::Device(c10::kPrivateUse1, static_cast<c10::DeviceIndex>(device))};
  }

  std::mutex creation_;  // guards the making of entries; readers use the atomic alone
  std::array<std::atomic<DeviceMemory*>, kMaxDevices> memories_{};
};

// Tensors outlive every static destructor, so this is never destroyed.
NPUCachingAllocator& instance() {
  static auto* const allocator = new NPUCachingAllocator;
  return *allocator;
}

void deleteBlock(void* context) {
  // A forked child must not touch the parent's device, and its copy of the mutex may be locked.
  if (context == nullptr || isInBadFork()) {
    return;
  }
  auto* block = static_cast<Block*>(context);
  try {
    instance().memory(block->device).free(block);
  } catch (const std::exception& error) {
    // The block stays out of the pool: reusing memory that may still be written to is worse.
    TORCH_WARN("npu:", static_cast<int>(block->device),
               " could not take back a block of memory, it is lost: ", error.what());
  }
}

const c10::AllocatorRegisterer<c10::kPrivateUse1> kRegistered(&instance());

}  // namespace

c10::DeviceAllocator* cachingAllocator() {
  return &instance();
}

c10::DataPtr allocateOnStream(size_t bytes, const NPUStream& stream) {
  return instance().allocate(bytes, stream);
}

void recordStream(const c10::DataPtr& pointer, const NPUStream& stream) {
  if (!pointer || pointer.device().type() != c10::kPrivateUse1) {
    return;
  }
  DeviceMemory& memory = instance().memory(pointer.device().index());
  if (pointer.get_deleter() == &deleteBlock) {
    memory.recordStream(static_cast<Block*>(pointer.get_context()), stream.id());
  } else {
    memory.recordStream(pointer.get(), stream.id());
  }
}

void emptyCache(int device) {
  if (device < 0) {
    instance().emptyCache(kDefaultPool);
  } else {
    instance().memory(NPUCachingAllocator::checked(device)).emptyCache();
  }
}

void setMemoryFraction(double fraction, int device) {
  TORCH_CHECK_VALUE(fraction >= 0 && fraction <= 1,
                    "the fraction of memory must be within 0 and 1, got ", fraction);
  const c10::DeviceIndex index = NPUCachingAllocator::checked(device);
  instance().memory(index).setFraction(fraction, memoryInfo(index).second);
}

double memoryFraction(int device) {
  return instance().memory(NPUCachingAllocator::checked(device)).fraction();
}

std::vector<c10::CachingDeviceAllocator::SegmentInfo> memorySnapshot() {
  return instance().snapshot();
}

}  // namespace torch_npu
