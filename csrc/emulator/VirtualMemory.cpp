#include "emulator/VirtualMemory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <shared_mutex>

#include "emulator/Environment.h"
#include "emulator/Error.h"
#include "emulator/Handle.h"
#include "emulator/SharedSlot.h"
#include "emulator/Trace.h"

namespace npu_emulator {
namespace {

constexpr uint64_t kGranularity = uint64_t{2} << 20;  // of physical memory and its mappings

// Physical memory: a range of a device's file, of this process or of another one.
struct Physical {
  int device = -1;
  int memfd = -1;
  uint64_t offset = 0;
  uint64_t size = 0;
  SharedSlot* slot = nullptr;             // when it was exported from here
  std::shared_ptr<ForeignFile> foreign;   // when it was imported
  ~Physical() {
    if (foreign != nullptr) {
      return;
    }
    if (slot != nullptr) {
      releaseSlot(slot);
    }
    if (Device* owner = deviceAt(device)) {
      owner->memory().freeRange(offset);
    }
  }
};

struct Mapping {
  uint64_t size = 0;
  uint64_t offset = 0;  // in the physical memory
  std::shared_ptr<Physical> physical;
};

struct Addresses {
  std::shared_mutex mutex;  // guards what follows; DeviceMemory's is locked under it by ~Physical
  std::map<uintptr_t, uint64_t> reserved;
  std::map<uintptr_t, Mapping> mappings;
};

Addresses& addresses() {
  static auto* value = new Addresses;
  return *value;
}

HandleTable<Physical>& handles() {
  static auto* value = new HandleTable<Physical>;
  return *value;
}

// The entry whose range holds the address, or end.
template <class Map>
auto around(Map& map, uintptr_t address) {
  auto next = map.upper_bound(address);
  if (next == map.begin()) {
    return map.end();
  }
  --next;
  uint64_t size = 0;
  if constexpr (std::is_same_v<typename Map::mapped_type, uint64_t>) {
    size = next->second;
  } else {
    size = next->second.size;
  }
  return address < next->first + size ? next : map.end();
}

aclError bad(const char* name, const std::string& what) {
  return fail(ACL_ERROR_INVALID_PARAM, std::string(name) + ": " + what);
}

// Puts PROT_NONE pages over what was mapped, so that the addresses stay reserved.
void unmapPages(uintptr_t address, uint64_t size) {
  ::mmap(
      reinterpret_cast<void*>(address), size, PROT_NONE,
      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

}  // namespace

bool locateMapped(const void* ptr, MemoryLocation* location) {
  Addresses& a = addresses();
  const auto address = reinterpret_cast<uintptr_t>(ptr);
  std::shared_lock lock(a.mutex);
  location->device = -1;
  if (auto found = around(a.mappings, address); found != a.mappings.end()) {
    const Mapping& mapping = found->second;
    location->device = mapping.physical->device;
    location->memfd = mapping.physical->memfd;
    location->offset = mapping.physical->offset + mapping.offset + (address - found->first);
    // A tensor may lie across mappings that follow each other.
    uintptr_t end = found->first + mapping.size;
    uint64_t fileEnd = mapping.physical->offset + mapping.offset + mapping.size;
    bool oneRun = true;
    location->contiguous = end - address;
    for (auto next = std::next(found); next != a.mappings.end() && next->first == end; ++next) {
      const Physical& physical = *next->second.physical;
      const uint64_t offset = physical.offset + next->second.offset;
      oneRun = oneRun && physical.memfd == location->memfd && offset == fileEnd;
      end += next->second.size;
      fileEnd = offset + next->second.size;
      location->contiguous = oneRun ? end - address : location->contiguous;
    }
    location->available = end - address;
    return true;
  }
  if (around(a.reserved, address) != a.reserved.end()) {
    location->device = std::max(0, currentDeviceOrNone());
    return false;
  }
  return locateImported(ptr, location);
}

}  // namespace npu_emulator

using namespace npu_emulator;

extern "C" {

aclError aclrtReserveMemAddress(
    void** virPtr, size_t size, size_t alignment, void* expectPtr, uint64_t) {
  return call("aclrtReserveMemAddress", [&]() -> aclError {
    if (virPtr == nullptr || size == 0 || size % kGranularity != 0) {
      return bad("aclrtReserveMemAddress", "needs a size in steps of 2 MiB and a pointer to fill");
    }
    if (alignment != 0) {
      return bad("aclrtReserveMemAddress", "alignment must be 0");
    }
    if (currentContext() == nullptr) {
      return ACL_ERROR_RT_CONTEXT_NULL;
    }
    // One granule more, so that an aligned start is in it.
    const uint64_t mapped = size + kGranularity;
    void* memory = ::mmap(
        expectPtr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      return fail(
          ACL_ERROR_RT_MEMORY_ALLOCATION,
          "aclrtReserveMemAddress: no " + describeBytes(size) + " of address space: " +
              std::strerror(errno));
    }
    const auto start = reinterpret_cast<uintptr_t>(memory);
    const auto aligned = (start + kGranularity - 1) / kGranularity * kGranularity;
    if (aligned > start) {
      ::munmap(memory, aligned - start);
    }
    if (const uint64_t rest = start + mapped - aligned - size; rest != 0) {
      ::munmap(reinterpret_cast<void*>(aligned + size), rest);
    }
    Addresses& a = addresses();
    std::unique_lock lock(a.mutex);
    a.reserved.emplace(aligned, size);
    *virPtr = reinterpret_cast<void*>(aligned);
    return ACL_SUCCESS;
  });
}

aclError aclrtReleaseMemAddress(void* virPtr) {
  return call("aclrtReleaseMemAddress", [&]() -> aclError {
    if (isForkedChild()) {
      return forkedError();
    }
    Addresses& a = addresses();
    std::unique_lock lock(a.mutex);
    const auto found = a.reserved.find(reinterpret_cast<uintptr_t>(virPtr));
    if (found == a.reserved.end()) {
      return bad("aclrtReleaseMemAddress", "not the start of addresses of aclrtReserveMemAddress");
    }
    const auto mapping = a.mappings.lower_bound(found->first);
    if (mapping != a.mappings.end() && mapping->first < found->first + found->second) {
      return bad("aclrtReleaseMemAddress", "memory is still mapped there: aclrtUnmapMem first");
    }
    ::munmap(virPtr, found->second);
    a.reserved.erase(found);
    return ACL_SUCCESS;
  });
}

aclError aclrtMallocPhysical(
    aclrtDrvMemHandle* handle, size_t size, const aclrtPhysicalMemProp* prop, uint64_t flags) {
  return call("aclrtMallocPhysical", [&]() -> aclError {
    if (handle == nullptr || prop == nullptr || flags != 0) {
      return bad("aclrtMallocPhysical", "needs a handle to fill, properties, and flags 0");
    }
    if (size == 0 || size % kGranularity != 0) {
      return bad("aclrtMallocPhysical", "the size must be in steps of 2 MiB");
    }
    if (prop->location.type != ACL_MEM_LOCATION_TYPE_DEVICE) {
      return fail(
          ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
          "aclrtMallocPhysical: only memory of devices is emulated");
    }
    if (currentContext() == nullptr) {
      return ACL_ERROR_RT_CONTEXT_NULL;
    }
    Device* device = deviceAt(static_cast<int>(prop->location.id));
    if (device == nullptr) {
      return fail(
          ACL_ERROR_RT_INVALID_DEVICEID,
          "aclrtMallocPhysical: device " + std::to_string(prop->location.id) + " was not set");
    }
    uint64_t offset = 0;
    if (const aclError code =
            device->memory().allocateRange(&offset, size, kGranularity, "aclrtMallocPhysical")) {
      return code;
    }
    auto physical = std::make_shared<Physical>();
    physical->device = device->index();
    physical->memfd = device->memory().memfd();
    physical->offset = offset;
    physical->size = size;
    *handle = handles().add(std::move(physical));
    return ACL_SUCCESS;
  });
}

aclError aclrtFreePhysical(aclrtDrvMemHandle handle) {
  return call("aclrtFreePhysical", [&]() -> aclError {
    if (isForkedChild()) {
      return forkedError();
    }
    // Mappings keep the memory until they go.
    return handles().remove(handle) != nullptr
        ? ACL_SUCCESS
        : fail(ACL_ERROR_RT_INVALID_HANDLE, "aclrtFreePhysical: not a live handle");
  });
}

aclError aclrtMapMem(
    void* virPtr, size_t size, size_t offset, aclrtDrvMemHandle handle, uint64_t flags) {
  return call("aclrtMapMem", [&]() -> aclError {
    if (isForkedChild()) {
      return forkedError();
    }
    auto physical = handles().find(handle);
    if (physical == nullptr) {
      return fail(ACL_ERROR_RT_INVALID_HANDLE, "aclrtMapMem: not a live handle");
    }
    if (size == 0 || size % kGranularity != 0 || offset != 0 || flags != 0 ||
        size > physical->size) {
      return bad(
          "aclrtMapMem",
          "needs offset 0, flags 0 and a size in steps of 2 MiB within the handle's " +
              describeBytes(physical->size));
    }
    Addresses& a = addresses();
    std::unique_lock lock(a.mutex);
    const auto address = reinterpret_cast<uintptr_t>(virPtr);
    const auto space = around(a.reserved, address);
    if (space == a.reserved.end() || address % kGranularity != 0 ||
        address + size > space->first + space->second) {
      return bad(
          "aclrtMapMem", "the addresses are not inside a reservation, or not in steps of 2 MiB");
    }
    const auto next = a.mappings.lower_bound(address);
    if (around(a.mappings, address) != a.mappings.end() ||
        (next != a.mappings.end() && next->first < address + size)) {
      return bad("aclrtMapMem", "memory is mapped there already");
    }
    if (::mmap(
            virPtr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, physical->memfd,
            static_cast<off_t>(physical->offset)) == MAP_FAILED) {
      return fail(
          ACL_ERROR_RT_DRV_INTERNAL_ERROR, std::string("aclrtMapMem: ") + std::strerror(errno));
    }
    ::madvise(virPtr, size, MADV_DONTFORK);
    a.mappings.emplace(address, Mapping{size, 0, std::move(physical)});
    return ACL_SUCCESS;
  });
}

aclError aclrtUnmapMem(void* virPtr) {
  return call("aclrtUnmapMem", [&]() -> aclError {
    if (isForkedChild()) {
      return forkedError();
    }
    Addresses& a = addresses();
    std::unique_lock lock(a.mutex);
    const auto found = a.mappings.find(reinterpret_cast<uintptr_t>(virPtr));
    if (found == a.mappings.end()) {
      return bad("aclrtUnmapMem", "not the start of a mapping of aclrtMapMem");
    }
    unmapPages(found->first, found->second.size);
    a.mappings.erase(found);
    return ACL_SUCCESS;
  });
}

aclError aclrtMemExportToShareableHandle(
    aclrtDrvMemHandle handle, aclrtMemHandleType handleType, uint64_t flags,
    uint64_t* shareableHandle) {
  return call("aclrtMemExportToShareableHandle", [&]() -> aclError {
    constexpr const char* kName = "aclrtMemExportToShareableHandle";
    if (shareableHandle == nullptr || handleType != ACL_MEM_HANDLE_TYPE_NONE ||
        flags > ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION) {
      return bad(kName, "needs a place for the handle, type NONE and known flags");
    }
    if (isForkedChild()) {
      return forkedError();
    }
    auto physical = handles().find(handle);
    if (physical == nullptr) {
      return fail(ACL_ERROR_RT_INVALID_HANDLE, std::string(kName) + ": not a live handle");
    }
    if (physical->foreign != nullptr) {
      return bad(kName, "this memory was itself imported");
    }
    if (physical->slot == nullptr) {
      physical->slot = takeSlot(physical->device, SharedSlot::MemorySlot);
      if (physical->slot == nullptr) {
        return ACL_ERROR_RT_RESOURCE_ALLOC_FAIL;
      }
      physical->slot->offset = physical->offset;
      physical->slot->size = physical->size;
    }
    physical->slot->anyPid.store(static_cast<uint32_t>(flags));
    SlotKey key;
    slotKey(physical->device, physical->slot, &key);
    *shareableHandle = packKey(key);
    return *shareableHandle != 0 ? ACL_SUCCESS : ACL_ERROR_RT_RESOURCE_ALLOC_FAIL;
  });
}

aclError aclrtMemSetPidToShareableHandle(uint64_t shareableHandle, int32_t* pid, size_t pidNum) {
  return call("aclrtMemSetPidToShareableHandle", [&]() -> aclError {
    constexpr const char* kName = "aclrtMemSetPidToShareableHandle";
    if (pid == nullptr || pidNum == 0) {
      return bad(kName, "no process ids");
    }
    const SlotKey key = unpackKey(shareableHandle);
    auto file = openForeignFile(key, kName);
    SharedSlot* slot = file == nullptr ? nullptr : file->slot(key, SharedSlot::MemorySlot);
    if (slot == nullptr || key.pid != static_cast<int32_t>(::getpid())) {
      return bad(kName, "not a handle that this process exported");
    }
    return allowPids(*slot, pid, pidNum, kName);
  });
}

aclError aclrtMemImportFromShareableHandle(
    uint64_t shareableHandle, int32_t deviceId, aclrtDrvMemHandle* handle) {
  return call("aclrtMemImportFromShareableHandle", [&]() -> aclError {
    constexpr const char* kName = "aclrtMemImportFromShareableHandle";
    if (handle == nullptr) {
      return bad(kName, "the handle pointer is null");
    }
    if (const aclError code = checkDeviceIndex(deviceId, kName)) {
      return code;
    }
    if (currentContext() == nullptr) {
      return ACL_ERROR_RT_CONTEXT_NULL;
    }
    const SlotKey key = unpackKey(shareableHandle);
    auto file = openForeignFile(key, kName);
    if (file == nullptr) {
      return ACL_ERROR_RT_IPC_ERROR;
    }
    SharedSlot* slot = file->slot(key, SharedSlot::MemorySlot);
    if (slot == nullptr) {
      return bad(kName, "the exporting process has freed the memory");
    }
    if (!mayImport(*slot, static_cast<int32_t>(::getpid()))) {
      return importRefused(kName);
    }
    auto physical = std::make_shared<Physical>();
    physical->device = deviceId;
    physical->memfd = file->memfd;
    physical->offset = slot->offset;
    physical->size = slot->size;
    physical->foreign = std::move(file);
    *handle = handles().add(std::move(physical));
    return ACL_SUCCESS;
  });
}

}  // extern "C"
