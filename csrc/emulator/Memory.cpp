#include "emulator/Memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "emulator/Environment.h"
#include "emulator/Error.h"
#include "emulator/HostMemory.h"
#include "emulator/SharedSlot.h"
#include "emulator/Trace.h"
#include "emulator/VirtualMemory.h"

namespace npu_emulator {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kHugePage = uint64_t{2} << 20;
constexpr uint64_t kSmallestBlock = 512;
// Address space of a device; pages exist only where something was written.
constexpr uint64_t kSmallestFile = uint64_t{64} << 30;

uint64_t roundUp(uint64_t value, uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

DeviceMemory::DeviceMemory(Device& device) : device_(device) {}

aclError DeviceMemory::open() {
  std::lock_guard lock(mutex_);
  if (base() != nullptr) {
    return ACL_SUCCESS;
  }
  const std::string name = "npu:" + std::to_string(device_.index());
  const int file = ::memfd_create(name.c_str(), MFD_CLOEXEC);
  if (file < 0) {
    return fail(
        ACL_ERROR_RT_MEMORY_ALLOCATION, "device " + std::to_string(device_.index()) +
                                            ": memfd_create failed: " + std::strerror(errno));
  }
  // Twice the capacity leaves room for holes between allocations.
  const uint64_t size = std::max(kSmallestFile, roundUp(2 * device_.capacity(), kHugePage));
  void* mapped = MAP_FAILED;
  if (::ftruncate(file, static_cast<off_t>(size)) == 0) {
    mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  }
  if (mapped == MAP_FAILED) {
    const int reason = errno;
    ::close(file);
    return fail(
        ACL_ERROR_RT_MEMORY_ALLOCATION,
        "device " + std::to_string(device_.index()) + ": cannot map " + describeBytes(size) +
            " of address space: " + std::strerror(reason));
  }
  ::madvise(mapped, size, MADV_DONTFORK);
  memfd_ = file;
  fileSize_ = size;
  addFree(roundUp(kSlotArea, kHugePage), size - roundUp(kSlotArea, kHugePage));
  base_.store(static_cast<char*>(mapped), std::memory_order_release);
  return ACL_SUCCESS;
}

aclError DeviceMemory::reserve(
    uint64_t* offset, uint64_t size, uint64_t alignment, const char* call) {
  if (size > device_.capacity() || used_ + size > device_.capacity()) {
    const uint64_t left = device_.capacity() - used_;
    return fail(
        ACL_ERROR_RT_MEMORY_ALLOCATION,
        std::string(call) + ": out of memory on device " + std::to_string(device_.index()) +
            ": asked for " + describeBytes(size) + ", free " + describeBytes(left) + " of " +
            describeBytes(device_.capacity()) + " (emulated; TORCH_NPU_EMULATOR_MEMORY sets it)");
  }
  // The smallest hole that fits; the never used rest of the file is the largest.
  for (auto hole = freeBySize_.lower_bound({size, 0}); hole != freeBySize_.end(); ++hole) {
    const auto [holeSize, holeOffset] = *hole;
    const uint64_t start = roundUp(holeOffset, alignment);
    if (start + size <= holeOffset + holeSize) {
      takeFree(start, size);
      used_ += size;
      peak_ = std::max(peak_, used_);
      populate(start, size);
      *offset = start;
      return ACL_SUCCESS;
    }
  }
  return fail(
      ACL_ERROR_RT_MEMORY_ALLOCATION,
      std::string(call) + ": device " + std::to_string(device_.index()) +
          " has no hole of " + describeBytes(size) + " left in its address space");
}

aclError DeviceMemory::allocate(
    void** ptr, uint64_t size, uint64_t alignment, const char* call) {
  if (const aclError code = open()) {
    return code;
  }
  std::lock_guard lock(mutex_);
  const uint64_t unit = size < 16 * kPage ? kSmallestBlock : kPage;
  const uint64_t rounded = roundUp(std::max<uint64_t>(size, 1), unit);
  const uint64_t wanted = rounded >= kHugePage ? kHugePage : unit;
  uint64_t offset = 0;
  if (const aclError code = reserve(&offset, rounded, std::max(wanted, alignment), call)) {
    return code;
  }
  live_.emplace(offset, rounded);
  *ptr = base() + offset;
  return ACL_SUCCESS;
}

aclError DeviceMemory::allocateRange(
    uint64_t* offset, uint64_t size, uint64_t alignment, const char* call) {
  if (const aclError code = open()) {
    return code;
  }
  std::lock_guard lock(mutex_);
  if (const aclError code = reserve(offset, size, alignment, call)) {
    return code;
  }
  ranges_.emplace(*offset, size);
  return ACL_SUCCESS;
}

bool DeviceMemory::free(void* ptr) {
  std::lock_guard lock(mutex_);
  if (!contains(ptr)) {
    return false;
  }
  auto found = live_.find(static_cast<uint64_t>(static_cast<char*>(ptr) - base()));
  if (found == live_.end()) {
    return false;
  }
  used_ -= found->second;
  addFree(found->first, found->second);
  live_.erase(found);
  return true;
}

void DeviceMemory::freeRange(uint64_t offset) {
  std::lock_guard lock(mutex_);
  auto found = ranges_.find(offset);
  if (found != ranges_.end()) {
    used_ -= found->second;
    addFree(found->first, found->second);
    ranges_.erase(found);
  }
}

void DeviceMemory::addFree(uint64_t offset, uint64_t size) {
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + size == next->first) {
    size += next->second;
    freeBySize_.erase({next->second, next->first});
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    auto before = std::prev(next);
    if (before->first + before->second == offset) {
      freeBySize_.erase({before->second, before->first});
      offset = before->first;
      size += before->second;
      free_.erase(before);
    }
  }
  free_.emplace(offset, size);
  freeBySize_.emplace(size, offset);
}

void DeviceMemory::takeFree(uint64_t offset, uint64_t size) {
  auto hole = std::prev(free_.upper_bound(offset));
  const auto [holeOffset, holeSize] = *hole;
  free_.erase(hole);
  freeBySize_.erase({holeSize, holeOffset});
  if (offset > holeOffset) {
    addFree(holeOffset, offset - holeOffset);
  }
  const uint64_t end = holeOffset + holeSize;
  if (offset + size < end) {
    addFree(offset + size, end - offset - size);
  }
}

// Pages of freed memory stay, since giving them back and touching new ones costs about a
// millisecond per MiB. Only when pages in use and kept ones would exceed the capacity, free ones
// go.
void DeviceMemory::populate(uint64_t offset, uint64_t size) {
  uint64_t start = offset / kPage * kPage;
  uint64_t end = roundUp(offset + size, kPage);
  auto next = populated_.upper_bound(start);
  if (next != populated_.begin() && std::prev(next)->first + std::prev(next)->second >= start) {
    --next;
  }
  while (next != populated_.end() && next->first <= end) {
    start = std::min(start, next->first);
    end = std::max(end, next->first + next->second);
    populatedBytes_ -= next->second;
    next = populated_.erase(next);
  }
  populated_.emplace(start, end - start);
  populatedBytes_ += end - start;
  if (populatedBytes_ > roundUp(device_.capacity(), kPage)) {
    punchUnused();
  }
}

void DeviceMemory::punchUnused() {
  // From the end of the file, where the next allocations are least likely.
  for (auto hole = free_.rbegin(); hole != free_.rend(); ++hole) {
    const uint64_t start = roundUp(hole->first, kPage);
    const uint64_t end = (hole->first + hole->second) / kPage * kPage;
    auto next = populated_.upper_bound(start);
    if (next != populated_.begin()) {
      --next;
    }
    while (next != populated_.end() && next->first < end) {
      const uint64_t from = std::max(start, next->first);
      const uint64_t to = std::min(end, next->first + next->second);
      if (from >= to) {
        ++next;
        continue;
      }
      if (::fallocate(
              memfd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(from),
              static_cast<off_t>(to - from)) != 0) {
        return;  // the pages stay: memory is reused all the same
      }
      const auto [pieceStart, pieceSize] = *next;
      next = populated_.erase(next);
      if (pieceStart < from) {
        populated_.emplace(pieceStart, from - pieceStart);
      }
      if (to < pieceStart + pieceSize) {
        next = populated_.emplace(to, pieceStart + pieceSize - to).first;
      }
      populatedBytes_ -= to - from;
    }
    if (populatedBytes_ <= device_.capacity()) {
      return;
    }
  }
}

void DeviceMemory::usage(uint64_t* freeBytes, uint64_t* totalBytes, uint64_t* peakBytes) {
  std::lock_guard lock(mutex_);
  *freeBytes = device_.capacity() - used_;
  *totalBytes = device_.capacity();
  *peakBytes = peak_;
}

bool DeviceMemory::find(const void* ptr, uint64_t* offset, uint64_t* contiguous) {
  std::lock_guard lock(mutex_);
  if (!contains(ptr)) {
    return false;
  }
  const auto at = static_cast<uint64_t>(static_cast<const char*>(ptr) - base());
  auto next = live_.upper_bound(at);
  if (next == live_.begin()) {
    return false;
  }
  const auto [start, size] = *std::prev(next);
  if (at >= start + size) {
    return false;
  }
  *offset = at;
  *contiguous = start + size - at;
  return true;
}

bool locate(const void* ptr, MemoryLocation* location) {
  for (int i = 0; i < openedDevices(); ++i) {
    Context* context = contextAt(i);
    if (context == nullptr) {
      continue;
    }
    DeviceMemory& memory = context->device->memory();
    if (memory.contains(ptr)) {
      location->device = context->device->index();
      location->memfd = memory.memfd();
      const bool live = memory.find(ptr, &location->offset, &location->contiguous);
      location->available = location->contiguous;
      return live;
    }
  }
  return locateMapped(ptr, location);
}

aclError deviceMemoryFile(int device, int* memfd, uint64_t* size) {
  Device* found = deviceAt(device);
  if (found == nullptr) {
    return fail(
        ACL_ERROR_RT_CONTEXT_NULL,
        "device " + std::to_string(device) + " was never set in this process");
  }
  if (const aclError code = found->memory().open()) {
    return code;
  }
  *memfd = found->memory().memfd();
  *size = found->memory().fileSize();
  return ACL_SUCCESS;
}

PointerInfo classify(const void* ptr) {
  PointerInfo info;
  MemoryLocation location;
  if (locate(ptr, &location)) {
    info.kind = PointerKind::Device;
    info.device = location.device;
    info.available = location.available;
    return info;
  }
  if (location.device >= 0) {  // inside a device's range, but freed or never allocated
    info.kind = PointerKind::Device;
    info.device = location.device;
    return info;
  }
  classifyHost(ptr, &info);
  return info;
}

namespace {

aclError allocateDevice(
    void** devPtr, size_t size, aclrtMemMallocPolicy policy, uint64_t alignment, const char* name) {
  if (devPtr == nullptr || size == 0) {
    return fail(
        ACL_ERROR_INVALID_PARAM,
        std::string(name) + (devPtr == nullptr ? ": the pointer to fill is null" : ": size is 0"));
  }
  constexpr uint32_t kKinds = ACL_MEM_TYPE_LOW_BAND_WIDTH | ACL_MEM_TYPE_HIGH_BAND_WIDTH |
      ACL_MEM_ACCESS_USER_SPACE_READONLY;
  if ((static_cast<uint32_t>(policy) & ~kKinds) > ACL_MEM_MALLOC_HUGE1G_ONLY_P2P) {
    return fail(
        ACL_ERROR_INVALID_PARAM,
        std::string(name) + ": unknown policy " + std::to_string(static_cast<uint32_t>(policy)));
  }
  Context* context = currentContext();
  return context == nullptr ? ACL_ERROR_RT_CONTEXT_NULL
                            : context->device->memory().allocate(devPtr, size, alignment, name);
}

}  // namespace
}  // namespace npu_emulator

