#include "emulator/Deadlock.h"

#include <algorithm>
#include <optional>

#include "emulator/Reduce.h"

namespace npu_emulator::hccl {

namespace {

constexpr uint64_t kFree = 0;
constexpr uint64_t kWriting = 1;
constexpr uint64_t kValid = 2;

bool operator==(const BlockedMessage& a, const BlockedMessage& b) {
  return a.sending == b.sending && a.peer == b.peer && a.message == b.message;
}

// A consistent copy of a record.
struct Wait {
  uint32_t rank = 0;
  uint64_t stamp = 0;
  uint64_t stream = 0;
  BlockedMessage message;
};

std::optional<Wait> readRecord(uint32_t rank, const WaitRecord& record) {
  Wait wait;
  wait.rank = rank;
  wait.stamp = record.stamp.load(std::memory_order_acquire);
  if (wait.stamp % 4 != kValid) {
    return std::nullopt;
  }
  wait.stream = record.stream;
  wait.message.sending = record.sending != 0;
  wait.message.peer = record.peer;
  wait.message.message = record.message;
  wait.message.count = record.count;
  wait.message.dataType = record.dataType;
  std::atomic_thread_fence(std::memory_order_acquire);
  if (record.stamp.load(std::memory_order_relaxed) != wait.stamp) {
    return std::nullopt;
  }
  return wait;
}

// The waits at the head of the stream behind which the counterpart of `wait` is queued.
std::vector<Wait> blockersOf(const Segment& segment, const Wait& wait) {
  const BlockedMessage& own = wait.message;
  const Channel& channel = own.sending ? segment.channel(wait.rank, own.peer)
                                       : segment.channel(own.peer, wait.rank);
  const auto& posted = own.sending ? channel.postedReceives : channel.postedSends;
  const uint64_t count = posted.load(std::memory_order_acquire);
  if (count <= own.message || count - own.message >= kPostedRing) {
    return {};
  }
  const uint64_t* streams = own.sending ? channel.receiveStreams : channel.sendStreams;
  const uint64_t stream = streams[own.message % kPostedRing];
  std::vector<Wait> blockers;
  for (const WaitRecord& record : segment.rank(own.peer).waits) {
    const std::optional<Wait> other = readRecord(own.peer, record);
    if (!other || other->stream != stream) {
      continue;
    }
    const BlockedMessage& theirs = other->message;
    if (theirs.peer == wait.rank && theirs.sending != own.sending &&
        theirs.message == own.message) {
      return {};  // the counterpart has started
    }
    blockers.push_back(*other);
  }
  // Asked last: a peer that went on from the counterpart to one of these blockers had completed it
  // before. The waiting rank may not have woken up yet.
  const auto& completed = own.sending ? channel.completedReceives : channel.completedSends;
  if (completed.load(std::memory_order_acquire) > own.message) {
    return {};
  }
  return blockers;
}

bool search(const Segment& segment, std::vector<Wait>& path, std::vector<uint64_t>& visited) {
  for (const Wait& next : blockersOf(segment, path.back())) {
    if (next.rank == path.front().rank && next.stream == path.front().stream) {
      return true;
    }
    // Stamps of different ranks may be equal; a rank's records differ in their streams' messages.
    const uint64_t key = next.stamp * 4096 + next.rank;
    if (std::find(visited.begin(), visited.end(), key) != visited.end()) {
      continue;
    }
    visited.push_back(key);
    path.push_back(next);
    if (search(segment, path, visited)) {
      return true;
    }
    path.pop_back();
  }
  return false;
}

std::string describeWait(const Wait& wait) {
  const BlockedMessage& message = wait.message;
  return "rank " + std::to_string(wait.rank) + (message.sending ? " sends " : " receives ") +
      std::to_string(message.count) + " x " + dataTypeName(message.dataType) +
      (message.sending ? " to rank " : " from rank ") + std::to_string(message.peer) +
      " (message #" + std::to_string(message.message) + ")";
}

}  // namespace

BlockedTask::BlockedTask(Communicator& communicator, uint64_t stream)
    : communicator_(communicator), stream_(stream) {}

BlockedTask::~BlockedTask() { withdraw(); }

void BlockedTask::withdraw() {
  for (WaitRecord* record : records_) {
    const uint64_t stamp = record->stamp.load(std::memory_order_relaxed);
    record->stamp.store(stamp + (4 - kValid), std::memory_order_release);
  }
  records_.clear();
  published_.clear();
  suspected_.clear();
}

void BlockedTask::publish(const std::vector<BlockedMessage>& messages) {
  if (std::equal(
          messages.begin(), messages.end(), published_.begin(), published_.end(),
          [](const auto& a, const auto& b) { return a == b; })) {
    return;  // the same records go on, with the same stamps
  }
  withdraw();
  for (WaitRecord& record : communicator_.area().waits) {
    if (records_.size() == messages.size()) {
      break;
    }
    uint64_t stamp = record.stamp.load(std::memory_order_relaxed);
    if (stamp % 4 != kFree ||
        !record.stamp.compare_exchange_strong(stamp, stamp + kWriting, std::memory_order_acq_rel)) {
      continue;
    }
    const BlockedMessage& message = messages[records_.size()];
    record.stream = stream_;
    record.message = message.message;
    record.count = message.count;
    record.peer = message.peer;
    record.sending = message.sending ? 1 : 0;
    record.dataType = message.dataType;
    record.stamp.store(stamp + kValid, std::memory_order_release);
    records_.push_back(&record);
  }
  if (records_.size() < messages.size()) {
    withdraw();
    return;
  }
  published_ = messages;
}

std::string BlockedTask::findCycle() {
  const Segment& segment = communicator_.segment();
  for (const WaitRecord* record : records_) {
    const std::optional<Wait> start = readRecord(communicator_.rank(), *record);
    std::vector<Wait> path;
    std::vector<uint64_t> visited;
    if (!start) {
      continue;
    }
    path.push_back(*start);
    if (!search(segment, path, visited)) {
      continue;
    }
    std::vector<uint64_t> stamps;
    for (const Wait& wait : path) {
      stamps.push_back(wait.stamp);
    }
    if (stamps != suspected_) {
      suspected_ = stamps;
      return "";
    }
    std::string text = "deadlock in communicator '" + communicator_.name() + "': ";
    for (const Wait& wait : path) {
      text += describeWait(wait) + ", whose counterpart is queued behind: ";
    }
    return text + "the first. Put sends and receives that depend on each other into one group "
                  "(batch_isend_irecv; HcclBatchSendRecv, HcclGroupStart/End), or let one side "
                  "receive first";
  }
  suspected_.clear();
  return "";
}

void announceMessage(
    Communicator& communicator, bool sending, uint32_t peer, uint64_t message, uint64_t stream) {
  const Segment& segment = communicator.segment();
  Channel& channel = sending ? segment.channel(communicator.rank(), peer)
                             : segment.channel(peer, communicator.rank());
  uint64_t* streams = sending ? channel.sendStreams : channel.receiveStreams;
  streams[message % kPostedRing] = stream;
  (sending ? channel.postedSends : channel.postedReceives)
      .store(message + 1, std::memory_order_release);
}

void announceCompletion(
    Communicator& communicator, bool sending, uint32_t peer, uint64_t message) {
  const Segment& segment = communicator.segment();
  Channel& channel = sending ? segment.channel(communicator.rank(), peer)
                             : segment.channel(peer, communicator.rank());
  (sending ? channel.completedSends : channel.completedReceives)
      .store(message + 1, std::memory_order_release);
}

}  // namespace npu_emulator::hccl
