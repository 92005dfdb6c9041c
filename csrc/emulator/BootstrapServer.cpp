#include "emulator/BootstrapServer.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <system_error>

namespace npu_emulator::hccl {

namespace {

// How long ranks that come after a failure are still told the reason.
constexpr auto kLinger = std::chrono::seconds(30);

struct Guest {
  Descriptor socket;
  int process = 0;
  bool greeted = false;
  uint32_t rank = 0;
  int device = 0;
  Descriptor memory;
  Descriptor handle;  // pidfd
};

class Server {
 public:
  Server(Descriptor listener, const RootInfo& root, uint32_t ranks, Deadline deadline)
      : listener_(std::move(listener)), root_(root), ranks_(ranks), deadline_(deadline) {}

  void serve() noexcept {
    try {
      gather();
      introduce();
      awaitReady();
      tell(Kind::Go);
    } catch (...) {
      refuse(currentFailure("joining a communicator"));
    }
  }

 private:
  // Until all ranks have said hello.
  void gather() {
    while (byRank_.size() < ranks_) {
      std::vector<pollfd> items{{listener_.get(), POLLIN, 0}};
      for (const auto& guest : guests_) {
        items.push_back({guest->socket.get(), POLLIN, 0});
      }
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(
          deadline_ - std::chrono::steady_clock::now());
      if (left.count() <= 0) {
        throw Failure(HCCL_E_TIMEOUT, missingText());
      }
      if (::poll(items.data(), items.size(), static_cast<int>(left.count())) < 0) {
        if (errno == EINTR) {
          continue;
        }
        throw std::system_error(errno, std::generic_category(), "poll");
      }
      // Before accepting, so that the indices still fit.
      for (size_t i = 1; i < items.size(); ++i) {
        if (items[i].revents != 0) {
          hear(*guests_[i - 1]);
        }
      }
      std::erase_if(guests_, [](const auto& guest) { return !guest->socket; });
      if (items[0].revents != 0) {
        accept();
      }
    }
  }

  void accept() {
    for (;;) {
      Descriptor socket(
          ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket) {
        return;
      }
      const int process = peerProcess(socket.get());
      if (process < 0) {
        continue;  // another user's: closed without a word
      }
      auto guest = std::make_unique<Guest>();
      guest->socket = std::move(socket);
      guest->process = process;
      guests_.push_back(std::move(guest));
    }
  }

  void hear(Guest& guest) {
    Note note;
    std::vector<Descriptor> descriptors;
    switch (receiveNote(guest.socket.get(), &note, &descriptors, Deadline{})) {
      case Received::Nothing:
        return;
      case Received::Closed:
        if (guest.greeted) {
          throw Failure(
              HCCL_E_REMOTE,
              "rank " + std::to_string(guest.rank) + " (process " + std::to_string(guest.process) +
                  ") ended or gave up while the communicator was being created");
        }
        guest.socket = Descriptor();
        return;
      case Received::Note:
        break;
    }
    if (note.kind != Kind::Hello || std::memcmp(note.nonce, root_.nonce, sizeof(note.nonce)) != 0) {
      guest.socket = Descriptor();  // does not hold our root info
      return;
    }
    guest.rank = note.rank;
    guest.device = note.device;
    guest.greeted = true;
    const std::string who = "rank " + std::to_string(guest.rank) + " (process " +
        std::to_string(guest.process) + ")";
    if (note.version != kSegmentMagic) {
      throw Failure(HCCL_E_PARA, who + " uses another version of the emulator");
    }
    if (note.ranks != ranks_) {
      throw Failure(
          HCCL_E_PARA,
          who + " joins a communicator of " + std::to_string(note.ranks) +
              " ranks, the process that made the root info one of " + std::to_string(ranks_) +
              " ranks; nRanks must be the same everywhere");
    }
    if (descriptors.size() != 1) {
      throw Failure(HCCL_E_INTERNAL, who + " did not hand over its device memory");
    }
    guest.memory = std::move(descriptors[0]);
    if (!byRank_.emplace(guest.rank, &guest).second) {
      throw Failure(
          HCCL_E_PARA,
          "two processes joined as rank " + std::to_string(guest.rank) + ": " +
              std::to_string(byRank_[guest.rank]->process) + " and " +
              std::to_string(guest.process) + "; each rank joins once");
    }
    for (const auto& [rank, other] : byRank_) {
      if (other != &guest && other->device == guest.device) {
        throw Failure(
            HCCL_E_PARA,
            "ranks " + std::to_string(std::min(rank, guest.rank)) + " and " +
                std::to_string(std::max(rank, guest.rank)) + " both use device " +
                std::to_string(guest.device) +
                "; each rank of a communicator needs its own (torch.npu.set_device(local_rank), "
                "or npurun)");
      }
    }
    guest.handle = Descriptor(
        static_cast<int>(::syscall(SYS_pidfd_open, guest.process, 0)));
    if (!guest.handle) {
      throw Failure(
          HCCL_E_REMOTE, who + " cannot be watched: pidfd_open: " + std::strerror(errno));
    }
  }