using namespace npu_emulator;

extern "C" {

aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
  return call(
      "aclrtMalloc", [&] { return allocateDevice(devPtr, size, policy, 512, "aclrtMalloc"); });
}

aclError aclrtMallocAlign32(void** devPtr, size_t size, aclrtMemMallocPolicy policy) {
  return call("aclrtMallocAlign32", [&] {
    return allocateDevice(devPtr, size, policy, 32, "aclrtMallocAlign32");
  });
}

aclError aclrtFree(void* devPtr) {
  return call("aclrtFree", [&]() -> aclError {
    if (isForkedChild()) {
      return forkedError();
    }
    for (Context* context : allContexts()) {
      if (context->device->memory().free(devPtr)) {
        return ACL_SUCCESS;
      }
    }
    return fail(
        ACL_ERROR_INVALID_PARAM,
        "aclrtFree: not the start of device memory of aclrtMalloc*, or freed before");
  });
}

aclError aclrtGetMemInfo(aclrtMemAttr attr, size_t* free, size_t* total) {
  return call("aclrtGetMemInfo", [&]() -> aclError {
    if (free == nullptr || total == nullptr || attr < ACL_DDR_MEM || attr > ACL_MEM_P2P_HUGE1G) {
      return fail(
          ACL_ERROR_INVALID_PARAM, "aclrtGetMemInfo: unknown kind of memory, or null pointers");
    }
    Context* context = currentContext();
    if (context == nullptr) {
      return ACL_ERROR_RT_CONTEXT_NULL;
    }
    uint64_t freeBytes = 0;
    uint64_t totalBytes = 0;
    uint64_t peak = 0;
    context->device->memory().usage(&freeBytes, &totalBytes, &peak);
    *free = freeBytes;
    *total = totalBytes;
    return ACL_SUCCESS;
  });
}

