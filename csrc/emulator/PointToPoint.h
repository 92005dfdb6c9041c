// Sends and receives.
//
// Note [Channels]
// Each pair of ranks has a channel for each direction: a short ring of parts. A small message is
// copied into the part itself and its sender goes on. A large one is announced by its address; the
// receiver reads it out of the sender's memory and says so, which ends the send. Messages of a
// channel match in the order of the calls. A task may hold many messages (a group): it advances all
// of them as their peers allow, so that no order of the members can deadlock.
#pragma once

#include <memory>
#include <vector>

#include "emulator/Communicator.h"

namespace npu_emulator::hccl {

// One send or receive, as checked against itself.
struct Message {
  std::shared_ptr<Communicator> communicator;
  bool sending = false;
  uint32_t peer = 0;
  uint32_t dataType = 0;
  uint64_t count = 0;
  Buffer buffer;
};

// Gives the messages their numbers and puts them on the stream as one task. Throws Failure.
void enqueueMessages(const char* function, std::vector<Message> messages, aclrtStream stream);

}  // namespace npu_emulator::hccl
