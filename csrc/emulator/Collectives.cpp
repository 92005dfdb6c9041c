#include "emulator/Collectives.h"

#include <algorithm>
#include <cstring>

#include "emulator/CollectivePlan.h"
#include "emulator/Error.h"
#include "emulator/Reduce.h"
#include "emulator/Stream.h"

namespace npu_emulator::hccl {

namespace {

// Below this much traffic the last rank to arrive works alone: waking helpers would take longer.
constexpr uint64_t kAloneBytes = 512 * 1024;
constexpr uint64_t kLeastChunk = 16 * 1024;
constexpr uint64_t kMostChunk = 256 * 1024;
constexpr uint64_t kCopyBlock = 32 * 1024;  // stays in the cache while it goes to several outputs

// One rank's buffer in this process.
class View {
 public:
  View(std::byte* base, const BufferRecord& record, const Extent* table)
      : base_(base), record_(record), table_(table) {}
  // This rank's own buffer is contiguous where it is.
  View(std::byte* data, uint64_t bytes) : base_(data), record_{bytes, {0, bytes}, 1} {}

  // The bytes at `offset`; shortens `run` to what is contiguous there.
  std::byte* at(uint64_t offset, uint64_t& run) const {
    uint64_t within = offset;
    const Extent* extent = &record_.first;
    for (uint32_t i = 1; within >= extent->bytes && i < record_.extents; ++i) {
      within -= extent->bytes;
      extent = &table_[i];
    }
    run = std::min(run, extent->bytes - within);
    return base_ + extent->offset + within;
  }

 private:
  std::byte* base_;
  BufferRecord record_;
  const Extent* table_ = nullptr;
};

class Collective final : public Condition {
 public:
  Collective(Communicator& communicator, const CollectiveCall& call, uint64_t sequence)
      : communicator_(communicator),
        segment_(communicator.segment()),
        header_(communicator.header()),
        call_(call),
        sequence_(sequence) {}

  void run() {
    awaitTurn();
    communicator_.throwIfFailed();
    post();
    const uint64_t arrivals = header_.arrivals.fetch_add(1, std::memory_order_acq_rel) + 1;
    if (arrivals == (sequence_ + 1) * communicator_.ranks()) {
      lead();
    }
    while (!done()) {
      communicator_.wait(header_.engine, *this);
      if (!done()) {
        help();
      }
    }
    communicator_.collectivesCompleted.store(sequence_ + 1, std::memory_order_release);
    communicator_.area().bell.ring();
  }

  bool ready() override { return done() || workIsOpen(); }

  std::string describe() override {
    std::string missing;
    for (uint32_t r = 0; r < communicator_.ranks(); ++r) {
      if (segment_.rank(r).arrived.load(std::memory_order_acquire) <= sequence_) {
        missing += (missing.empty() ? "" : ", ") + std::to_string(r);
      }
    }
    return describePosting(communicator_.area().posting) + ", collective #" +
        std::to_string(sequence_) + " of communicator '" + communicator_.name() + "', on rank " +
        std::to_string(communicator_.rank()) +
        (missing.empty() ? " is being worked on" : " waits for rank " + missing + " to call it");
  }

  std::optional<uint32_t> lostRank() override {
    for (uint32_t r = 0; r < communicator_.ranks(); ++r) {
      const RankArea& area = segment_.rank(r);
      if (area.departure.load(std::memory_order_acquire) != Departure::Present &&
          area.arrived.load(std::memory_order_acquire) <= sequence_) {
        return r;
      }
    }
    return std::nullopt;
  }

 private:
  bool done() const { return header_.done.load(std::memory_order_acquire) > sequence_; }
  bool workIsOpen() const {
    return header_.shared.load(std::memory_order_acquire) > sequence_ &&
        header_.nextChunk.load(std::memory_order_relaxed) < header_.chunks;
  }

