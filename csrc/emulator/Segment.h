// Layout of the shared segment that the ranks of one communicator work through. Zero bytes are its
// valid start. Every field says who writes it; text and numbers of a failure are written once.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "emulator/Shm.h"

namespace npu_emulator::hccl {

enum class Operation : uint32_t {
  None,
  AllReduce,
  Reduce,
  Broadcast,
  AllGather,
  AllGatherV,
  ReduceScatter,
  ReduceScatterV,
  Scatter,
  AlltoAll,
  AlltoAllV,
  AlltoAllVC,
};

// A run of bytes in the file of a device's memory.
struct Extent {
  uint64_t offset;
  uint64_t bytes;
};

// A buffer: contiguous for its owner, one or more runs in the file (memory that was mapped from
// several physical handles). Runs after the first are in the rank's extent table.
struct BufferRecord {
  uint64_t bytes;
  Extent first;
  uint32_t extents;
};
inline constexpr uint32_t kMaxExtents = 4096;

// What a rank brings to a collective. Written by the rank before it arrives, read by all until the
// collective is done.
struct Posting {
  uint64_t sequence;
  Operation operation;
  uint32_t dataType;
  uint32_t receiveType;  // of all-to-all; else equal to dataType
  uint32_t reduceOp;
  uint32_t root;
  uint64_t count;         // as the caller gave it; 0 where vectors say it
  BufferRecord input;
  BufferRecord output;
};

// Counts and displacements of the vector collectives, in elements, one row of `ranks` each.
enum VectorKind : uint32_t { kSendCounts, kSendOffsets, kReceiveCounts, kReceiveOffsets, kVectors };

// Why a rank is no longer there.
enum class Departure : uint32_t { Present, Destroyed, Exited, Died };

// A send or receive that has been blocked for a while, for the search for cycles (Deadlock.h). The
// stamp is 0 modulo 4 when the record is free, 1 while it is written, 2 when it is valid, and never
// takes an earlier value again.
struct WaitRecord {
  std::atomic<uint64_t> stamp;
  uint64_t stream;  // number of the stream in its process
  uint64_t message;
  uint64_t count;
  uint32_t peer;
  uint32_t sending;  // 1: waits for the peer's receive; 0: for its send
  uint32_t dataType;
};
inline constexpr uint32_t kWaitRecords = 8;

// The invitation to a sub-communicator, written by its first rank and read by its other ranks.
struct Invitation {
  std::atomic<uint32_t> state;  // 0 free, 1 being written, 2 valid
  uint64_t key;
  char socket[64];
  uint8_t nonce[16];
};
inline constexpr uint32_t kInvitations = 16;

struct alignas(64) RankArea {
  // Rung when a channel of this rank moved, or something of interest to all happened.
  Bell bell;
  std::atomic<Departure> departure;
  // 1 while this rank's task reads or writes buffers of other ranks for a collective.
  std::atomic<uint32_t> working;
  // Collectives that this rank has arrived at.
  alignas(64) std::atomic<uint64_t> arrived;
  Posting posting;
  Invitation invitations[kInvitations];
  WaitRecord waits[kWaitRecords];
};

// One direction between two ranks. Messages are cut into parts that lie in one run of memory; parts
// take the slots in turn.
struct alignas(64) Part {
  enum State : uint32_t { Free, Full, Taken };
  std::atomic<uint32_t> state;  // sender: Free -> Full, Taken -> Free; receiver: the rest
  uint32_t dataType;
  uint64_t count;    // elements of the whole message
  uint64_t message;  // its number
  uint64_t offset;   // of this part in it, bytes
  uint64_t bytes;    // of this part
  uint64_t memory;   // offset in the sender's device memory, when not inlined
  uint32_t inlined;  // 1: the bytes are in the channel's slot buffer
};
inline constexpr uint32_t kSlots = 4;
inline constexpr uint32_t kSlotBytes = 8192;
inline constexpr uint32_t kPostedRing = 256;

struct Channel {
  Part parts[kSlots];
  // Operations that the sender's and the receiver's host have called, and on which stream.
  std::atomic<uint64_t> postedSends;
  std::atomic<uint64_t> postedReceives;
  std::atomic<uint64_t> completedSends;
  std::atomic<uint64_t> completedReceives;
  uint64_t sendStreams[kPostedRing];
  uint64_t receiveStreams[kPostedRing];
  alignas(64) std::byte data[kSlots][kSlotBytes];
};

struct alignas(64) SegmentHeader {
  uint64_t magic;
  uint32_t ranks;
  // The failure that ended this communicator, for all ranks: 0 none, 1 being written, 2 complete.
  std::atomic<uint32_t> failureState;
  uint32_t failureCode;
  char failureText[4096];
  std::atomic<uint32_t> departures;  // changes when a rank departs

