// Copies, fills, and reads and writes of single values by streams.
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "emulator/Environment.h"
#include "emulator/Error.h"
#include "emulator/Memory.h"
#include "emulator/Stream.h"
#include "emulator/Trace.h"

namespace npu_emulator {
namespace {

aclError invalid(const char* name, const std::string& what) {
  return fail(ACL_ERROR_RT_PARAM_INVALID, std::string(name) + ": " + what);
}

const char* kindName(PointerKind kind) {
  switch (kind) {
    case PointerKind::Device:
      return "device memory";
    case PointerKind::PinnedHost:
      return "pinned host memory";
    case PointerKind::RegisteredHost:
      return "registered host memory";
    case PointerKind::Pageable:
      return "pageable host memory";
  }
  return "?";
}

// Registered host memory is mapped for the device, so it serves as both.
bool mayBeDevice(const PointerInfo& info) {
  return info.kind == PointerKind::Device || info.kind == PointerKind::RegisteredHost;
}
bool mayBeHost(const PointerInfo& info) {
  return info.kind != PointerKind::Device;
}

aclError checkRange(
    const char* name, const char* role, const PointerInfo& info, uint64_t count) {
  if (info.kind == PointerKind::Pageable || count <= info.available) {
    return ACL_SUCCESS;
  }
  if (info.available == 0) {
    return invalid(
        name, std::string(role) + " is device memory of device " + std::to_string(info.device) +
            " that is not allocated (freed, or never was)");
  }
  return invalid(
      name, std::to_string(count) + " bytes do not fit " + role + ": " +
                std::to_string(info.available) + " bytes of " + kindName(info.kind) +
                " are left from there");
}

struct Copy {
  PointerInfo dst;
  PointerInfo src;
};

aclError checkCopy(
    const char* name, void* dst, size_t destMax, const void* src, size_t count,
    aclrtMemcpyKind kind, Copy* copy) {
  if (dst == nullptr || src == nullptr) {
    return fail(ACL_ERROR_INVALID_PARAM, std::string(name) + ": null pointer");
  }
  if (count > destMax) {
    return invalid(
        name, "count " + std::to_string(count) + " exceeds destMax " + std::to_string(destMax));
  }
  if (currentContext() == nullptr) {
    return ACL_ERROR_RT_CONTEXT_NULL;
  }
  copy->dst = classify(dst);
  copy->src = classify(src);
  bool fits = true;
  switch (kind) {
    case ACL_MEMCPY_HOST_TO_HOST:
      fits = mayBeHost(copy->dst) && mayBeHost(copy->src);
      break;
    case ACL_MEMCPY_HOST_TO_DEVICE:
    case ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE:
      fits = mayBeDevice(copy->dst) && mayBeHost(copy->src);
      break;
    case ACL_MEMCPY_DEVICE_TO_HOST:
      fits = mayBeHost(copy->dst) && mayBeDevice(copy->src);
      break;
    case ACL_MEMCPY_DEVICE_TO_DEVICE:
    case ACL_MEMCPY_INNER_DEVICE_TO_DEVICE:
    case ACL_MEMCPY_INTER_DEVICE_TO_DEVICE:
      fits = mayBeDevice(copy->dst) && mayBeDevice(copy->src);
      break;
    case ACL_MEMCPY_DEFAULT:
      break;
    default:
      return fail(
          ACL_ERROR_INVALID_PARAM, std::string(name) + ": unknown kind " + std::to_string(kind));
  }
  if (!fits) {
    return invalid(
        name, "kind " + std::to_string(kind) + " does not fit: the destination is " +
            kindName(copy->dst.kind) + ", the source is " + kindName(copy->src.kind));
  }
  if (const aclError code = checkRange(name, "the destination", copy->dst, count)) {
    return code;
  }
  if (const aclError code = checkRange(name, "the source", copy->src, count)) {
    return code;
  }
  if (copy->dst.kind == PointerKind::Device && copy->src.kind == PointerKind::Device &&
      !peersAllowed(copy->dst.device, copy->src.device)) {
    return invalid(
        name, "copy from device " + std::to_string(copy->src.device) + " to device " +
            std::to_string(copy->dst.device) +
            " without access: call aclrtDeviceEnablePeerAccess for one of the two first");
  }
  return ACL_SUCCESS;
}

aclError copyNow(
    const char* name, void* dst, size_t destMax, const void* src, size_t count,
    aclrtMemcpyKind kind) {
  Copy copy;
  if (const aclError code = checkCopy(name, dst, destMax, src, count, kind, &copy)) {
    return code;
  }
  std::memmove(dst, src, count);
  return ACL_SUCCESS;
}

aclError copyLater(
    const char* name, void* dst, size_t destMax, const void* src, size_t count,
    aclrtMemcpyKind kind, aclrtStream stream, Copy* copy) {
  if (const aclError code = checkCopy(name, dst, destMax, src, count, kind, copy)) {
    return code;
  }
  return enqueue(stream, name, [dst, src, count]() -> aclError {
    std::memmove(dst, src, count);
    return ACL_SUCCESS;
  });
}

aclError checkFill(const char* name, void* devPtr, size_t maxCount, size_t count) {
  if (devPtr == nullptr) {
    return fail(ACL_ERROR_INVALID_PARAM, std::string(name) + ": null pointer");
  }
  if (count > maxCount) {
    return invalid(
        name, "count " + std::to_string(count) + " exceeds maxCount " + std::to_string(maxCount));
  }
  if (currentContext() == nullptr) {
    return ACL_ERROR_RT_CONTEXT_NULL;
  }
  return checkRange(name, "the destination", classify(devPtr), count);
}

// The arrays of aclrtMemcpyBatch*; the locations of `attrs` follow from the pointers.
template <class One>
aclError copyBatch(
    const char* name, void** dsts, size_t* destMaxs, void** srcs, size_t* sizes, size_t numBatches,
    aclrtMemcpyBatchAttr* attrs, size_t* attrsIndexes, size_t numAttrs, size_t* failIndex,
    One one) {
  constexpr size_t kAll = ~size_t{0};  // the failure belongs to no single copy
  if (failIndex != nullptr) {
    *failIndex = kAll;
  }
  if (dsts == nullptr || destMaxs == nullptr || srcs == nullptr || sizes == nullptr ||
      numBatches == 0) {
    return fail(ACL_ERROR_INVALID_PARAM, std::string(name) + ": null arrays or no copies");
  }
  if (numAttrs > numBatches || (numAttrs != 0 && (attrs == nullptr || attrsIndexes == nullptr))) {
    return fail(
        ACL_ERROR_INVALID_PARAM, std::string(name) + ": the attributes do not fit the copies");
  }
  for (size_t i = 0; i < numBatches; ++i) {
    if (const aclError code = one(dsts[i], destMaxs[i], srcs[i], sizes[i])) {
      if (failIndex != nullptr) {
        *failIndex = i;
      }
      return code;
    }
  }
  return ACL_SUCCESS;
}

// How a stream compares the value that it waits for.
enum ValueWait : uint32_t { GreaterOrEqual = 0, Equal = 1, And = 2, Nor = 3 };

bool valueReached(uint64_t seen, uint64_t wanted, uint32_t how) {
  switch (how) {
    case GreaterOrEqual:
      return static_cast<int64_t>(seen - wanted) >= 0;
    case Equal:
      return seen == wanted;
    case And:
      return (seen & wanted) != 0;
    default:
      return ~(seen | wanted) != 0;
  }
}

aclError checkValueAddress(const char* name, void* devAddr) {
  constexpr uintptr_t kAlignment = 8;
  if (devAddr == nullptr || reinterpret_cast<uintptr_t>(devAddr) % kAlignment != 0) {
    return fail(
        ACL_ERROR_RT_ADDR_UNALIGNED,
        std::string(name) + ": the address is null or not in steps of 8");
  }
  return checkFill(name, devAddr, sizeof(uint64_t), sizeof(uint64_t));
}

}  // namespace
}  // namespace npu_emulator