  // Collectives of one communicator run in the order of the calls, whatever streams they are on.
  void awaitTurn() {
    class Turn final : public Condition {
     public:
      Turn(const Collective& collective) : collective_(collective) {}
      bool ready() override {
        return collective_.communicator_.collectivesCompleted.load(std::memory_order_acquire) ==
            collective_.sequence_;
      }
      std::string describe() override {
        return std::string(collective_.call_.function) + ", collective #" +
            std::to_string(collective_.sequence_) + " of communicator '" +
            collective_.communicator_.name() + "', on rank " +
            std::to_string(collective_.communicator_.rank()) +
            " waits for earlier collectives of this rank on another stream";
      }
      std::optional<uint32_t> lostRank() override { return std::nullopt; }

     private:
      const Collective& collective_;
    } turn(*this);
    if (!turn.ready()) {
      communicator_.wait(communicator_.area().bell, turn);
    }
  }

  void post() {
    const uint32_t self = communicator_.rank();
    RankArea& area = communicator_.area();
    Posting& posting = area.posting;
    posting.sequence = sequence_;
    posting.operation = call_.operation;
    posting.dataType = call_.dataType;
    posting.receiveType = call_.receiveType;
    posting.reduceOp = call_.reduceOp;
    posting.root = call_.root;
    posting.count = call_.count;
    posting.input = record(call_.input, segment_.extents(self, false));
    posting.output = record(call_.output, segment_.extents(self, true));
    for (uint32_t kind = 0; kind < kVectors; ++kind) {
      std::copy(
          call_.vectors[kind].begin(), call_.vectors[kind].end(),
          segment_.vector(self, static_cast<VectorKind>(kind)));
    }
    std::copy(call_.matrix.begin(), call_.matrix.end(), segment_.matrix(self));
    area.arrived.store(sequence_ + 1, std::memory_order_release);
  }

  static BufferRecord record(const Buffer& buffer, Extent* table) {
    if (buffer.extents.empty()) {
      return {};
    }
    if (buffer.extents.size() > 1) {
      std::copy(buffer.extents.begin(), buffer.extents.end(), table);
    }
    return {buffer.bytes, buffer.extents[0], static_cast<uint32_t>(buffer.extents.size())};
  }

  // All ranks are here: check, then work.
  void lead() {
    const std::string mismatch =
        findMismatch(segment_, communicator_.ranks(), communicator_.name());
    if (!mismatch.empty()) {
      communicator_.fail(HCCL_E_PARA, mismatch);
      communicator_.throwIfFailed();
    }
    const Plan plan(segment_, communicator_.ranks());
    const int cores = availableCores();
    if (plan.traffic() <= kAloneBytes || cores == 1 || communicator_.ranks() == 1) {
      const Communicator::Touch touch(communicator_);
      if (!touch) {
        return;
      }
      for (const Transfer& transfer : plan.transfers()) {
        for (uint64_t at = 0; at < transfer.bytes; at += kMostChunk) {
          if (communicator_.failed()) {
            return;
          }
          execute({&transfer, at, std::min(at + kMostChunk, transfer.bytes)});
        }
      }
      finish();
      return;
    }
    const uint64_t chunk =
        std::clamp(plan.largest() / 4, kLeastChunk, kMostChunk) / kReduceBlock * kReduceBlock;
    header_.chunkBytes = chunk;
    header_.chunks = plan.chunks(chunk);
    header_.nextChunk.store(0, std::memory_order_relaxed);
    header_.finishedChunks.store(0, std::memory_order_relaxed);
    header_.shared.store(sequence_ + 1, std::memory_order_release);
    header_.engine.ring(cores - 1);
    workOn(plan);
  }

  void help() {
    if (workIsOpen()) {
      workOn(Plan(segment_, communicator_.ranks()));
    }
  }

  void workOn(const Plan& plan) {
    const Communicator::Touch touch(communicator_);
    while (touch && !communicator_.failed()) {
      const uint64_t number = header_.nextChunk.fetch_add(1, std::memory_order_relaxed);
      if (number >= header_.chunks) {
        return;
      }
      execute(plan.chunk(number, header_.chunkBytes));
      if (header_.finishedChunks.fetch_add(1, std::memory_order_acq_rel) + 1 == header_.chunks) {
        finish();
      }
    }
  }

  void finish() {
    header_.done.store(sequence_ + 1, std::memory_order_release);
    if (communicator_.ranks() > 1) {
      header_.engine.ring();
    }
  }

