// One device's memory: a BlockPool plus what needs the device (segments, events, limits, errors).
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <atomic>
#include <cstddef>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/BlockPool.h"
#include "runtime/Event.h"

namespace torch_npu {

class DeviceMemory {
 public:
  // Reads the allocator settings. Makes no CANN call.
  explicit DeviceMemory(c10::DeviceIndex device);

  // `bytes` > 0. Throws c10::OutOfMemoryError if there is no room even without idle memory.
  Block* allocate(size_t bytes, c10::StreamId stream);
  // At once if only the block's own stream used it, else when the others' present work is done. If
  // that work fails, nobody knows whether it still writes: the block is never used again.
  void free(Block* block);

  void recordStream(Block* block, c10::StreamId stream);
  // For a pointer whose context is somebody else's (a storage that wraps ours).
  void recordStream(const void* pointer, c10::StreamId stream);

  // Waits for the device and gives idle segments back to it. Throws what the device reports then,
  // after it has freed what it can.
  void emptyCache();

  c10::CachingDeviceAllocator::DeviceStats stats();
  void resetAccumulatedStats();
  void resetPeakStats();

  // Reserves at most `fraction` of `total` bytes from now on.
  void setFraction(double fraction, size_t total);
  double fraction();

  std::vector<c10::CachingDeviceAllocator::SegmentInfo> snapshot();

 private:
  struct Pending {
    NPUEvent event;
    Block* block;
  };
  using PendingQueues = std::unordered_map<c10::StreamId, std::deque<Pending>>;

  // Reclaims blocks whose events have passed. Cheap when nothing is pending; when another thread is
  // at it already, this one goes on without.
  void reclaimFinished();
  // Waits for all events and reclaims.
  void reclaimAll();
  void reclaimPending(bool wait);  // eventsMutex_ is held
  // Tells, once, that memory is lost because a stream that uses it failed. No lock but
  // releaseMutex_ and eventsMutex_ may be held.
  void warnLost(const std::exception& reason);

  Block* allocateSlow(size_t rounded, size_t requested, c10::StreamId stream);
  // Null if the device or the limit has no room; `reason` then gets what CANN said if it was asked.
  Block* takeFromNewSegment(size_t rounded, size_t requested, c10::StreamId stream, size_t bytes,
                            std::string* reason = nullptr);
  // What is left when the device has no room: gives idle segments back for a new one. Null, and the
  // reason, if that is not enough.
  Block* allocateByRelease(size_t rounded, size_t requested, c10::StreamId stream,
                           size_t segmentBytes, std::string* reason);
  void collectGarbage(size_t bytes);
  // The segments are out of the pool already; releaseMutex_ is held since before. Queued work may
  // still touch them: waits first. Returns what the device reports then, null if nothing; segments
  // of a failed stream go back to the pool.
  std::exception_ptr giveBack(std::vector<DetachedSegment> segments);
  [[noreturn]] void throwOutOfMemory(size_t requested, const std::string& reason);

  static void addUser(Block* block, c10::StreamId stream);  // mutex_ is held
  void report(const Block* block, int64_t change);  // mutex_ is held
  template <class Function>
  void forEachStat(Function&& function);  // mutex_ is held

  const c10::DeviceIndex device_;
  const bool caching_;

  // Lock order: releaseMutex_, eventsMutex_, mutex_; each alone is fine.
  //
  // Held while idle segments are out of the pool on their way to the device. Whoever finds neither
  // idle nor free memory takes it before giving up, and so waits for what others release.
  std::mutex releaseMutex_;
  // Serialises the asking of events.
  std::mutex eventsMutex_;
  // Guards everything below and the blocks' fields. No CANN call while held.
  std::mutex mutex_;
  BlockPool pool_;
  PendingQueues pending_;
  std::atomic<size_t> pendingCount_{0};
  std::atomic<bool> warnedLost_{false};
  double fraction_ = 1.0;
  size_t limit_ = SIZE_MAX;       // bytes that may be reserved
  size_t requestedOfDevice_ = 0;  // bytes of aclrtMalloc calls under way
};

}  // namespace torch_npu