using namespace npu_emulator;

extern "C" {

aclError aclrtMemcpy(
    void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind) {
  return call(
      "aclrtMemcpy", [&] { return copyNow("aclrtMemcpy", dst, destMax, src, count, kind); });
}

aclError aclrtMemcpyAsync(
    void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind,
    aclrtStream stream) {
  return call("aclrtMemcpyAsync", [&] {
    Copy copy;
    return copyLater("aclrtMemcpyAsync", dst, destMax, src, count, kind, stream, &copy);
  });
}

aclError aclrtMemcpyAsyncWithCondition(
    void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind,
    aclrtStream stream) {
  return call("aclrtMemcpyAsyncWithCondition", [&]() -> aclError {
    Copy copy;
    if (const aclError code = copyLater(
            "aclrtMemcpyAsyncWithCondition", dst, destMax, src, count, kind, stream, &copy)) {
      return code;
    }
    // The condition: memory that the device cannot reach by itself is copied before the return.
    return copy.dst.kind == PointerKind::Pageable || copy.src.kind == PointerKind::Pageable
        ? aclrtSynchronizeStream(stream)
        : ACL_SUCCESS;
  });
}

aclError aclrtMemcpyBatch(
    void** dsts, size_t* destMaxs, void** srcs, size_t* sizes, size_t numBatches,
    aclrtMemcpyBatchAttr* attrs, size_t* attrsIndexes, size_t numAttrs, size_t* failIndex) {
  return call("aclrtMemcpyBatch", [&] {
    return copyBatch(
        "aclrtMemcpyBatch", dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes, numAttrs,
        failIndex, [](void* dst, size_t destMax, const void* src, size_t size) {
          return copyNow("aclrtMemcpyBatch", dst, destMax, src, size, ACL_MEMCPY_DEFAULT);
        });
  });
}

aclError aclrtMemcpyBatchAsync(
    void** dsts, size_t* destMaxs, void** srcs, size_t* sizes, size_t numBatches,
    aclrtMemcpyBatchAttr* attrs, size_t* attrsIndexes, size_t numAttrs, size_t* failIndex,
    aclrtStream stream) {
  return call("aclrtMemcpyBatchAsync", [&] {
    return copyBatch(
        "aclrtMemcpyBatchAsync", dsts, destMaxs, srcs, sizes, numBatches, attrs, attrsIndexes,
        numAttrs, failIndex, [&](void* dst, size_t destMax, const void* src, size_t size) {
          Copy copy;
          return copyLater(
              "aclrtMemcpyBatchAsync", dst, destMax, src, size, ACL_MEMCPY_DEFAULT, stream, &copy);
        });
  });
}

aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count) {
  return call("aclrtMemset", [&]() -> aclError {
    if (const aclError code = checkFill("aclrtMemset", devPtr, maxCount, count)) {
      return code;
    }
    std::memset(devPtr, value, count);
    return ACL_SUCCESS;
  });
}

