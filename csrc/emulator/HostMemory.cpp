#include "emulator/HostMemory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <shared_mutex>

#include "emulator/Environment.h"
#include "emulator/Error.h"
#include "emulator/Trace.h"

namespace npu_emulator {
namespace {

struct Range {
  uint64_t size = 0;
  bool registered = false;  // the program's own memory
};

struct HostRanges {
  std::shared_mutex mutex;  // guards ranges; nothing else is locked under it
  std::map<uintptr_t, Range> ranges;

  // The range around an address, or end.
  std::map<uintptr_t, Range>::iterator around(uintptr_t address) {
    auto next = ranges.upper_bound(address);
    if (next == ranges.begin()) {
      return ranges.end();
    }
    --next;
    return address < next->first + next->second.size ? next : ranges.end();
  }
};

HostRanges& host() {
  static auto* value = new HostRanges;
  return *value;
}

constexpr uint64_t kPage = 4096;

aclError allocateHost(void** ptr, uint64_t size, const char* name) {
  if (ptr == nullptr || size == 0) {
    return fail(
        ACL_ERROR_INVALID_PARAM,
        std::string(name) + (ptr == nullptr ? ": the pointer to fill is null" : ": size is 0"));
  }
  if (currentContext() == nullptr) {
    return ACL_ERROR_RT_CONTEXT_NULL;
  }
  const uint64_t rounded = (size + kPage - 1) / kPage * kPage;
  void* memory = ::mmap(
      nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return fail(
        ACL_ERROR_RT_MEMORY_ALLOCATION, std::string(name) + ": the host has no " +
                                            describeBytes(size) + ": " + std::strerror(errno));
  }
  HostRanges& h = host();
  std::unique_lock lock(h.mutex);
  h.ranges.emplace(reinterpret_cast<uintptr_t>(memory), Range{rounded, false});
  *ptr = memory;
  return ACL_SUCCESS;
}

aclError registerHost(void* ptr, uint64_t size, const char* name) {
  if (ptr == nullptr || size == 0) {
    return fail(ACL_ERROR_INVALID_PARAM, std::string(name) + ": null pointer or size 0");
  }
  if (currentContext() == nullptr) {
    return ACL_ERROR_RT_CONTEXT_NULL;
  }
  MemoryLocation location;
  if (locate(ptr, &location)) {
    return fail(ACL_ERROR_INVALID_PARAM, std::string(name) + ": this is device memory");
  }
  HostRanges& h = host();
  std::unique_lock lock(h.mutex);
  const auto address = reinterpret_cast<uintptr_t>(ptr);
  const auto next = h.ranges.lower_bound(address);
  if (h.around(address) != h.ranges.end() ||
      (next != h.ranges.end() && next->first < address + size)) {
    return fail(
        ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
        std::string(name) + ": the memory is registered or pinned already");
  }
  h.ranges.emplace(address, Range{size, true});
  return ACL_SUCCESS;
}

}  // namespace

void classifyHost(const void* ptr, PointerInfo* info) {
  HostRanges& h = host();
  std::shared_lock lock(h.mutex);
  const auto address = reinterpret_cast<uintptr_t>(ptr);
  const auto found = h.around(address);
  if (found != h.ranges.end()) {
    info->kind = found->second.registered ? PointerKind::RegisteredHost : PointerKind::PinnedHost;
    info->available = found->first + found->second.size - address;
  }
}

}  // namespace npu_emulator

using namespace npu_emulator;

extern "C" {

aclError aclrtMallocHost(void** hostPtr, size_t size) {
  return call("aclrtMallocHost", [&] { return allocateHost(hostPtr, size, "aclrtMallocHost"); });
}

aclError aclrtMallocHostWithCfg(void** ptr, uint64_t size, aclrtMallocConfig* cfg) {
  return call("aclrtMallocHostWithCfg", [&]() -> aclError {
    if (cfg != nullptr && cfg->numAttrs != 0 && cfg->attrs == nullptr) {
      return fail(ACL_ERROR_INVALID_PARAM, "aclrtMallocHostWithCfg: attributes are null");
    }
    return allocateHost(ptr, size, "aclrtMallocHostWithCfg");
  });
}

aclError aclrtFreeHost(void* hostPtr) {
  return call("aclrtFreeHost", [&]() -> aclError {
    if (isForkedChild()) {
      return forkedError();
    }
    HostRanges& h = host();
    std::unique_lock lock(h.mutex);
    const auto found = h.ranges.find(reinterpret_cast<uintptr_t>(hostPtr));
    if (found == h.ranges.end() || found->second.registered) {
      return fail(
          ACL_ERROR_INVALID_PARAM,
          "aclrtFreeHost: not the start of memory of aclrtMallocHost*, or freed before");
    }
    ::munmap(hostPtr, found->second.size);
    h.ranges.erase(found);
    return ACL_SUCCESS;
  });
}

aclError aclrtHostRegister(
    void* ptr, uint64_t size, aclrtHostRegisterType type, void** devPtr) {
  return call("aclrtHostRegister", [&]() -> aclError {
    if (type != ACL_HOST_REGISTER_MAPPED || devPtr == nullptr) {
      return fail(
          ACL_ERROR_INVALID_PARAM,
          "aclrtHostRegister: needs ACL_HOST_REGISTER_MAPPED and a place for the device's address");
    }
    const aclError code = registerHost(ptr, size, "aclrtHostRegister");
    if (code == ACL_SUCCESS) {
      *devPtr = ptr;  // one address space: the device sees the host's address
    }
    return code;
  });
}

aclError aclrtHostRegisterV2(void* ptr, uint64_t size, uint32_t flag) {
  return call("aclrtHostRegisterV2", [&]() -> aclError {
    constexpr uint32_t kKnown =
        ACL_HOST_REG_MAPPED | ACL_HOST_REG_IOMEMORY | ACL_HOST_REG_READONLY | ACL_HOST_REG_PINNED;
    if ((flag & ~kKnown) != 0) {
      return fail(ACL_ERROR_INVALID_PARAM, "aclrtHostRegisterV2: unknown flags");
    }
    return registerHost(ptr, size, "aclrtHostRegisterV2");
  });
}

aclError aclrtHostUnregister(void* ptr) {
  return call("aclrtHostUnregister", [&]() -> aclError {
    if (isForkedChild()) {
      return forkedError();
    }
    HostRanges& h = host();
    std::unique_lock lock(h.mutex);
    const auto found = h.ranges.find(reinterpret_cast<uintptr_t>(ptr));
    if (found == h.ranges.end() || !found->second.registered) {
      return fail(
          ACL_ERROR_HOST_MEMORY_NOT_REGISTERED,
          "aclrtHostUnregister: not the start of registered memory");
    }
    h.ranges.erase(found);
    return ACL_SUCCESS;
  });
}

}  // extern "C"