  // The collective under way. `engine` is rung when there is work to share and when it is done.
  alignas(64) Bell engine;
  alignas(64) std::atomic<uint64_t> arrivals;  // of all ranks, since the beginning
  alignas(64) std::atomic<uint64_t> shared;    // collectives whose work was opened to helpers
  std::atomic<uint64_t> done;                  // collectives finished
  uint64_t chunkBytes;
  uint64_t chunks;
  alignas(64) std::atomic<uint64_t> nextChunk;
  alignas(64) std::atomic<uint64_t> finishedChunks;
};

inline constexpr uint64_t kSegmentMagic = 0x6e70755f68636331;  // changes with this layout

// Typed access to the parts of a mapped segment.
class Segment {
 public:
  Segment() = default;
  Segment(std::byte* base, uint32_t ranks) : base_(base), ranks_(ranks) {}

  static size_t bytes(uint32_t ranks) { return channelsAt(ranks) + channelBytes(ranks); }

  SegmentHeader& header() const { return *reinterpret_cast<SegmentHeader*>(base_); }
  RankArea& rank(uint32_t rank) const {
    return reinterpret_cast<RankArea*>(base_ + sizeof(SegmentHeader))[rank];
  }
  uint64_t* vector(uint32_t rank, VectorKind kind) const {
    return reinterpret_cast<uint64_t*>(base_ + vectorsAt(ranks_)) +
        (size_t{rank} * kVectors + kind) * ranks_;
  }
  // `ranks` x `ranks` counts of AlltoAllVC as `rank` gave them.
  uint64_t* matrix(uint32_t rank) const {
    return reinterpret_cast<uint64_t*>(base_ + matricesAt(ranks_)) + size_t{rank} * ranks_ * ranks_;
  }
  Extent* extents(uint32_t rank, bool output) const {
    return reinterpret_cast<Extent*>(base_ + extentsAt(ranks_)) +
        (size_t{rank} * 2 + (output ? 1 : 0)) * kMaxExtents;
  }
  Channel& channel(uint32_t from, uint32_t to) const {
    return reinterpret_cast<Channel*>(base_ + channelsAt(ranks_))[size_t{from} * ranks_ + to];
  }

 private:
  static constexpr size_t kPage = 4096;
  static size_t pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }
  static size_t vectorsAt(size_t n) {
    return pages(sizeof(SegmentHeader) + n * sizeof(RankArea));
  }
  static size_t matricesAt(size_t n) {
    return vectorsAt(n) + pages(n * kVectors * n * sizeof(uint64_t));
  }
  static size_t extentsAt(size_t n) { return matricesAt(n) + pages(n * n * n * sizeof(uint64_t)); }
  static size_t channelsAt(size_t n) {
    return extentsAt(n) + pages(n * 2 * kMaxExtents * sizeof(Extent));
  }
  static size_t channelBytes(size_t n) { return pages(n * n * sizeof(Channel)); }

  std::byte* base_ = nullptr;
  uint32_t ranks_ = 0;
};

}  // namespace npu_emulator::hccl