aclError aclrtMemsetAsync(
    void* devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream) {
  return call("aclrtMemsetAsync", [&]() -> aclError {
    if (const aclError code = checkFill("aclrtMemsetAsync", devPtr, maxCount, count)) {
      return code;
    }
    return enqueue(stream, "aclrtMemsetAsync", [devPtr, value, count]() -> aclError {
      std::memset(devPtr, value, count);
      return ACL_SUCCESS;
    });
  });
}

aclError aclrtCmoAsync(void* src, size_t size, aclrtCmoType cmoType, aclrtStream stream) {
  return call("aclrtCmoAsync", [&]() -> aclError {
    if (cmoType > ACL_RT_CMO_TYPE_FLUSH) {
      return fail(ACL_ERROR_INVALID_PARAM, "aclrtCmoAsync: unknown operation");
    }
    if (const aclError code = checkFill("aclrtCmoAsync", src, size, size)) {
      return code;
    }
    // The host's caches are coherent: only a prefetch has something to do.
    return enqueue(stream, "aclrtCmoAsync", [src, size, cmoType]() -> aclError {
      if (cmoType == ACL_RT_CMO_TYPE_PREFETCH) {
        constexpr uintptr_t kPage = 4096;
        const uintptr_t start = reinterpret_cast<uintptr_t>(src) / kPage * kPage;
        ::madvise(
            reinterpret_cast<void*>(start), reinterpret_cast<uintptr_t>(src) + size - start,
            MADV_WILLNEED);
      }
      return ACL_SUCCESS;
    });
  });
}

aclError aclrtValueWrite(void* devAddr, uint64_t value, uint32_t flag, aclrtStream stream) {
  return call("aclrtValueWrite", [&]() -> aclError {
    if (flag != 0) {
      return fail(ACL_ERROR_INVALID_PARAM, "aclrtValueWrite: flag must be 0");
    }
    if (const aclError code = checkValueAddress("aclrtValueWrite", devAddr)) {
      return code;
    }
    return enqueue(stream, "aclrtValueWrite", [devAddr, value]() -> aclError {
      std::atomic_ref(*static_cast<uint64_t*>(devAddr)).store(value, std::memory_order_release);
      return ACL_SUCCESS;
    });
  });
}

aclError aclrtValueWait(void* devAddr, uint64_t value, uint32_t flag, aclrtStream stream) {
  return call("aclrtValueWait", [&]() -> aclError {
    if (flag > Nor) {
      return fail(
          ACL_ERROR_INVALID_PARAM,
          "aclrtValueWait: flag must be 0 (>=), 1 (==), 2 (and) or 3 (nor)");
    }
    if (const aclError code = checkValueAddress("aclrtValueWait", devAddr)) {
      return code;
    }
    return enqueue(stream, "aclrtValueWait", [devAddr, value, flag]() -> aclError {
      // Anything may write the value (a kernel, another process), so there is nothing to sleep on.
      constexpr std::chrono::microseconds kFirst{50};
      constexpr std::chrono::microseconds kLongest{1000};
      auto step = kFirst;
      std::atomic_ref cell(*static_cast<uint64_t*>(devAddr));
      while (!valueReached(cell.load(std::memory_order_acquire), value, flag)) {
        if (taskCancelled()) {
          return fail(ACL_ERROR_RT_STREAM_ABORT, "aclrtValueWait was cancelled");
        }
        std::this_thread::sleep_for(step);
        step = std::min(step * 2, kLongest);
      }
      return ACL_SUCCESS;
    });
  });
}

}  // extern "C"
