#include "emulator/PointToPoint.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>

#include "emulator/Deadlock.h"
#include "emulator/Error.h"
#include "emulator/Reduce.h"
#include "emulator/Stream.h"

namespace npu_emulator::hccl {

namespace {

constexpr uint64_t kCopyBlock = 256 * 1024;  // between two looks at the failure word
// A task with several communicators sleeps on one of them and looks after the others this often.
constexpr auto kGlance = std::chrono::milliseconds(1);

// A message under way.
struct Transit {
  Message message;
  uint64_t number = 0;
  uint64_t published = 0;  // bytes announced (sender) or received (receiver)
  size_t extent = 0;       // of the buffer, next to announce
  uint32_t inFlight = 0;   // parts announced and not yet taken
  bool started = false;
  bool done = false;  // also read by threads that describe() the task, through isDone()

  bool isDone() const {
    return std::atomic_ref(const_cast<bool&>(done)).load(std::memory_order_acquire);
  }
  bool small() const { return message.buffer.bytes <= kSlotBytes; }
};

std::string describeTransit(const Transit& transit) {
  const Message& message = transit.message;
  return std::string(message.sending ? "HcclSend" : "HcclRecv") + "(count=" +
      std::to_string(message.count) + ", " + dataTypeName(message.dataType) +
      (message.sending ? ", to rank " : ", from rank ") + std::to_string(message.peer) +
      ", message #" + std::to_string(transit.number) + ") of communicator '" +
      message.communicator->name() + "' on rank " + std::to_string(message.communicator->rank());
}

class Exchange;

// One communicator's share of an exchange, for waiting.
class Share final : public Condition {
 public:
  Share(Exchange& exchange, Communicator& communicator, uint64_t stream)
      : exchange_(exchange), communicator_(communicator), blocked_(communicator, stream) {}
  bool ready() override;
  std::string describe() override;
  std::optional<uint32_t> lostRank() override;
  void tick() override;
  void moved() { blocked_.withdraw(); }

 private:
  Exchange& exchange_;
  Communicator& communicator_;
  BlockedTask blocked_;
};

class Exchange {
 public:
  Exchange(std::vector<Transit> transits, uint64_t stream)
      : transits_(std::move(transits)), stream_(stream) {}

  void run() {
    std::map<Communicator*, std::unique_ptr<Share>> shares;
    for (const Transit& transit : transits_) {
      Communicator* communicator = transit.message.communicator.get();
      auto& share = shares[communicator];
      if (!share) {
        share = std::make_unique<Share>(*this, *communicator, stream_);
      }
    }
    try {
      for (;;) {
        while (advanceAll()) {
        }
        const auto unfinished = std::find_if(
            transits_.begin(), transits_.end(), [](const Transit& t) { return !t.isDone(); });
        if (unfinished == transits_.end()) {
          return;
        }
        Communicator& communicator = *unfinished->message.communicator;
        if (shares.size() == 1) {
          Share& share = *shares.at(&communicator);
          communicator.wait(communicator.area().bell, share);
          share.moved();
          continue;
        }
        glance(communicator, *shares.at(&communicator));
        for (const auto& [other, share] : shares) {
          share->moved();
          other->throwIfFailed();
        }
      }
    } catch (...) {
      // What is left of the group can no longer match its peers.
      const Failure failure = currentFailure("HcclGroupEnd");
      for (const auto& [communicator, share] : shares) {
        communicator->fail(failure.code, failure.text);
      }
      for (const auto& [communicator, share] : shares) {
        communicator->quiesce();
      }
      throw failure;
    }
  }

  // True if anything moved.
  bool advanceAll() {
    bool moved = false;
    for (Transit& transit : transits_) {
      if (!transit.isDone() && isItsTurn(transit)) {
        moved = (transit.message.sending ? advanceSend(transit) : advanceReceive(transit)) || moved;
      }
    }
    return moved;
  }

  const std::vector<Transit>& transits() const { return transits_; }

  static bool isItsTurn(const Transit& transit) {
    return line(transit).completed.load(std::memory_order_acquire) == transit.number;
  }

 private:
  static Communicator::Line& line(const Transit& transit) {
    Communicator& communicator = *transit.message.communicator;
    return transit.message.sending ? communicator.sendLine(transit.message.peer)
                                   : communicator.receiveLine(transit.message.peer);
  }

