#include "runtime/DeviceMemory.h"

#include <c10/core/AllocatorConfig.h>
#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>
#include <c10/util/llvmMathExtras.h>

#include <algorithm>
#include <exception>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>

#include "cann/Acl.h"
#include "cann/Env.h"
#include "cann/Error.h"
#include "runtime/Device.h"

namespace torch_npu {

using c10::CachingAllocator::AcceleratorAllocatorConfig;
using c10::CachingDeviceAllocator::DeviceStats;

namespace {

std::string formatSize(uint64_t bytes) {
  std::ostringstream text;
  text.precision(2);
  text.setf(std::ios::fixed);
  if (bytes < 1024) {
    text << bytes << " bytes";
  } else if (bytes < (1u << 20)) {
    text << static_cast<double>(bytes) / 1024 << " KiB";
  } else if (bytes < (1u << 30)) {
    text << static_cast<double>(bytes) / (1u << 20) << " MiB";
  } else {
    text << static_cast<double>(bytes) / (1u << 30) << " GiB";
  }
  return text.str();
}

// torch skips keys it does not know unless a device registered a parser of its own; a typing error
// must not pass for a setting.
void checkKeys(const std::string& settings) {
  const c10::CachingAllocator::ConfigTokenizer tokens(settings);
  const auto& known = AcceleratorAllocatorConfig::getKeys();
  for (size_t i = 0; i < tokens.size(); i += 2) {
    const std::string& key = tokens[i];
    TORCH_CHECK_VALUE(known.count(key) != 0, "PYTORCH_NPU_ALLOC_CONF=", settings, ": no such key '",
                      key, "'. Keys: ", c10::Join(", ", known));
    TORCH_CHECK_VALUE(i + 2 < tokens.size() && tokens[i + 1] == ":", "PYTORCH_NPU_ALLOC_CONF=",
                      settings, ": expected '", key, ":value'");
    i = tokens.skipKey(i);
    TORCH_CHECK_VALUE(i + 1 == tokens.size() || tokens[i + 1] == ",", "PYTORCH_NPU_ALLOC_CONF=",
                      settings, ": expected a comma after the value of '", key, "'");
  }
}

// The user's name for the settings wins over torch's device-neutral one, which is already parsed.
void readSettingsOnce() {
  static const bool done = [] {
    const std::string settings = cann::env::text("PYTORCH_NPU_ALLOC_CONF");
    if (!settings.empty()) {
      checkKeys(settings);
      c10::CachingAllocator::setAllocatorSettings(settings);
    }
    if (AcceleratorAllocatorConfig::use_expandable_segments()) {
      TORCH_WARN("torch_npu does not grow segments yet: expandable_segments:True is ignored.");
    }
    return true;
  }();
  (void)done;
}

BlockPoolLimits limitsFromSettings() {
  readSettingsOnce();
  BlockPoolLimits limits;
  limits.largeSegment = AcceleratorAllocatorConfig::large_segment_size();
  limits.maxSplit = AcceleratorAllocatorConfig::max_split_size();
  if (const size_t rounding = AcceleratorAllocatorConfig::max_non_split_rounding_size()) {
    limits.maxNonSplitRounding = rounding;
  }
  return limits;
}

size_t roundRequest(size_t bytes) {
  const size_t divisions = AcceleratorAllocatorConfig::roundup_power2_divisions(bytes);
  if (divisions > 1 && bytes > divisions * BlockPool::roundSize(1)) {
    const size_t floor = c10::llvm::PowerOf2Floor(bytes);
    const size_t step = std::max(floor / divisions, BlockPool::roundSize(1));
    return BlockPool::roundSize((bytes + step - 1) / step * step);
  }
  return BlockPool::roundSize(bytes);
}

}  // namespace

DeviceMemory::DeviceMemory(c10::DeviceIndex device)
    : device_(device),
      caching_(!cann::env::flag("PYTORCH_NO_NPU_MEMORY_CACHING")),
      pool_(device, limitsFromSettings()) {}

Block* DeviceMemory::allocate(size_t bytes, c10::StreamId stream) {
  if (isInBadFork()) [[unlikely]] {
    initialize();  // throws: cached memory is the parent's, and so may be the holder of mutex_
  }
  const size_t rounded = roundRequest(bytes);
  reclaimFinished();
  std::unique_lock lock(mutex_);
  Block* block = pool_.take(rounded, bytes, stream);
  if (block == nullptr) [[unlikely]] {
    lock.unlock();
    block = allocateSlow(rounded, bytes, stream);
    lock.lock();
  }
  report(block, static_cast<int64_t>(block->size));
  return block;
}

void DeviceMemory::free(Block* block) {
  std::unique_lock release(releaseMutex_, std::defer_lock);
  if (!caching_) [[unlikely]] {
    release.lock();
  }
  std::unique_lock lock(mutex_);
  pool_.release(block);
  report(block, -static_cast<int64_t>(block->size));
  const bool deviceGone = !isInitialized() || isFinalized();
  if (block->usedOn.empty() || deviceGone) {
    pool_.reclaim(block);
    if (!caching_ && !deviceGone) [[unlikely]] {
      std::vector<DetachedSegment> idle = pool_.detachIdle();
      lock.unlock();
      giveBack(std::move(idle));
    }
    return;
  }
  const std::vector<c10::StreamId> streams = std::move(block->usedOn);
  block->usedOn.clear();
  block->pendingEvents = static_cast<uint32_t>(streams.size());
  lock.unlock();
  // Nobody else can reach the block now: it is neither allocated nor idle.
  std::vector<std::pair<c10::StreamId, NPUEvent>> events;
  events.reserve(streams.size());
  try {
    for (const c10::StreamId stream : streams) {
      NPUEvent event;
      event.record(streamFromId(stream, device_));
      events.emplace_back(stream, std::move(event));
    }
  } catch (const std::exception& error) {  // not all events will come: the block stays out of use
    warnLost(error);
  }
  lock.lock();
  for (auto& [stream, event] : events) {
    pending_[stream].push_back({std::move(event), block});
    ++pendingCount_;
  }
}

void DeviceMemory::recordStream(Block* block, c10::StreamId stream) {
  std::lock_guard lock(mutex_);
  addUser(block, stream);
}

void DeviceMemory::recordStream(const void* pointer, c10::StreamId stream) {
  std::lock_guard lock(mutex_);
  Block* block = pool_.find(reinterpret_cast<uintptr_t>(pointer));
  if (block != nullptr && block->allocated) {
    addUser(block, stream);
  }
}

void DeviceMemory::emptyCache() {
  std::lock_guard release(releaseMutex_);
  reclaimAll();
  std::unique_lock lock(mutex_);
  std::vector<DetachedSegment> idle = pool_.detachIdle();
  lock.unlock();
  if (const std::exception_ptr failure = giveBack(std::move(idle))) {
    std::rethrow_exception(failure);
  }
}

DeviceStats DeviceMemory::stats() {
  std::lock_guard lock(mutex_);
  return pool_.stats();
}

template <class Function>
void DeviceMemory::forEachStat(Function&& function) {
  DeviceStats& s = pool_.stats();
  for (auto* group : {&s.allocation, &s.segment, &s.active, &s.inactive_split, &s.allocated_bytes,
                      &s.reserved_bytes, &s.active_bytes, &s.inactive_split_bytes,
                      &s.requested_bytes}) {
    for (auto& stat : *group) {
      function(stat);
    }
  }
  function(s.oversize_allocations);
  function(s.oversize_segments);
}

void DeviceMemory::resetAccumulatedStats() {
  std::lock_guard lock(mutex_);
  forEachStat([](auto& stat) { stat.reset_accumulated(); });
  DeviceStats& s = pool_.stats();
  s.num_alloc_retries = s.num_ooms = s.num_sync_all_streams = 0;
  s.num_device_alloc = s.num_device_free = s.num_oom_rejections = 0;
}

void DeviceMemory::resetPeakStats() {
  std::lock_guard lock(mutex_);
  forEachStat([](auto& stat) { stat.reset_peak(); });
}

void DeviceMemory::setFraction(double fraction, size_t total) {
  std::lock_guard lock(mutex_);
  fraction_ = fraction;
  limit_ = fraction < 1.0 ? static_cast<size_t>(fraction * static_cast<double>(total)) : SIZE_MAX;
}

double DeviceMemory::fraction() {
  std::lock_guard lock(mutex_);
  return fraction_;
}

std::vector<c10::CachingDeviceAllocator::SegmentInfo> DeviceMemory::snapshot() {
  std::lock_guard lock(mutex_);
  return pool_.snapshot();
}

void DeviceMemory::addUser(Block* block, c10::StreamId stream) {
  auto& users = block->usedOn;
  if (stream != block->segment->stream &&
      std::find(users.begin(), users.end(), stream) == users.end()) {
    users.push_back(stream);
  }
}

void DeviceMemory::reclaimFinished() {
  if (pendingCount_.load(std::memory_order_relaxed) == 0) {
    return;
  }
  std::unique_lock events(eventsMutex_, std::try_to_lock);
  if (events.owns_lock()) {
    reclaimPending(/*wait=*/false);
  }
}

void DeviceMemory::reclaimAll() {
  std::lock_guard events(eventsMutex_);
  reclaimPending(/*wait=*/true);
  std::lock_guard lock(mutex_);
  ++pool_.stats().num_sync_all_streams;
}

void DeviceMemory::reclaimPending(bool wait) {
  PendingQueues queues;
  {
    std::lock_guard lock(mutex_);
    queues.swap(pending_);
  }
  std::vector<Pending> finished;
  size_t dropped = 0;
  for (auto& [stream, queue] : queues) {
    while (!queue.empty()) {
      try {
        if (wait) {
          queue.front().event.synchronize();
        } else if (!queue.front().event.query()) {
          break;
        }
        finished.push_back(std::move(queue.front()));
      } catch (const std::exception& error) {
        // The stream failed, which is for its next synchronisation to report. The block's count of
        // pending events never reaches 0 now, so it is never used again.
        ++dropped;
        warnLost(error);
      }
      queue.pop_front();
    }
  }
  {
    std::lock_guard lock(mutex_);
    for (auto& [stream, queue] : queues) {
      auto& later = pending_[stream];
      later.insert(later.begin(), std::make_move_iterator(queue.begin()),
                   std::make_move_iterator(queue.end()));
    }
    for (const Pending& entry : finished) {
      if (--entry.block->pendingEvents == 0) {
        pool_.reclaim(entry.block);
      }
    }
    pendingCount_.fetch_sub(finished.size() + dropped, std::memory_order_relaxed);
  }
}

void DeviceMemory::warnLost(const std::exception& reason) {
  if (warnedLost_.exchange(true)) {
    return;
  }
  const auto* error = dynamic_cast<const c10::Error*>(&reason);
  TORCH_WARN("npu:", static_cast<int>(device_),
             ": a stream failed that uses memory which was freed meanwhile (record_stream). That "
             "memory is kept out of use until the process ends. ",
             error != nullptr ? error->what_without_backtrace() : reason.what());
}

Block* DeviceMemory::allocateSlow(size_t rounded, size_t requested, c10::StreamId stream) {
  initialize();
  const size_t segmentBytes = caching_ ? pool_.segmentSize(rounded) : rounded;
  collectGarbage(segmentBytes);
  Block* block = takeFromNewSegment(rounded, requested, stream, segmentBytes);
  if (block != nullptr) {
    return block;
  }
  {
    std::lock_guard lock(mutex_);
    ++pool_.stats().num_alloc_retries;
  }
  std::string reason;
  block = allocateByRelease(rounded, requested, stream, segmentBytes, &reason);
  if (block == nullptr) {
    throwOutOfMemory(requested, reason);
  }
  return block;
}

Block* DeviceMemory::allocateByRelease(size_t rounded, size_t requested, c10::StreamId stream,
                                       size_t segmentBytes, std::string* reason) {
  std::lock_guard release(releaseMutex_);
  Block* block = nullptr;
  {
    std::unique_lock lock(mutex_);
    std::vector<DetachedSegment> oversize = pool_.detachOversize(segmentBytes);
    lock.unlock();
    if (!oversize.empty()) {
      giveBack(std::move(oversize));
      block = takeFromNewSegment(rounded, requested, stream, segmentBytes);
      if (block != nullptr) {
        return block;
      }
    }
  }
  reclaimAll();
  {
    std::unique_lock lock(mutex_);
    block = pool_.take(rounded, requested, stream);
    if (block != nullptr) {
      return block;
    }
    std::vector<DetachedSegment> idle = pool_.detachIdle();
    lock.unlock();
    giveBack(std::move(idle));
  }
  block = takeFromNewSegment(rounded, requested, stream, segmentBytes);
  if (block == nullptr) {  // a segment serves more than this request: its own size may still fit
    block = takeFromNewSegment(rounded, requested, stream, rounded, reason);
  }
  return block;
}

Block* DeviceMemory::takeFromNewSegment(size_t rounded, size_t requested, c10::StreamId stream,
                                        size_t bytes, std::string* reason) {
  const DeviceScope scope(device_);
  {
    std::lock_guard lock(mutex_);
    if (limit_ != SIZE_MAX && pool_.reservedBytes() + requestedOfDevice_ + bytes > limit_) {
      return nullptr;
    }
    requestedOfDevice_ += bytes;
  }
  void* base = nullptr;
  const int code = cann::aclrtMalloc(&base, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
  std::unique_lock lock(mutex_);
  requestedOfDevice_ -= bytes;
  if (code != ACL_SUCCESS) {
    lock.unlock();
    if (!cann::isOutOfMemory(code)) {
      cann::throwError("aclrtMalloc", code);
    }
    std::string message = cann::recentMessage();  // read always, so that no later error shows it
    if (reason != nullptr) {
      *reason = std::move(message);
    }
    return nullptr;
  }
  ++pool_.stats().num_device_alloc;
  pool_.attach({reinterpret_cast<uintptr_t>(base), bytes, stream, BlockPool::isSmall(rounded)});
  return pool_.take(rounded, requested, stream);
}

void DeviceMemory::collectGarbage(size_t bytes) {
  const double threshold = AcceleratorAllocatorConfig::garbage_collection_threshold();
  if (threshold <= 0) {
    return;
  }
  const size_t total = memoryInfo(device_).second;
  std::lock_guard release(releaseMutex_);
  std::unique_lock lock(mutex_);
  const size_t allowed =
      static_cast<size_t>(threshold * static_cast<double>(std::min(limit_, total)));
  const size_t wanted = pool_.reservedBytes() + bytes;
  if (wanted <= allowed) {
    return;
  }
  std::vector<DetachedSegment> old = pool_.detachOld(wanted - allowed);
  lock.unlock();
  giveBack(std::move(old));
}

std::exception_ptr DeviceMemory::giveBack(std::vector<DetachedSegment> segments) {
  if (segments.empty()) {
    return nullptr;
  }
  std::exception_ptr failure;
  try {
    synchronizeDevice(device_);
  } catch (const std::exception&) {
    failure = std::current_exception();
    // Some stream failed. An idle segment has outlived what other streams did with it, so that only
    // the state of its own stream matters.
    const auto gone = std::partition(
        segments.begin(), segments.end(), [this](const DetachedSegment& segment) {
          try {
            streamFromId(segment.stream, device_).synchronize();
            return true;
          } catch (const std::exception&) {
            return false;  // `failure` tells
          }
        });
    std::lock_guard lock(mutex_);
    std::for_each(gone, segments.end(),
                  [this](const DetachedSegment& segment) { pool_.attach(segment); });
    segments.erase(gone, segments.end());
  }
  const DeviceScope scope(device_);
  size_t freed = 0;
  for (const DetachedSegment& segment : segments) {
    const int code = cann::aclrtFree(reinterpret_cast<void*>(segment.base));
    if (code != ACL_SUCCESS) {
      TORCH_WARN(cann::describeError("aclrtFree", code));
    } else {
      ++freed;
    }
  }
  std::lock_guard lock(mutex_);
  pool_.stats().num_device_free += static_cast<int64_t>(freed);
  return failure;
}

void DeviceMemory::throwOutOfMemory(size_t requested, const std::string& reason) {
  const auto [free, total] = memoryInfo(device_);
  std::unique_lock lock(mutex_);
  ++pool_.stats().num_ooms;
  const size_t allocated = pool_.allocatedBytes();
  const size_t reserved = pool_.reservedBytes();
  const size_t limit = limit_;
  const double fraction = fraction_;
  lock.unlock();
  c10::reportOutOfMemoryToProfiler(static_cast<int64_t>(requested), allocated, reserved,
                                   c10::Device(c10::kPrivateUse1, device_));
  std::ostringstream text;
  text << "NPU out of memory: npu:" << static_cast<int>(device_) << " cannot give "
       << formatSize(requested) << ". Its capacity is " << formatSize(total) << ", of which "
       << formatSize(free) << " is free. ";
  if (limit != SIZE_MAX) {
    text << "This process may take " << formatSize(limit)
         << " of it (set_per_process_memory_fraction(" << fraction << ")). ";
  }
  text << "Tensors of this process hold " << formatSize(allocated) << "; "
       << formatSize(reserved - allocated) << " more is reserved without being allocated (total "
       << formatSize(reserved) << "). Use smaller batches or free tensors; if much is reserved but"
       << " unallocated, it is fragmented: try max_split_size_mb in PYTORCH_NPU_ALLOC_CONF.";
  if (!reason.empty()) {
    text << "\nCANN says: " << reason;
  }
  throw c10::OutOfMemoryError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, text.str());
}

void DeviceMemory::report(const Block* block, int64_t change) {
  if (c10::memoryProfilingEnabled()) [[unlikely]] {
    c10::reportMemoryUsageToProfiler(reinterpret_cast<void*>(block->address), change,
                                     pool_.allocatedBytes(), pool_.reservedBytes(),
                                     c10::Device(c10::kPrivateUse1, device_));
  }
}

}  // namespace torch_npu
