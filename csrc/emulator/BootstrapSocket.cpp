#include "emulator/BootstrapSocket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <system_error>

namespace npu_emulator::hccl {

namespace {

constexpr size_t kDescriptorsPerMessage = 2 * kMembersPerMessage;

[[noreturn]] void throwErrno(const char* call) {
  throw std::system_error(errno, std::generic_category(), call);
}

socklen_t abstractAddress(const std::string& name, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  const size_t length = std::min(name.size(), sizeof(address->sun_path) - 1);
  std::memcpy(address->sun_path + 1, name.data(), length);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

int millisecondsUntil(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(
      deadline - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, INT_MAX));
}

bool waitFor(int socket, short events, Deadline deadline) {
  pollfd item{socket, events, 0};
  for (;;) {
    const int ready = ::poll(&item, 1, millisecondsUntil(deadline));
    if (ready >= 0) {
      return ready > 0;
    }
    if (errno != EINTR) {
      throwErrno("poll");
    }
  }
}

Descriptor newSocket() {
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) {
    throwErrno("socket");
  }
  return socket;
}

}  // namespace

Descriptor listenAt(const std::string& name) {
  Descriptor socket = newSocket();
  sockaddr_un address;
  const socklen_t length = abstractAddress(name, &address);
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) {
    throwErrno("bind");
  }
  if (::listen(socket.get(), SOMAXCONN) != 0) {
    throwErrno("listen");
  }
  return socket;
}

Descriptor connectTo(const std::string& name, Deadline deadline) {
  sockaddr_un address;
  const socklen_t length = abstractAddress(name, &address);
  for (;;) {
    Descriptor socket = newSocket();
    if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), length) == 0) {
      return socket;
    }
    // A full backlog: there is no event for room in it.
    if ((errno != EAGAIN && errno != EINTR) || std::chrono::steady_clock::now() >= deadline) {
      throwErrno("connect");
    }
    pollfd none{-1, 0, 0};
    ::poll(&none, 0, 5);
  }
}

int peerProcess(int socket) {
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0 ||
      credentials.uid != ::geteuid()) {
    return -1;
  }
  return credentials.pid;
}

void sendNote(
    int socket, const Note& note, const std::vector<int>& descriptors, Deadline deadline) {
  iovec data{const_cast<Note*>(&note), sizeof(note)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kDescriptorsPerMessage)];
  std::memset(control, 0, sizeof(control));
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    const size_t bytes = sizeof(int) * descriptors.size();
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(header), descriptors.data(), bytes);
  }
  for (;;) {
    if (::sendmsg(socket, &message, MSG_NOSIGNAL) >= 0) {
      return;
    }
    if (errno == EAGAIN) {
      if (!waitFor(socket, POLLOUT, deadline)) {
        errno = ETIMEDOUT;
        throwErrno("sendmsg");
      }
    } else if (errno != EINTR) {
      throwErrno("sendmsg");
    }
  }
}

Received receiveNote(
    int socket, Note* note, std::vector<Descriptor>* descriptors, Deadline deadline) {
  descriptors->clear();
  iovec data{note, sizeof(*note)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kDescriptorsPerMessage)];
  for (;;) {
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t bytes = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    if (bytes < 0 && errno == EAGAIN) {
      if (!waitFor(socket, POLLIN, deadline)) {
        return Received::Nothing;
      }
      continue;
    }
    // A reset is reported once, before what the other end sent before it closed.
    if (bytes < 0 && (errno == EINTR || errno == ECONNRESET)) {
      continue;
    }
    if (bytes <= 0) {  // in order, or the other process ended
      return Received::Closed;
    }
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(&message, header)) {
      if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS) {
        const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; ++i) {
          int fd;
          std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
          descriptors->emplace_back(fd);
        }
      }
    }
    if ((message.msg_flags & MSG_CTRUNC) != 0) {
      throw std::system_error(
          EMFILE, std::generic_category(), "receiving descriptors (see `ulimit -n`)");
    }
    if (static_cast<size_t>(bytes) != sizeof(*note)) {
      throw std::system_error(EPROTO, std::generic_category(), "receiving a message");
    }
    return Received::Note;
  }
}

}  // namespace npu_emulator::hccl