  std::string missingText() const {
    std::string missing;
    for (uint32_t r = 0; r < ranks_; ++r) {
      if (!byRank_.contains(r)) {
        missing += (missing.empty() ? "" : ", ") + std::to_string(r);
      }
    }
    return "not all of the " + std::to_string(ranks_) + " ranks joined within " +
        std::to_string(connectTimeout().count()) + " s (HCCL_CONNECT_TIMEOUT): rank " + missing +
        " never came";
  }

  // Hands everybody's memory to everybody. One rank after the other, waiting for each, so that few
  // descriptors are in flight: the kernel limits those of a user.
  void introduce() {
    const Descriptor segment = createSegment("npu-hccl", Segment::bytes(ranks_));
    {
      const Mapping mapping(segment.get(), sizeof(SegmentHeader));
      auto& header = *reinterpret_cast<SegmentHeader*>(mapping.data());
      header.magic = kSegmentMagic;
      header.ranks = ranks_;
    }
    for (const auto& [rank, guest] : byRank_) {
      Note welcome{};
      welcome.kind = Kind::Welcome;
      welcome.ranks = ranks_;
      sendNote(guest->socket.get(), welcome, {segment.get()}, deadline_);
      for (uint32_t first = 0; first < ranks_; first += kMembersPerMessage) {
        Note members{};
        members.kind = Kind::Members;
        std::vector<int> descriptors;
        for (uint32_t r = first; r < std::min<uint32_t>(ranks_, first + kMembersPerMessage); ++r) {
          const Guest& other = *byRank_.at(r);
          members.members[members.memberCount++] = {r, other.device, other.process};
          descriptors.push_back(other.memory.get());
          descriptors.push_back(other.handle.get());
        }
        sendNote(guest->socket.get(), members, descriptors, deadline_);
        expect(*guest, Kind::Members);
      }
    }
  }

  void awaitReady() {
    for (const auto& [rank, guest] : byRank_) {
      expect(*guest, Kind::Ready);
    }
  }

  void expect(Guest& guest, Kind kind) {
    Note note;
    std::vector<Descriptor> descriptors;
    const Received received = receiveNote(guest.socket.get(), &note, &descriptors, deadline_);
    const std::string who = "rank " + std::to_string(guest.rank) + " (process " +
        std::to_string(guest.process) + ")";
    if (received == Received::Closed) {
      throw Failure(HCCL_E_REMOTE, who + " ended while the communicator was being created");
    }
    if (received == Received::Nothing) {
      throw Failure(HCCL_E_TIMEOUT, who + " did not finish creating the communicator in time");
    }
    if (note.kind == Kind::Refused) {
      throw Failure(
          static_cast<HcclResult>(note.code), who + " could not join: " + std::string(note.text));
    }
    if (note.kind != kind) {
      throw Failure(HCCL_E_INTERNAL, who + " answered out of turn");
    }
  }

  void tell(Kind kind) {
    Note note{};
    note.kind = kind;
    for (const auto& [rank, guest] : byRank_) {
      sendNote(guest->socket.get(), note, {}, deadline_);
    }
  }

  // Tells everybody why, also who comes a little later: ranks seldom arrive at the same time.
  void refuse(const Failure& failure) noexcept {
    try {
      Note note{};
      note.kind = Kind::Refused;
      note.code = failure.code;
      std::strncpy(note.text, failure.text.c_str(), sizeof(note.text) - 1);
      const Deadline end = std::chrono::steady_clock::now() + kLinger;
      size_t told = 0;
      for (;;) {
        accept();
        for (; told < guests_.size(); ++told) {
          refuse(*guests_[told], note);
        }
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(
            end - std::chrono::steady_clock::now());
        pollfd item{listener_.get(), POLLIN, 0};
        if (told >= ranks_ || left.count() <= 0 ||
            (::poll(&item, 1, static_cast<int>(left.count())) < 0 && errno != EINTR)) {
          return;
        }
      }
    } catch (...) {
      std::fprintf(stderr, "torch_npu emulator: %s\n", currentFailure("refusing ranks").what());
    }
  }

  static void refuse(const Guest& guest, const Note& note) {
    if (!guest.socket) {
      return;
    }
    try {
      sendNote(
          guest.socket.get(), note, {}, std::chrono::steady_clock::now() + std::chrono::seconds(1));
    } catch (const std::system_error& error) {
      if (error.code().value() != EPIPE && error.code().value() != ECONNRESET) {
        throw;  // those two: it ended before
      }
    }
  }

  Descriptor listener_;
  const RootInfo root_;
  const uint32_t ranks_;
  const Deadline deadline_;
  std::vector<std::unique_ptr<Guest>> guests_;
  std::map<uint32_t, Guest*> byRank_;
};

}  // namespace

void serveBootstrap(
    Descriptor listener, const RootInfo& root, uint32_t ranks, Deadline deadline) noexcept {
  Server(std::move(listener), root, ranks, deadline).serve();
}

}  // namespace npu_emulator::hccl
