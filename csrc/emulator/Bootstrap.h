// How the ranks of a communicator find each other and share their memory.
//
// Note [Bootstrap]
// Root info names an abstract socket (nothing on disk that could go stale) and carries a secret.
// The process that made it serves the socket while it joins the communicator itself. Each rank says
// hello and hands over its device's memory; once all are there, each gets the shared segment,
// everybody's memory and a handle on everybody's process; when all have mapped them, all go on.
// Only processes of the same user are talked to, in either direction.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "emulator/Communicator.h"

namespace npu_emulator::hccl {

// What is inside HcclRootInfo.
struct RootInfo {
  uint64_t magic;
  uint8_t nonce[16];
  uint8_t host[16];      // boot id of the machine
  uint64_t network;      // inode of the network namespace: abstract sockets live in one
  char socket[64];       // without the leading zero byte
};
static_assert(sizeof(RootInfo) <= HCCL_ROOT_INFO_BYTES);

// Opens the socket in this process.
RootInfo makeRootInfo();

struct JoinRequest {
  uint32_t rank = 0;
  uint32_t ranks = 0;
  int device = 0;
  std::string name;  // empty: made from the root info
  std::chrono::seconds patience{0};
};

// Returns when all ranks have joined. Throws Failure on every rank when one of them fails.
std::shared_ptr<Communicator> join(const RootInfo& root, const JoinRequest& request);

// The communicator of some ranks of `parent`; every one of `members` calls this.
std::shared_ptr<Communicator> split(
    Communicator& parent, const std::vector<uint32_t>& members, uint64_t splitId,
    JoinRequest request);

// HCCL_CONNECT_TIMEOUT and HCCL_EXEC_TIMEOUT, in seconds. Throw Failure for bad values.
std::chrono::seconds connectTimeout();
std::chrono::seconds executionTimeout();

}  // namespace npu_emulator::hccl
