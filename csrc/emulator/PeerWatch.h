// Notices the death of processes whose ranks share a communicator with this one.
#pragma once

#include <memory>

#include "emulator/Shm.h"

namespace npu_emulator::hccl {

class Communicator;

// Calls communicator->peerDied(rank) once the process behind `pidfd` ended. One thread of this
// process watches all; it is told by the kernel, not by polling, and zombies count as dead.
void watchPeer(std::weak_ptr<Communicator> communicator, uint32_t rank, Descriptor pidfd);

}  // namespace npu_emulator::hccl
