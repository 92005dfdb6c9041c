#include "emulator/Bootstrap.h"

#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <system_error>
#include <thread>

#include "emulator/BootstrapServer.h"
#include "emulator/BootstrapSocket.h"
#include "emulator/Device.h"
#include "emulator/Error.h"
#include "emulator/Memory.h"
#include "emulator/PeerWatch.h"

namespace npu_emulator::hccl {

using Clock = std::chrono::steady_clock;

namespace {

constexpr uint64_t kRootMagic = 0x6e70755f726f6f74;
// The server's account of a failure reaches its guests before they give up by themselves.
constexpr auto kGrace = std::chrono::seconds(5);

std::string hexadecimal(const uint8_t* bytes, size_t count) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

std::array<uint8_t, 16> bootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(file, text);
  std::erase(text, '-');
  std::array<uint8_t, 16> id{};
  for (size_t i = 0; i < id.size() && 2 * i + 1 < text.size(); ++i) {
    std::from_chars(text.data() + 2 * i, text.data() + 2 * i + 2, id[i], 16);
  }
  return id;
}

uint64_t networkNamespace() {
  struct stat facts {};
  return ::stat("/proc/self/ns/net", &facts) == 0 ? facts.st_ino : 0;
}

// Sockets of root infos made here and not yet served, by nonce.
struct Listeners {
  std::mutex mutex;  // guards open
  std::map<std::string, Descriptor> open;
};
Listeners& listeners() {
  static Listeners& instance = *new Listeners;
  return instance;
}

Descriptor takeListener(const RootInfo& root) {
  Listeners& all = listeners();
  std::lock_guard guard(all.mutex);
  auto node = all.open.extract(hexadecimal(root.nonce, sizeof(root.nonce)));
  return node.empty() ? Descriptor() : std::move(node.mapped());
}

std::chrono::seconds secondsFrom(const char* variable, long standard, long least) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') {
    return std::chrono::seconds(standard);
  }
  long value = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end || value < least) {
    throw Failure(
        HCCL_E_PARA,
        std::string(variable) + "='" + text + "' is not a whole number of seconds of at least " +
            std::to_string(least));
  }
  return std::chrono::seconds(value);
}

// Runs with all signals blocked, which are the program's business.
template <class Body>
std::jthread startQuietly(Body body) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  std::jthread thread(std::move(body));
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

// The joining side.
class Guest {
 public:
  Guest(const RootInfo& root, const JoinRequest& request, Deadline deadline)
      : root_(root), request_(request), deadline_(deadline) {}

  std::shared_ptr<Communicator> join() {
    connect();
    hello();
    receive();
    answer(Kind::Ready);
    const Note go = next(nullptr);
    if (go.kind != Kind::Go) {
      throw Failure(HCCL_E_INTERNAL, "the root answered out of turn");
    }
    auto communicator = std::make_shared<Communicator>(std::move(membership_));
    for (uint32_t r = 0; r < request_.ranks; ++r) {
      if (r != request_.rank && communicator->member(r).process != ::getpid()) {
        watchPeer(communicator, r, std::move(handles_[r]));
      }
    }
    return communicator;
  }

 private:
  void connect() {
    try {
      socket_ = connectTo(root_.socket, deadline_);
    } catch (const std::system_error& error) {
      if (error.code().value() == ECONNREFUSED) {
        throw Failure(
            HCCL_E_TCP_CONNECT,
            "nobody serves this root info: the process that called HcclGetRootInfo ended, or its "
            "communicator was created already (a root info is good for one communicator)");
      }
      throw;
    }
    if (peerProcess(socket_.get()) < 0) {
      throw Failure(HCCL_E_NETWORK, "the root info is served by another user's process");
    }
  }

  void hello() {
    int memfd = -1;
    uint64_t bytes = 0;
    if (deviceMemoryFile(request_.device, &memfd, &bytes) != ACL_SUCCESS) {
      throw Failure(HCCL_E_RUNTIME, takeRecentMessage());
    }
    Note note{};
    note.kind = Kind::Hello;
    note.version = kSegmentMagic;
    note.rank = request_.rank;
    note.ranks = request_.ranks;
    note.device = deviceAt(request_.device)->physicalId();
    std::memcpy(note.nonce, root_.nonce, sizeof(note.nonce));
    say(note, {memfd});
  }

  // When the root closed its end, what it sent before is still to be read: next() tells.
  void say(const Note& note, const std::vector<int>& descriptors) {
    try {
      sendNote(socket_.get(), note, descriptors, deadline_);
    } catch (const std::system_error& error) {
      if (error.code().value() != EPIPE && error.code().value() != ECONNRESET) {
        throw;
      }
    }
  }

