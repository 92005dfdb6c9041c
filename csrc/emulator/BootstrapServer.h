// The serving side of a communicator's creation, see Note [Bootstrap].
#pragma once

#include "emulator/Bootstrap.h"
#include "emulator/BootstrapSocket.h"

namespace npu_emulator::hccl {

// Serves one communicator: returns when all ranks have joined, or after telling all why not, for
// which it stays some time after a failure.
void serveBootstrap(
    Descriptor listener, const RootInfo& root, uint32_t ranks, Deadline deadline) noexcept;

}  // namespace npu_emulator::hccl