aclError aclrtGetMemUsageInfo(
    int32_t deviceId, aclrtMemUsageInfo* memUsageInfo, size_t inputNum, size_t* outputNum) {
  return call("aclrtGetMemUsageInfo", [&]() -> aclError {
    if (const aclError code = checkDeviceIndex(deviceId, "aclrtGetMemUsageInfo")) {
      return code;
    }
    if (memUsageInfo == nullptr || outputNum == nullptr || inputNum == 0) {
      return fail(ACL_ERROR_INVALID_PARAM, "aclrtGetMemUsageInfo: nowhere to write to");
    }
    *outputNum = 0;
    if (Device* device = deviceAt(deviceId)) {
      uint64_t freeBytes = 0;
      uint64_t totalBytes = 0;
      memUsageInfo[0] = {};
      std::strncpy(memUsageInfo[0].name, "APP", sizeof(memUsageInfo[0].name) - 1);
      device->memory().usage(&freeBytes, &totalBytes, &memUsageInfo[0].memPeakSize);
      memUsageInfo[0].curMemSize = totalBytes - freeBytes;
      *outputNum = 1;
    }
    return ACL_SUCCESS;
  });
}

aclError aclrtPointerGetAttributes(const void* ptr, aclrtPtrAttributes* attributes) {
  return call("aclrtPointerGetAttributes", [&]() -> aclError {
    if (ptr == nullptr || attributes == nullptr) {
      return fail(ACL_ERROR_INVALID_PARAM, "aclrtPointerGetAttributes: null pointer");
    }
    if (isForkedChild()) {
      return forkedError();
    }
    const PointerInfo info = classify(ptr);
    *attributes = {};
    attributes->pageSize = kPage;
    switch (info.kind) {
      case PointerKind::Device:
        attributes->location = {static_cast<uint32_t>(info.device), ACL_MEM_LOCATION_TYPE_DEVICE};
        break;
      case PointerKind::PinnedHost:
      case PointerKind::RegisteredHost:
        attributes->location = {0, ACL_MEM_LOCATION_TYPE_HOST};
        break;
      case PointerKind::Pageable:
        attributes->location = {0, ACL_MEM_LOCATION_TYPE_UNREGISTERED};
        break;
    }
    return ACL_SUCCESS;
  });
}

}  // extern "C"
