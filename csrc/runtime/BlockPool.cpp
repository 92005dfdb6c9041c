#include "runtime/BlockPool.h"

#include <c10/core/AllocatorConfig.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <stdexcept>
#include <string>

namespace torch_npu {

namespace {

using c10::CachingAllocator::kMinBlockSize;  // 512 B
using c10::CachingAllocator::kMinLargeAlloc;  // 10 MiB
using c10::CachingAllocator::kRoundLarge;     // 2 MiB
using c10::CachingAllocator::kSmallBuffer;    // 2 MiB
using c10::CachingAllocator::kSmallSize;      // 1 MiB
using c10::CachingAllocator::StatType;

size_t roundUp(size_t value, size_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

// Idle blocks of small segments, one list per size, with a two-level bitmap of the sizes that have
// any: best fit is two bit scans.
class BlockPool::SmallBins {
 public:
  static constexpr size_t kBins = kSmallBuffer / kMinBlockSize;
  static constexpr size_t kWordBits = 64;
  static_assert(kBins == kWordBits * kWordBits, "the summary must fit one word");

  void insert(Block* block) {
    const size_t bin = binOf(block->size);
    block->idlePrevious = nullptr;
    block->idleNext = heads_[bin];
    if (heads_[bin] != nullptr) {
      heads_[bin]->idlePrevious = block;
    }
    heads_[bin] = block;
    words_[bin / kWordBits] |= uint64_t{1} << bin % kWordBits;
    summary_ |= uint64_t{1} << bin / kWordBits;
  }

  void remove(Block* block) {
    const size_t bin = binOf(block->size);
    (block->idlePrevious != nullptr ? block->idlePrevious->idleNext : heads_[bin]) =
        block->idleNext;
    if (block->idleNext != nullptr) {
      block->idleNext->idlePrevious = block->idlePrevious;
    }
    block->idlePrevious = block->idleNext = nullptr;
    if (heads_[bin] == nullptr) {
      words_[bin / kWordBits] &= ~(uint64_t{1} << bin % kWordBits);
      if (words_[bin / kWordBits] == 0) {
        summary_ &= ~(uint64_t{1} << bin / kWordBits);
      }
    }
  }

  Block* bestFit(size_t size) const {
    const size_t bin = binOf(size);
    size_t word = bin / kWordBits;
    uint64_t candidates = words_[word] & (~uint64_t{0} << bin % kWordBits);
    if (candidates == 0) {
      const uint64_t later =
          word + 1 < kWordBits ? summary_ & (~uint64_t{0} << (word + 1)) : uint64_t{0};
      if (later == 0) {
        return nullptr;
      }
      word = static_cast<size_t>(std::countr_zero(later));
      candidates = words_[word];
    }
    return heads_[word * kWordBits + static_cast<size_t>(std::countr_zero(candidates))];
  }

 private:
  static size_t binOf(size_t size) {
    return size / kMinBlockSize - 1;
  }

  std::array<Block*, kBins> heads_{};
  std::array<uint64_t, kWordBits> words_{};
  uint64_t summary_ = 0;
};

BlockPool::StreamLists::StreamLists() : small(std::make_unique<SmallBins>()) {}
BlockPool::StreamLists::~StreamLists() = default;

BlockPool::BlockPool(c10::DeviceIndex device, BlockPoolLimits limits)
    : device_(device), limits_(limits) {
  stats_.max_split_size = static_cast<int64_t>(
      std::min<size_t>(limits.maxSplit, std::numeric_limits<int64_t>::max()));
}

BlockPool::~BlockPool() = default;

size_t BlockPool::roundSize(size_t bytes) {
  return std::max(kMinBlockSize, roundUp(bytes, kMinBlockSize));
}

bool BlockPool::isSmall(size_t rounded) {
  return rounded <= kSmallSize;
}

size_t BlockPool::segmentSize(size_t rounded) const {
  if (isSmall(rounded)) {
    return kSmallBuffer;
  }
  // Middle sizes share a segment; big ones get their own, or each would waste most of one.
  const size_t size = rounded < std::min(kMinLargeAlloc, limits_.largeSegment)
                          ? limits_.largeSegment
                          : roundUp(rounded, kRoundLarge);
  if (rounded < limits_.maxSplit && size >= limits_.maxSplit) {
    // A block of that size would be kept for requests above the limit: see findIdle.
    return std::max(rounded, (limits_.maxSplit - 1) / kRoundLarge * kRoundLarge);
  }
  return size;
}

BlockPool::StreamLists& BlockPool::lists(c10::StreamId stream) {
  if (lastLists_ == nullptr || lastStream_ != stream) {
    auto& entry = lists_[stream];
    if (entry == nullptr) {
      entry = std::make_unique<StreamLists>();
    }
    lastLists_ = entry.get();
    lastStream_ = stream;
  }
  return *lastLists_;
}

Block* BlockPool::findIdle(size_t rounded, c10::StreamId stream) {
  StreamLists& idle = lists(stream);
  if (isSmall(rounded)) {
    return idle.small->bestFit(rounded);
  }
  const auto found = idle.large.lower_bound(rounded);
  if (found == idle.large.end()) {
    return nullptr;
  }
  Block* block = *found;
  const bool oversizeRequest = rounded >= limits_.maxSplit;
  if (!oversizeRequest && block->size >= limits_.maxSplit) {
    return nullptr;  // would be used whole: too wasteful
  }
  if (oversizeRequest && block->size - rounded >= limits_.maxNonSplitRounding) {
    return nullptr;
  }
  return block;
}

bool BlockPool::shouldSplit(const Block& block, size_t rounded) const {
  const size_t rest = block.size - rounded;
  return block.segment->small ? rest >= kMinBlockSize
                              : rounded < limits_.maxSplit && rest > kSmallSize;
}

Block* BlockPool::take(size_t rounded, size_t requested, c10::StreamId stream) {
  ++clock_;
  Block* block = findIdle(rounded, stream);
  if (block == nullptr) {
    return nullptr;
  }
  removeIdle(block);
  if (shouldSplit(*block, rounded)) {
    Block* rest = newBlock();
    rest->segment = block->segment;
    rest->address = block->address + rounded;
    rest->size = block->size - rounded;
    rest->previous = block;
    rest->next = block->next;
    if (rest->next != nullptr) {
      rest->next->previous = rest;
    }
    block->next = rest;
    block->size = rounded;
    insertIdle(rest);
  }
  block->allocated = true;
  block->requested = requested;
  const bool small = block->segment->small;
  add(stats_.allocation, small, 1);
  add(stats_.allocated_bytes, small, block->size);
  add(stats_.requested_bytes, small, requested);
  add(stats_.active, small, 1);
  add(stats_.active_bytes, small, block->size);
  if (block->size >= limits_.maxSplit) {
    stats_.oversize_allocations.increase(1);
  }
  return block;
}

void BlockPool::attach(const DetachedSegment& from) {
  TORCH_INTERNAL_ASSERT(from.size > 0 && from.size % kMinBlockSize == 0, from.size);
  TORCH_INTERNAL_ASSERT(!from.small || from.size <= kSmallBuffer, from.size);
  auto segment = std::make_unique<Segment>(
      Segment{from.base, from.size, from.stream, from.small, newBlock()});
  Block* block = segment->first;
  block->address = from.base;
  block->size = from.size;
  block->segment = segment.get();
  const auto [where, inserted] = segments_.emplace(from.base, std::move(segment));
  TORCH_INTERNAL_ASSERT(inserted, "a segment at this address exists already");
  insertIdle(block);
  add(stats_.segment, from.small, 1);
  add(stats_.reserved_bytes, from.small, from.size);
  if (from.size >= limits_.maxSplit) {
    stats_.oversize_segments.increase(1);
  }
}

void BlockPool::release(Block* block) {
  TORCH_INTERNAL_ASSERT(block->allocated, "a block was released twice");
  block->allocated = false;
  const bool small = block->segment->small;
  subtract(stats_.allocation, small, 1);
  subtract(stats_.allocated_bytes, small, block->size);
  subtract(stats_.requested_bytes, small, block->requested);
  if (block->size >= limits_.maxSplit) {
    stats_.oversize_allocations.decrease(1);
  }
}

void BlockPool::reclaim(Block* block) {
  TORCH_INTERNAL_ASSERT(!block->allocated && !block->idle && block->pendingEvents == 0);
  const bool small = block->segment->small;
  subtract(stats_.active, small, 1);
  subtract(stats_.active_bytes, small, block->size);
  block->requested = 0;
  block->usedOn.clear();
  if (block->next != nullptr && block->next->idle) {
    removeIdle(block->next);
    absorbNext(block);
  }
  if (block->previous != nullptr && block->previous->idle) {
    block = block->previous;
    removeIdle(block);
    absorbNext(block);
  }
  insertIdle(block);
}

void BlockPool::absorbNext(Block* block) {
  Block* gone = block->next;
  block->size += gone->size;
  block->next = gone->next;
  if (block->next != nullptr) {
    block->next->previous = block;
  }
  recycle(gone);
}

void BlockPool::insertIdle(Block* block) {
  StreamLists& idle = lists(block->segment->stream);
  if (block->segment->small) {
    idle.small->insert(block);
  } else {
    idle.large.insert(block);
  }
  block->idle = true;
  block->idleSince = clock_;
  if (block->isSplit()) {
    block->countedAsSplit = true;
    add(stats_.inactive_split, block->segment->small, 1);
    add(stats_.inactive_split_bytes, block->segment->small, block->size);
  }
}

void BlockPool::removeIdle(Block* block) {
  StreamLists& idle = lists(block->segment->stream);
  if (block->segment->small) {
    idle.small->remove(block);
  } else {
    idle.large.erase(block);
  }
  block->idle = false;
  if (block->countedAsSplit) {
    block->countedAsSplit = false;
    subtract(stats_.inactive_split, block->segment->small, 1);
    subtract(stats_.inactive_split_bytes, block->segment->small, block->size);
  }
}

Block* BlockPool::newBlock() {
  Block* block = nullptr;
  if (recycled_.empty()) {
    block = &blocks_.emplace_back();
  } else {
    block = recycled_.back();
    recycled_.pop_back();
  }
  block->device = device_;
  return block;
}

void BlockPool::recycle(Block* block) {
  *block = Block{};
  recycled_.push_back(block);
}

DetachedSegment BlockPool::detach(Segment* segment) {
  Block* block = segment->first;
  removeIdle(block);
  recycle(block);
  const DetachedSegment detached{segment->base, segment->size, segment->stream, segment->small};
  subtract(stats_.segment, detached.small, 1);
  subtract(stats_.reserved_bytes, detached.small, detached.size);
  if (detached.size >= limits_.maxSplit) {
    stats_.oversize_segments.decrease(1);
  }
  segments_.erase(detached.base);
  return detached;
}

std::vector<DetachedSegment> BlockPool::detachIdle() {
  std::vector<Segment*> idle;
  for (const auto& [base, segment] : segments_) {
    if (segment->first->idle && !segment->first->isSplit()) {
      idle.push_back(segment.get());
    }
  }
  std::vector<DetachedSegment> detached;
  detached.reserve(idle.size());
  for (Segment* segment : idle) {
    detached.push_back(detach(segment));
  }
  return detached;
}

std::vector<Block*> BlockPool::unsplitIdleLargeBlocks() const {
  std::vector<Block*> blocks;
  for (const auto& [stream, idle] : lists_) {
    for (Block* block : idle->large) {
      if (!block->isSplit()) {
        blocks.push_back(block);
      }
    }
  }
  return blocks;
}

std::vector<DetachedSegment> BlockPool::detachOld(size_t bytes) {
  std::vector<Block*> blocks = unsplitIdleLargeBlocks();
  std::vector<DetachedSegment> detached;
  if (blocks.empty()) {
    return detached;
  }
  uint64_t totalAge = 0;
  for (const Block* block : blocks) {
    totalAge += clock_ - block->idleSince;
  }
  const uint64_t averageAge = totalAge / blocks.size();
  std::sort(blocks.begin(), blocks.end(), [](const Block* a, const Block* b) {
    return a->idleSince != b->idleSince ? a->idleSince < b->idleSince : a->address < b->address;
  });
  size_t freed = 0;
  for (Block* block : blocks) {
    if (freed >= bytes || clock_ - block->idleSince < averageAge) {
      break;
    }
    freed += block->size;
    detached.push_back(detach(block->segment));
  }
  return detached;
}

std::vector<DetachedSegment> BlockPool::detachOversize(size_t bytes) {
  std::vector<Block*> blocks = unsplitIdleLargeBlocks();
  std::erase_if(blocks, [&](const Block* block) { return block->size < limits_.maxSplit; });
  std::sort(blocks.begin(), blocks.end(), [](const Block* a, const Block* b) {
    return BySizeThenAddress{}(b, a);
  });
  // The smallest one that is enough by itself, else the largest ones together.
  const auto enough = std::find_if(blocks.rbegin(), blocks.rend(),
                                   [&](const Block* block) { return block->size >= bytes; });
  if (enough != blocks.rend()) {
    return {detach((*enough)->segment)};
  }
  std::vector<DetachedSegment> detached;
  size_t freed = 0;
  for (Block* block : blocks) {
    if (freed >= bytes) {
      break;
    }
    freed += block->size;
    detached.push_back(detach(block->segment));
  }
  return detached;
}

Block* BlockPool::find(uintptr_t address) const {
  auto after = segments_.upper_bound(address);
  if (after == segments_.begin()) {
    return nullptr;
  }
  const Segment& segment = *std::prev(after)->second;
  if (address - segment.base >= segment.size) {
    return nullptr;
  }
  Block* block = segment.first;
  while (address - block->address >= block->size) {
    block = block->next;
  }
  return block;
}

std::vector<c10::CachingDeviceAllocator::SegmentInfo> BlockPool::snapshot() const {
  std::vector<c10::CachingDeviceAllocator::SegmentInfo> result;
  result.reserve(segments_.size());
  for (const auto& [base, segment] : segments_) {
    auto& info = result.emplace_back();
    info.device = device_;
    info.address = base;
    info.total_size = segment->size;
    info.stream = reinterpret_cast<void*>(segment->stream);  // the id stands for the stream
    info.is_large = !segment->small;
    for (const Block* block = segment->first; block != nullptr; block = block->next) {
      auto& part = info.blocks.emplace_back();
      part.size = block->size;
      part.requested_size = block->requested;
      part.allocated = block->allocated;
      part.active = !block->idle;
      info.requested_size += block->requested;
      info.allocated_size += part.allocated ? part.size : 0;
      info.active_size += part.active ? part.size : 0;
    }
  }
  return result;
}

size_t BlockPool::allocatedBytes() const {
  return static_cast<size_t>(
      stats_.allocated_bytes[static_cast<size_t>(StatType::AGGREGATE)].current);
}

size_t BlockPool::reservedBytes() const {
  return static_cast<size_t>(
      stats_.reserved_bytes[static_cast<size_t>(StatType::AGGREGATE)].current);
}

void BlockPool::add(Stats& stats, bool small, size_t amount) {
  stats[static_cast<size_t>(StatType::AGGREGATE)].increase(amount);
  stats[static_cast<size_t>(small ? StatType::SMALL_POOL : StatType::LARGE_POOL)].increase(amount);
}

void BlockPool::subtract(Stats& stats, bool small, size_t amount) {
  stats[static_cast<size_t>(StatType::AGGREGATE)].decrease(amount);
  stats[static_cast<size_t>(small ? StatType::SMALL_POOL : StatType::LARGE_POOL)].decrease(amount);
}

void BlockPool::checkInvariants() const {
  const auto require = [](bool condition, const char* what) {
    if (!condition) {
      throw std::logic_error(std::string("BlockPool: ") + what);
    }
  };
  size_t reserved = 0;
  size_t allocated = 0;
  size_t blocks = 0;
  for (const auto& [base, segment] : segments_) {
    require(segment->base == base, "a segment is filed under another address");
    reserved += segment->size;
    uintptr_t expected = base;
    const Block* previous = nullptr;
    for (const Block* block = segment->first; block != nullptr; block = block->next) {
      require(block->address == expected, "blocks do not tile their segment");
      require(block->previous == previous, "a block does not know its neighbour");
      require(block->segment == segment.get(), "a block does not know its segment");
      require(block->size % kMinBlockSize == 0 && block->size > 0, "a block has an odd size");
      require(!(block->idle && block->allocated), "a block is idle and allocated");
      require(!(block->idle && previous != nullptr && previous->idle), "idle blocks not merged");
      expected += block->size;
      allocated += block->allocated ? block->size : 0;
      previous = block;
      ++blocks;
    }
    require(expected == base + segment->size, "blocks do not fill their segment");
  }
  require(reserved == reservedBytes(), "reserved bytes do not add up");
  require(allocated == allocatedBytes(), "allocated bytes do not add up");
  require(blocks + recycled_.size() == blocks_.size(), "a block is lost");
}

}  // namespace torch_npu