  // Sleeps a moment on the bell of one communicator; its failures and departures are noticed.
  void glance(Communicator& communicator, Share& share) {
    class Moment final : public Condition {
     public:
      explicit Moment(Share& share) : share_(share) {}
      // Up to two looks go to yielding, one to the sleep.
      bool ready() override { return share_.ready() || asked_++ > 3; }
      std::string describe() override { return share_.describe(); }
      std::optional<uint32_t> lostRank() override { return share_.lostRank(); }

     private:
      Share& share_;
      int asked_ = 0;
    } moment(share);
    communicator.wait(communicator.area().bell, moment, kGlance);
  }

  static void complete(Transit& transit) {
    Communicator& communicator = *transit.message.communicator;
    announceCompletion(
        communicator, transit.message.sending, transit.message.peer, transit.number);
    std::atomic_ref(transit.done).store(true, std::memory_order_release);
    line(transit).completed.store(transit.number + 1, std::memory_order_release);
    communicator.area().bell.ring();  // another task of this rank may be next
  }

  static bool advanceSend(Transit& transit) {
    const Message& message = transit.message;
    Communicator& communicator = *message.communicator;
    const Segment& segment = communicator.segment();
    Channel& channel = segment.channel(communicator.rank(), message.peer);
    Communicator::Line& own = line(transit);
    bool moved = false;

    // Parts end in their order, so the oldest one in flight is the one to look at.
    while (transit.inFlight > 0) {
      Part& oldest = channel.parts[(own.parts - transit.inFlight) % kSlots];
      if (oldest.state.load(std::memory_order_acquire) != Part::Taken) {
        break;
      }
      oldest.state.store(Part::Free, std::memory_order_release);
      --transit.inFlight;
      moved = true;
    }
    while (!transit.started || transit.published < message.buffer.bytes) {
      const uint64_t slot = own.parts % kSlots;
      Part& part = channel.parts[slot];
      if (part.state.load(std::memory_order_acquire) != Part::Free) {
        break;
      }
      part.dataType = message.dataType;
      part.count = message.count;
      part.message = transit.number;
      part.offset = transit.published;
      part.inlined = transit.small() ? 1 : 0;
      if (transit.small()) {
        part.bytes = message.buffer.bytes;
        if (part.bytes != 0) {
          std::memcpy(channel.data[slot], message.buffer.data, part.bytes);
        }
      } else {
        const Extent& extent = message.buffer.extents[transit.extent++];
        part.bytes = extent.bytes;
        part.memory = extent.offset;
        ++transit.inFlight;
      }
      transit.published += part.bytes;
      transit.started = true;
      ++own.parts;
      part.state.store(Part::Full, std::memory_order_release);
      segment.rank(message.peer).bell.ring();
      moved = true;
    }
    if (transit.started && transit.published == message.buffer.bytes && transit.inFlight == 0) {
      complete(transit);
    }
    return moved;
  }

  static bool advanceReceive(Transit& transit) {
    const Message& message = transit.message;
    Communicator& communicator = *message.communicator;
    const Segment& segment = communicator.segment();
    Channel& channel = segment.channel(message.peer, communicator.rank());
    Communicator::Line& own = line(transit);
    const uint64_t slot = own.parts % kSlots;
    Part& part = channel.parts[slot];
    if (part.state.load(std::memory_order_acquire) != Part::Full) {
      return false;
    }
    if (part.count != message.count || part.dataType != message.dataType) {
      communicator.fail(
          HCCL_E_PARA,
          "mismatch in communicator '" + communicator.name() + "' at message #" +
              std::to_string(transit.number) + " from rank " + std::to_string(message.peer) +
              " to rank " + std::to_string(communicator.rank()) + ": rank " +
              std::to_string(message.peer) + " sends " + std::to_string(part.count) + " x " +
              dataTypeName(part.dataType) + ", rank " + std::to_string(communicator.rank()) +
              " receives " + std::to_string(message.count) + " x " +
              dataTypeName(message.dataType) + "; both must give the same count and data type");
      communicator.throwIfFailed();
    }
    if (part.bytes != 0) {
      const Communicator::Touch touch(communicator);
      if (!touch) {
        communicator.throwIfFailed();
      }
      const std::byte* source = part.inlined != 0
          ? channel.data[slot]
          : communicator.member(message.peer).memory->data() + part.memory;
      std::byte* target = message.buffer.data + part.offset;
      for (uint64_t done = 0; done < part.bytes; done += kCopyBlock) {
        if (communicator.failed()) {
          communicator.throwIfFailed();
        }
        // A rank may send to itself, between buffers that overlap.
        std::memmove(target + done, source + done, std::min(kCopyBlock, part.bytes - done));
      }
    }
    transit.started = true;
    transit.published += part.bytes;
    ++own.parts;
    part.state.store(part.inlined != 0 ? Part::Free : Part::Taken, std::memory_order_release);
    segment.rank(message.peer).bell.ring();
    if (transit.published == message.buffer.bytes) {
      complete(transit);
    }
    return true;
  }