  void receive() {
    membership_.rank = request_.rank;
    membership_.ranks = request_.ranks;
    membership_.device = request_.device;
    membership_.patience = request_.patience;
    membership_.name =
        request_.name.empty() ? "hccl_" + hexadecimal(root_.nonce, 4) : request_.name;
    membership_.members.resize(request_.ranks);
    handles_.resize(request_.ranks);

    std::vector<Descriptor> descriptors;
    const Note welcome = next(&descriptors);
    try {
      if (welcome.kind != Kind::Welcome || descriptors.size() != 1) {
        throw Failure(HCCL_E_INTERNAL, "the root answered out of turn");
      }
      membership_.segment =
          std::make_unique<Mapping>(descriptors[0].get(), Segment::bytes(request_.ranks));
      for (uint32_t known = 0; known < request_.ranks;) {
        const Note note = next(&descriptors);
        if (note.kind != Kind::Members || note.memberCount == 0 ||
            descriptors.size() != 2 * note.memberCount) {
          throw Failure(HCCL_E_INTERNAL, "the root answered out of turn");
        }
        for (uint32_t i = 0; i < note.memberCount; ++i, ++known) {
          const MemberInfo& info = note.members[i];
          Member& member = membership_.members.at(info.rank);
          member.device = info.device;
          member.process = info.process;
          member.memory = mapDeviceMemory(descriptors[2 * i].get());
          handles_[info.rank] = std::move(descriptors[2 * i + 1]);
        }
        answer(Kind::Members);
      }
    } catch (...) {
      const Failure failure = currentFailure("joining a communicator");
      refuse(failure);
      throw failure;
    }
  }

  Note next(std::vector<Descriptor>* descriptors) {
    Note note;
    std::vector<Descriptor> none;
    switch (receiveNote(
        socket_.get(), &note, descriptors != nullptr ? descriptors : &none, deadline_)) {
      case Received::Closed:
        throw Failure(
            HCCL_E_REMOTE,
            "the process that made the root info ended while the communicator was being created");
      case Received::Nothing:
        throw Failure(
            HCCL_E_TIMEOUT,
            "the process that made the root info did not join its communicator within " +
                std::to_string(connectTimeout().count()) + " s (HCCL_CONNECT_TIMEOUT)");
      case Received::Note:
        break;
    }
    if (note.kind == Kind::Refused) {
      note.text[sizeof(note.text) - 1] = '\0';
      throw Failure(static_cast<HcclResult>(note.code), note.text);
    }
    return note;
  }

  void answer(Kind kind) {
    Note note{};
    note.kind = kind;
    note.rank = request_.rank;
    say(note, {});
  }

  void refuse(const Failure& failure) noexcept {
    Note note{};
    note.kind = Kind::Refused;
    note.code = failure.code;
    std::strncpy(note.text, failure.text.c_str(), sizeof(note.text) - 1);
    try {
      say(note, {});
    } catch (const std::system_error& error) {
      std::fprintf(stderr, "torch_npu emulator: %s\n", error.what());
    }
  }

  const RootInfo& root_;
  const JoinRequest& request_;
  const Deadline deadline_;
  Descriptor socket_;
  Membership membership_;
  std::vector<Descriptor> handles_;
};

// Waits until the first rank of a split published where to meet.
class AwaitInvitation final : public Condition {
 public:
  AwaitInvitation(Communicator& parent, uint32_t host, uint64_t key, Deadline deadline)
      : parent_(parent), host_(host), key_(key), deadline_(deadline) {}

  bool ready() override {
    for (Invitation& invitation : parent_.segment().rank(host_).invitations) {
      if (invitation.state.load(std::memory_order_acquire) == 2 && invitation.key == key_) {
        found_ = &invitation;
        return true;
      }
    }
    if (Clock::now() >= deadline_) {
      throw Failure(HCCL_E_TIMEOUT, describe() + " (HCCL_CONNECT_TIMEOUT)");
    }
    return false;
  }
  std::string describe() override {
    return "HcclCreateSubCommConfig on rank " + std::to_string(parent_.rank()) + " of '" +
        parent_.name() + "' waits for rank " + std::to_string(host_) + " to call it too";
  }
  std::optional<uint32_t> lostRank() override {
    const Departure departure =
        parent_.segment().rank(host_).departure.load(std::memory_order_acquire);
    return departure == Departure::Present ? std::nullopt : std::optional(host_);
  }
  const Invitation& found() const { return *found_; }

 private:
  Communicator& parent_;
  const uint32_t host_;
  const uint64_t key_;
  const Deadline deadline_;
  const Invitation* found_ = nullptr;
};

uint64_t mix(uint64_t hash, uint64_t value) {  // FNV-1a over 8 bytes
  for (int i = 0; i < 8; ++i) {
    hash = (hash ^ (value >> (8 * i) & 0xff)) * 0x100000001b3;
  }
  return hash;
}

