// Finds sends and receives that wait for each other in a circle.
//
// Note [Cycle of waits]
// A send that is blocked at the head of a stream waits for one receive of its peer. When the peer's
// host has called that receive, but on a stream whose head is blocked in something else, the
// receive cannot start before that something ends: an edge of the graph of waits. A circle of such
// edges never resolves, so it is reported at once instead of after a timeout. A receive that the
// peer has not called yet is no edge: it may still come. Records are numbered, and a circle counts
// only if it is found twice with the same numbers, so that every wait in it lasted from one look to
// the next.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/Communicator.h"

namespace npu_emulator::hccl {

// One blocked send or receive of this rank.
struct BlockedMessage {
  bool sending = false;
  uint32_t peer = 0;
  uint64_t message = 0;
  uint64_t count = 0;
  uint32_t dataType = 0;
};

// The records of one task that is blocked in sends and receives.
class BlockedTask {
 public:
  explicit BlockedTask(Communicator& communicator, uint64_t stream);
  ~BlockedTask();
  BlockedTask(const BlockedTask&) = delete;
  BlockedTask& operator=(const BlockedTask&) = delete;

  // Publishes what the task waits for now. Without room for all of it, nothing is published.
  void publish(const std::vector<BlockedMessage>& messages);
  // The circle that this task is part of, in words; empty while there is none for certain.
  std::string findCycle();
  // To be called as soon as anything moves.
  void withdraw();

 private:

  Communicator& communicator_;
  const uint64_t stream_;
  std::vector<WaitRecord*> records_;
  std::vector<BlockedMessage> published_;
  std::vector<uint64_t> suspected_;  // stamps of the circle that was seen last time
};

// Tells peers that this rank's host called a send or receive. Under the communicator's postMutex().
void announceMessage(
    Communicator& communicator, bool sending, uint32_t peer, uint64_t message, uint64_t stream);
void announceCompletion(
    Communicator& communicator, bool sending, uint32_t peer, uint64_t message);

}  // namespace npu_emulator::hccl
