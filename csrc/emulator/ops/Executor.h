// The two phases, as the generated entry points call them.
#pragma once

#include <c10/util/FunctionRef.h>

#include "emulator/ops/Kernel.h"

// The libraries are compiled with hidden visibility.
#define NPU_ENTRY_POINT __attribute__((visibility("default")))

namespace npu_emulator::ops {

// Phase 1, called as `call`. Lets `make` check the arguments and build the work; writes executor
// and workspaceSize (no kernel needs any).
aclnnStatus plan(
    const char* op, const char* call, uint64_t* workspaceSize, aclOpExecutor** executor,
    c10::function_ref<Work()> make);

// Phase 2. Consumes the executor and enqueues its work.
aclnnStatus run(const char* op, aclOpExecutor* executor, aclrtStream stream);

}  // namespace npu_emulator::ops
