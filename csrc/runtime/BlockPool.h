// Bookkeeping of one device's cached memory: which bytes of which segment are in use, and which
// block answers a request best. Makes no CANN call and takes no lock (the owner does both).
#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

namespace torch_npu {

struct Segment;

// A part of a segment. In use from take() to release(); then held until reclaim() if other streams
// still use it; then idle.
struct Block {
  uintptr_t address = 0;
  size_t size = 0;
  size_t requested = 0;
  Segment* segment = nullptr;
  Block* previous = nullptr;  // neighbours in the segment
  Block* next = nullptr;
  Block* idlePrevious = nullptr;  // neighbours in the list of idle blocks of one size
  Block* idleNext = nullptr;
  uint64_t idleSince = 0;  // in allocations of this pool
  uint32_t pendingEvents = 0;
  c10::DeviceIndex device = -1;
  bool allocated = false;
  bool idle = false;
  bool countedAsSplit = false;
  std::vector<c10::StreamId> usedOn;  // streams other than the segment's

  bool isSplit() const {
    return previous != nullptr || next != nullptr;
  }
};

// Memory as it came from the device. A segment belongs to one stream for as long as it lives.
struct Segment {
  uintptr_t base = 0;
  size_t size = 0;
  c10::StreamId stream = 0;
  bool small = false;
  Block* first = nullptr;
};

struct DetachedSegment {
  uintptr_t base;
  size_t size;
  c10::StreamId stream;
  bool small;
};

struct BlockPoolLimits {
  size_t largeSegment = 20u << 20;
  size_t maxSplit = SIZE_MAX;           // larger blocks are used whole
  size_t maxNonSplitRounding = 20u << 20;  // waste accepted when a larger block is used whole
};

class BlockPool {
 public:
  explicit BlockPool(c10::DeviceIndex device, BlockPoolLimits limits = {});
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // What a request of `bytes` occupies.
  static size_t roundSize(size_t bytes);  // to a multiple of 512
  static bool isSmall(size_t rounded);
  // How much to ask of the device when no idle block fits.
  size_t segmentSize(size_t rounded) const;

  // The best-fitting idle block of this stream, split if much larger; null if there is none.
  // `rounded` is a multiple of roundSize's unit, `requested` what the user asked for (statistics).
  Block* take(size_t rounded, size_t requested, c10::StreamId stream);
  // Adds a segment, idle as a whole. Its smallness must be that of the request it was made for.
  void attach(const DetachedSegment& segment);

  void release(Block* block);  // the user is done with it
  void reclaim(Block* block);  // nobody uses it any more: idle, merged with idle neighbours

  // Removes wholly idle segments, so that the caller can give them back to the device:
  std::vector<DetachedSegment> detachIdle();
  // - unsplit ones longer idle than average, until `bytes` are reached;
  std::vector<DetachedSegment> detachOld(size_t bytes);
  // - those above maxSplit (which smaller requests cannot use), until `bytes` are reached.
  std::vector<DetachedSegment> detachOversize(size_t bytes);

  // The block that holds this address, or null.
  Block* find(uintptr_t address) const;

  std::vector<c10::CachingDeviceAllocator::SegmentInfo> snapshot() const;
  c10::CachingDeviceAllocator::DeviceStats& stats() {
    return stats_;
  }
  size_t allocatedBytes() const;
  size_t reservedBytes() const;
  // Throws std::logic_error if the structure contradicts itself; for tests.
  void checkInvariants() const;

 private:
  class SmallBins;
  struct BySizeThenAddress {
    using is_transparent = void;
    bool operator()(const Block* a, const Block* b) const {
      return a->size != b->size ? a->size < b->size : a->address < b->address;
    }
    bool operator()(const Block* a, size_t size) const {
      return a->size < size;
    }
    bool operator()(size_t size, const Block* b) const {
      return size < b->size;
    }
  };
  using LargeSet = std::set<Block*, BySizeThenAddress>;
  struct StreamLists {
    StreamLists();
    ~StreamLists();
    std::unique_ptr<SmallBins> small;
    LargeSet large;
  };

  StreamLists& lists(c10::StreamId stream);
  Block* findIdle(size_t rounded, c10::StreamId stream);
  bool shouldSplit(const Block& block, size_t rounded) const;
  void insertIdle(Block* block);
  void removeIdle(Block* block);
  void absorbNext(Block* block);
  Block* newBlock();
  void recycle(Block* block);
  DetachedSegment detach(Segment* segment);
  std::vector<Block*> unsplitIdleLargeBlocks() const;

  using Stats = c10::CachingAllocator::StatArray;
  void add(Stats& stats, bool small, size_t amount);
  void subtract(Stats& stats, bool small, size_t amount);

  const c10::DeviceIndex device_;
  const BlockPoolLimits limits_;
  std::map<uintptr_t, std::unique_ptr<Segment>> segments_;
  std::unordered_map<c10::StreamId, std::unique_ptr<StreamLists>> lists_;
  c10::StreamId lastStream_ = 0;
  StreamLists* lastLists_ = nullptr;
  std::deque<Block> blocks_;  // owns every Block; addresses are stable
  std::vector<Block*> recycled_;
  uint64_t clock_ = 0;
  c10::CachingDeviceAllocator::DeviceStats stats_;
};

}  // namespace torch_npu