RootInfo describeRoot(const uint8_t* nonce, const std::string& socket) {
  RootInfo root{};
  root.magic = kRootMagic;
  std::memcpy(root.nonce, nonce, sizeof(root.nonce));
  const auto id = bootId();
  std::copy(id.begin(), id.end(), root.host);
  root.network = networkNamespace();
  std::strncpy(root.socket, socket.c_str(), sizeof(root.socket) - 1);
  return root;
}

}  // namespace

std::chrono::seconds connectTimeout() { return secondsFrom("HCCL_CONNECT_TIMEOUT", 120, 1); }
std::chrono::seconds executionTimeout() { return secondsFrom("HCCL_EXEC_TIMEOUT", 1836, 0); }

RootInfo makeRootInfo() {
  // The name is as hard to guess as the nonce and reveals nothing of it.
  uint8_t random[32];
  if (::getrandom(random, sizeof(random), 0) != static_cast<ssize_t>(sizeof(random))) {
    throw std::system_error(errno, std::generic_category(), "getrandom");
  }
  const std::string socket = "npu-hccl-" + hexadecimal(random + 16, 16);
  const RootInfo root = describeRoot(random, socket);
  Descriptor listener = listenAt(socket);
  Listeners& all = listeners();
  std::lock_guard guard(all.mutex);
  all.open[hexadecimal(root.nonce, sizeof(root.nonce))] = std::move(listener);
  return root;
}

std::shared_ptr<Communicator> join(const RootInfo& root, const JoinRequest& request) {
  if (root.magic != kRootMagic || ::memchr(root.socket, 0, sizeof(root.socket)) == nullptr) {
    throw Failure(
        HCCL_E_PARA,
        "the root info was not made by HcclGetRootInfo of this emulator (were all " +
            std::to_string(HCCL_ROOT_INFO_BYTES) + " bytes copied?)");
  }
  const auto host = bootId();
  if (!std::equal(host.begin(), host.end(), root.host) || root.network != networkNamespace()) {
    throw Failure(
        HCCL_E_NOT_SUPPORT,
        "the root info was made on another host or in another network namespace; the emulator's "
        "ranks reach each other through shared memory and must be on one host");
  }
  const Deadline deadline = Clock::now() + connectTimeout();
  std::jthread server;
  if (Descriptor listener = takeListener(root)) {
    server = startQuietly([listener = std::make_shared<Descriptor>(std::move(listener)), root,
                           ranks = request.ranks, deadline] {
      serveBootstrap(std::move(*listener), root, ranks, deadline);
    });
  }
  try {
    return Guest(root, request, deadline + kGrace).join();
  } catch (...) {
    if (server.joinable()) {
      server.detach();  // it goes on telling other ranks why
    }
    throw;
  }
}

std::shared_ptr<Communicator> split(
    Communicator& parent, const std::vector<uint32_t>& members, uint64_t splitId,
    JoinRequest request) {
  uint64_t key = mix(0xcbf29ce484222325, splitId);
  for (uint32_t member : members) {
    key = mix(key, member);
  }
  {
    // The same split made again is another communicator; its members count alike.
    std::lock_guard guard(parent.postMutex());
    key = mix(key, parent.splits()[key]++);
  }
  if (members[0] != parent.rank()) {
    AwaitInvitation awaited(parent, members[0], key, Clock::now() + connectTimeout());
    parent.wait(parent.area().bell, awaited);
    const Invitation& invitation = awaited.found();
    return join(describeRoot(invitation.nonce, invitation.socket), request);
  }
  Invitation* slot = nullptr;
  for (Invitation& invitation : parent.area().invitations) {
    uint32_t free = 0;
    if (invitation.state.compare_exchange_strong(free, 1)) {
      slot = &invitation;
      break;
    }
  }
  if (slot == nullptr) {
    throw Failure(
        HCCL_E_UNAVAIL,
        "rank " + std::to_string(parent.rank()) + " is creating " + std::to_string(kInvitations) +
            " sub-communicators of '" + parent.name() + "' at once already");
  }
  struct Release {
    Invitation* slot;
    ~Release() { slot->state.store(0, std::memory_order_release); }
  } const release{slot};
  const RootInfo root = makeRootInfo();
  slot->key = key;
  std::memcpy(slot->nonce, root.nonce, sizeof(slot->nonce));
  std::memcpy(slot->socket, root.socket, sizeof(slot->socket));
  slot->state.store(2, std::memory_order_release);
  for (uint32_t member : members) {
    parent.segment().rank(member).bell.ring();
  }
  return join(root, request);
}

}  // namespace npu_emulator::hccl