  View view(uint32_t rank, bool output) const {
    if (rank == communicator_.rank()) {
      const Buffer& own = output ? call_.output : call_.input;
      return View(own.data, own.bytes);
    }
    const Posting& posting = segment_.rank(rank).posting;
    return View(
        communicator_.member(rank).memory->data(), output ? posting.output : posting.input,
        segment_.extents(rank, output));
  }

  void buildViews() {
    if (!inputs_.empty()) {
      return;
    }
    for (uint32_t r = 0; r < communicator_.ranks(); ++r) {
      inputs_.push_back(view(r, false));
      outputs_.push_back(view(r, true));
    }
  }

  uint64_t offset(
      const Transfer& transfer, uint32_t rank, uint32_t vector, uint64_t fixed) const {
    if (vector == Transfer::kFixed) {
      return fixed;
    }
    return segment_.vector(rank, static_cast<VectorKind>(vector))[transfer.index] *
        elementSize(call_.dataType);
  }

  void execute(const Plan::Chunk& chunk) {
    buildViews();
    const Transfer& transfer = *chunk.transfer;
    const uint32_t ranks = communicator_.ranks();
    const bool ofAll = transfer.source == Transfer::kAll;
    const bool reducing = ofAll && ranks > 1;
    const uint32_t firstSource = ofAll ? 0 : transfer.source;
    const uint32_t endSource = ofAll ? ranks : firstSource + 1;
    const uint32_t firstTarget = transfer.target == Transfer::kAll ? 0 : transfer.target;
    const uint32_t endTarget = transfer.target == Transfer::kAll ? ranks : firstTarget + 1;
    std::vector<const std::byte*> sources(endSource - firstSource);
    std::vector<std::byte*> targets(endTarget - firstTarget);
    alignas(64) std::byte scratch[kReduceBlock];

    for (uint64_t at = chunk.begin; at < chunk.end;) {
      // A run that is contiguous in all buffers concerned.
      uint64_t run = chunk.end - at;
      for (uint32_t r = firstSource; r < endSource; ++r) {
        sources[r - firstSource] = inputs_[r].at(
            offset(transfer, r, transfer.sourceVector, transfer.sourceOffset) + at, run);
      }
      for (uint32_t r = firstTarget; r < endTarget; ++r) {
        targets[r - firstTarget] = outputs_[r].at(
            offset(transfer, r, transfer.targetVector, transfer.targetOffset) + at, run);
      }
      const uint64_t step = reducing ? kReduceBlock : kCopyBlock;
      for (uint64_t done = 0; done < run; done += step) {
        const size_t block = std::min(step, run - done);
        const std::byte* from = sources[0];
        if (reducing) {
          reduceBlock(
              call_.dataType, call_.reduceOp, sources.data(), sources.size(), block, scratch);
          from = scratch;
        }
        for (std::byte*& target : targets) {
          if (target != from) {
            std::memcpy(target, from, block);
          }
          target += block;
        }
        for (const std::byte*& source : sources) {
          source += block;
        }
      }
      at += run;
    }
  }

  Communicator& communicator_;
  const Segment& segment_;
  SegmentHeader& header_;
  const CollectiveCall& call_;
  const uint64_t sequence_;
  std::vector<View> inputs_;
  std::vector<View> outputs_;
};

}  // namespace

void enqueueCollective(
    const std::shared_ptr<Communicator>& communicator, CollectiveCall call, aclrtStream stream) {
  communicator->throwIfFailed();
  const char* function = call.function;
  auto task = std::make_shared<OutstandingTask>(communicator, function);
  auto shared = std::make_shared<const CollectiveCall>(std::move(call));
  std::lock_guard guard(communicator->postMutex());
  const uint64_t sequence = communicator->collectivesPosted;
  task->arm();
  const aclError code = enqueue(stream, function, [task, shared, sequence]() -> aclError {
    return task->run([&] { Collective(task->communicator(), *shared, sequence).run(); });
  });
  if (code != ACL_SUCCESS) {
    task->withdraw();
    throw Failure(
        HCCL_E_RUNTIME, std::string(function) + " could not be queued: " + takeRecentMessage());
  }
  ++communicator->collectivesPosted;
}

}  // namespace npu_emulator::hccl
