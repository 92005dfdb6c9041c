#include "runtime/HostAllocator.h"

#include <c10/util/Exception.h>

#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "cann/Acl.h"
#include "cann/Error.h"
#include "runtime/Device.h"
#include "runtime/Event.h"

namespace torch_npu {

namespace {

using Clock = std::chrono::steady_clock;

// The address ranges of page-locked blocks, so that isPinned() needs no CANN call.
class PinnedRanges {
 public:
  void add(const void* start, size_t size) {
    std::unique_lock lock(mutex_);
    sizes_[reinterpret_cast<uintptr_t>(start)] = size;
  }

  void remove(const void* start) {
    std::unique_lock lock(mutex_);
    sizes_.erase(reinterpret_cast<uintptr_t>(start));
  }

  bool contains(const void* pointer) const {
    const auto address = reinterpret_cast<uintptr_t>(pointer);
    std::shared_lock lock(mutex_);
    const auto after = sizes_.upper_bound(address);
    if (after == sizes_.begin()) {
      return false;
    }
    const auto& [start, size] = *std::prev(after);
    return address - start < size;
  }

 private:
  mutable std::shared_mutex mutex_;  // guards sizes_; a leaf, no call leaves while it is held
  std::map<uintptr_t, size_t> sizes_;
};

PinnedRanges& pinnedRanges() {
  static auto* const ranges = new PinnedRanges;
  return *ranges;
}

// The caching is torch's; these are the device's parts.
class HostMemory final : public at::CachingHostAllocatorImpl<c10::Stream, NPUEvent> {
 public:
  void free(void* context) override {
    // A forked child must not touch the parent's blocks, and its copies of the locks may be locked.
    // After finalize() CANN has taken the memory back.
    if (!isInBadFork() && !isFinalized()) {
      CachingHostAllocatorImpl::free(context);
    }
  }

  void copy_data(void* destination, const void* source, size_t count) const override {
    std::memcpy(destination, source, count);
  }

 private:
  void allocate_host_memory(size_t size, void** pointer) override {
    useDevice();
    const auto start = Clock::now();
    int code = cann::aclrtMallocHost(pointer, size);
    if (cann::isOutOfMemory(code)) {
      empty_cache();
      code = cann::aclrtMallocHost(pointer, size);
    }
    if (code != ACL_SUCCESS) {
      cann::throwError("aclrtMallocHost", code,
                       "page-locked host memory of " + std::to_string(size) + " bytes");
    }
    pinnedRanges().add(*pointer, size);
    countTime(stats_.host_alloc_time, start);
  }

  void free_block(at::HostBlock<c10::Stream>* block) override {
    pinnedRanges().remove(block->ptr_);
    const auto start = Clock::now();
    const int code = cann::aclrtFreeHost(block->ptr_);
    if (code != ACL_SUCCESS) {
      TORCH_WARN(cann::describeError("aclrtFreeHost", code));
    }
    countTime(stats_.host_free_time, start);
  }

  void countTime(c10::CachingAllocator::DurationStat& stat, Clock::time_point start) {
    const auto spent = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start);
    std::lock_guard lock(stats_.timing_mutex_);
    stat.increase(spent.count());
  }

  void record_stream(std::optional<std::vector<NPUEvent>>& events, c10::Stream stream) override {
    NPUEvent event;
    event.record(NPUStream(stream));
    events->push_back(std::move(event));
  }

  bool query_event(NPUEvent& event) override {
    return event.query();
  }

  c10::Stream get_current_stream() const override {
    return getCurrentStream().unwrap();
  }

  bool stream_is_capturing(c10::Stream) const override {
    return false;
  }
};

void deleteHostBlock(void* context);

struct NPUHostAllocator final : at::CachingHostAllocatorInterface<HostMemory, &deleteHostBlock> {};

// Tensors outlive every static destructor, so this is never destroyed.
NPUHostAllocator& instance() {
  static auto* const allocator = new NPUHostAllocator;
  return *allocator;
}

void deleteHostBlock(void* context) {
  try {
    instance().free(context);
  } catch (const std::exception& error) {
    // The block stays out of the cache: reusing memory that may still be written to is worse.
    TORCH_WARN("A block of page-locked memory could not be taken back, it is lost: ", error.what());
  }
}

const at::HostAllocatorRegistry<c10::kPrivateUse1> kRegistered(&instance());

}  // namespace

at::HostAllocator* hostAllocator() {
  return &instance();
}

bool isPinned(const void* pointer) {
  return pinnedRanges().contains(pointer);
}

bool recordHostEvent(void* pointer, void* context, const NPUStream& stream) {
  return instance().record_event(pointer, context, stream.unwrap());
}

}  // namespace torch_npu
