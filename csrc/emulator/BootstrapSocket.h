// Messages with descriptors over abstract Unix sockets, between processes of one user.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "emulator/Shm.h"

namespace npu_emulator::hccl {

using Deadline = std::chrono::steady_clock::time_point;

enum class Kind : uint32_t { Hello, Welcome, Members, Ready, Go, Refused };

struct MemberInfo {
  uint32_t rank;
  int32_t device;
  int32_t process;
};

// Descriptors that one message carries at most (the kernel's limit is 253), two for each member.
inline constexpr size_t kMembersPerMessage = 64;

struct Note {
  Kind kind;
  uint32_t rank;
  uint32_t ranks;
  int32_t device;
  uint64_t version;  // kSegmentMagic: both sides must have the same layout
  uint8_t nonce[16];
  uint32_t code;  // HcclResult of Refused
  char text[3072];
  uint32_t memberCount;
  MemberInfo members[kMembersPerMessage];
};

Descriptor listenAt(const std::string& name);
// Throws std::system_error.
Descriptor connectTo(const std::string& name, Deadline deadline);
// The other end's process; -1 if it belongs to another user.
int peerProcess(int socket);

// Throws std::system_error.
void sendNote(int socket, const Note& note, const std::vector<int>& descriptors, Deadline deadline);

enum class Received { Note, Nothing, Closed };
// Waits for a message until the deadline (past: only looks).
Received receiveNote(
    int socket, Note* note, std::vector<Descriptor>* descriptors, Deadline deadline);

}  // namespace npu_emulator::hccl
