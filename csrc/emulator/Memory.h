// Device memory: one sparse memfd per device, mapped once, with a sub-allocator over its offsets.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "emulator/Abi.h"
#include "emulator/Device.h"

namespace npu_emulator {

// Where a device pointer lives, so that another process can map the same bytes: send `memfd` to it
// and map `offset` of it there. Whole-file mappings are fine: it is sparse and `fileSize()` long.
struct MemoryLocation {
  int device = -1;           // index in this process
  int memfd = -1;            // owned by the device: do not close
  uint64_t offset = 0;       // in the file
  uint64_t contiguous = 0;   // bytes from here at consecutive offsets of the file, all allocated
  uint64_t available = 0;    // bytes from here at consecutive addresses: more when several physical
                             // ranges are mapped next to each other
};

// True if `ptr` lies in live device memory (of aclrtMalloc*, or mapped by aclrtMapMem). Memory that
// aclrtIpcMemImportByKey mapped from another process counts, with that process's descriptor.
// Without an error message.
bool locate(const void* ptr, MemoryLocation* location);

// The descriptor and length of a device's memory; fails when the device was never set.
aclError deviceMemoryFile(int device, int* memfd, uint64_t* size);

// Kind of a pointer for aclrtMemcpy and aclrtPointerGetAttributes.
enum class PointerKind { Pageable, PinnedHost, RegisteredHost, Device };
struct PointerInfo {
  PointerKind kind = PointerKind::Pageable;
  int device = -1;            // for Device
  uint64_t available = 0;     // bytes from the pointer to the end of its allocation, if known
};
PointerInfo classify(const void* ptr);

class DeviceMemory {
 public:
  explicit DeviceMemory(Device& device);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // Rounds up to `alignment` (a power of two); 207001 when the capacity does not allow it.
  aclError allocate(void** ptr, uint64_t size, uint64_t alignment, const char* call);
  // False for a pointer that is not the start of a live allocation.
  bool free(void* ptr);
  // Physical ranges of aclrtMallocPhysical: offsets without an address.
  aclError allocateRange(uint64_t* offset, uint64_t size, uint64_t alignment, const char* call);
  void freeRange(uint64_t offset);

  void usage(uint64_t* freeBytes, uint64_t* totalBytes, uint64_t* peakBytes);
  // Offset of `ptr` and bytes from there to the end of its allocation; false if it is in none.
  bool find(const void* ptr, uint64_t* offset, uint64_t* contiguous);

  int memfd() const { return memfd_; }
  char* base() const { return base_.load(std::memory_order_acquire); }
  uint64_t fileSize() const { return fileSize_; }
  bool contains(const void* ptr) const {
    const char* base = base_.load(std::memory_order_acquire);
    auto* p = static_cast<const char*>(ptr);
    return base != nullptr && p >= base && p < base + fileSize_;
  }
  // Opens and maps the file at the first allocation.
  aclError open();

 private:
  aclError reserve(uint64_t* offset, uint64_t size, uint64_t alignment, const char* call);
  void addFree(uint64_t offset, uint64_t size);
  void takeFree(uint64_t offset, uint64_t size);
  void populate(uint64_t offset, uint64_t size);
  void punchUnused();

  Device& device_;
  std::mutex mutex_;  // guards what follows; nothing else is locked under it
  int memfd_ = -1;
  std::atomic<char*> base_{nullptr};  // set last when the file is mapped; read without the mutex
  uint64_t fileSize_ = 0;
  uint64_t used_ = 0;
  uint64_t peak_ = 0;
  std::map<uint64_t, uint64_t> live_;                   // offset -> size, with an address
  std::map<uint64_t, uint64_t> ranges_;                 // offset -> size, without
  std::map<uint64_t, uint64_t> free_;                   // offset -> size
  std::set<std::pair<uint64_t, uint64_t>> freeBySize_;  // (size, offset)
  std::map<uint64_t, uint64_t> populated_;              // offset -> size of what may have pages
  uint64_t populatedBytes_ = 0;
};

}  // namespace npu_emulator