  std::vector<Transit> transits_;
  const uint64_t stream_;
};

bool Share::ready() { return exchange_.advanceAll(); }

std::string Share::describe() {
  // Called by other threads too: looks only at what does not change while the task sleeps.
  std::string text;
  int more = 0;
  for (const Transit& transit : exchange_.transits()) {
    if (transit.isDone() || transit.message.communicator.get() != &communicator_) {
      continue;
    }
    if (!text.empty()) {
      ++more;
      continue;
    }
    text = describeTransit(transit) + " waits for " +
        (Exchange::isItsTurn(transit)
             ? "rank " + std::to_string(transit.message.peer) + " to " +
                 (transit.message.sending ? "receive" : "send")
             : std::string("earlier messages to the same rank"));
  }
  return more == 0 ? text : text + " (and " + std::to_string(more) + " more of its group)";
}

std::optional<uint32_t> Share::lostRank() {
  for (const Transit& transit : exchange_.transits()) {
    if (!transit.isDone() && transit.message.communicator.get() == &communicator_ &&
        communicator_.segment().rank(transit.message.peer).departure.load(
            std::memory_order_acquire) != Departure::Present) {
      return transit.message.peer;
    }
  }
  return std::nullopt;
}

void Share::tick() {
  std::vector<BlockedMessage> messages;
  for (const Transit& transit : exchange_.transits()) {
    if (!transit.isDone() && transit.message.communicator.get() == &communicator_) {
      const Message& message = transit.message;
      messages.push_back(BlockedMessage{
          message.sending, message.peer, transit.number, message.count, message.dataType});
    }
  }
  blocked_.publish(messages);
  const std::string cycle = blocked_.findCycle();
  if (!cycle.empty()) {
    communicator_.fail(HCCL_E_TIMEOUT, cycle);
  }
}

}  // namespace

void enqueueMessages(const char* function, std::vector<Message> messages, aclrtStream stream) {
  const auto target = findStream(stream);
  if (!target) {
    throw Failure(
        HCCL_E_PARA, std::string(function) + ": no such stream: " + takeRecentMessage());
  }
  const auto streamNumber = static_cast<uint64_t>(target->id());
  // In one order for all threads, so that two of them cannot lock each other out.
  std::map<Communicator*, std::shared_ptr<OutstandingTask>> tasks;
  for (const Message& message : messages) {
    message.communicator->throwIfFailed();
    auto& task = tasks[message.communicator.get()];
    if (!task) {
      task = std::make_shared<OutstandingTask>(message.communicator, function);
    }
  }
  std::vector<std::unique_lock<std::mutex>> locks;
  for (const auto& [communicator, task] : tasks) {
    locks.emplace_back(communicator->postMutex());
  }
  auto transits = std::make_shared<std::vector<Transit>>();
  std::map<Communicator::Line*, uint64_t> posted;
  for (Message& message : messages) {
    Communicator& communicator = *message.communicator;
    Communicator::Line& line = message.sending ? communicator.sendLine(message.peer)
                                               : communicator.receiveLine(message.peer);
    Transit transit;
    transit.number = line.posted + posted[&line]++;
    transit.message = std::move(message);
    transits->push_back(std::move(transit));
  }
  // Kept apart: once queued, the task may take the messages at any moment.
  struct Number {
    Communicator* communicator;
    bool sending;
    uint32_t peer;
    uint64_t number;
  };
  std::vector<Number> numbers;
  for (const Transit& transit : *transits) {
    const Message& message = transit.message;
    numbers.push_back(
        {message.communicator.get(), message.sending, message.peer, transit.number});
  }
  for (const auto& [communicator, task] : tasks) {
    task->arm();
  }
  const aclError code =
      enqueue(stream, function, [tasks, transits, streamNumber]() -> aclError {
        const auto body = [&] { Exchange(std::move(*transits), streamNumber).run(); };
        // One body for all communicators of the task.
        const aclError result = tasks.begin()->second->run(body);
        for (const auto& [communicator, task] : tasks) {
          task->withdraw();
        }
        return result;
      });
  if (code != ACL_SUCCESS) {
    for (const auto& [communicator, task] : tasks) {
      task->withdraw();
    }
    throw Failure(
        HCCL_E_RUNTIME, std::string(function) + " could not be queued: " + takeRecentMessage());
  }
  for (const auto& [line, count] : posted) {
    line->posted += count;
  }
  for (const Number& n : numbers) {
    announceMessage(*n.communicator, n.sending, n.peer, n.number, streamNumber);
  }
}

}  // namespace npu_emulator::hccl
