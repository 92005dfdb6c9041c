// Faults on demand: TORCH_NPU_EMULATOR_FAULTS=call:rank:nth:action[,...]
//   call    an ABI function (aclrtMalloc, HcclAllReduce, ...), or task/NAME: the task that NAME put
//           on a stream, when it runs
//   rank    environment variable RANK of the processes meant, or * for all
//   nth     which use of the call in the process, from 1, or * for each
//   action  delay[=milliseconds]  error[=code]  hang  kill  oom  late-copy[=milliseconds]
// late-copy of aclrtMemcpyAsync delays the copy on its stream, not the call: who reuses a host
// buffer too early then reads or sends wrong data.
#pragma once

#include <string>

#include "emulator/Abi.h"

namespace npu_emulator {

bool faultsRequested() noexcept;

// What the environment asks of this use of `name`: sleeps, hangs or kills as told, and returns the
// code that the call shall return, 0 for none.
int faultAtCall(const char* name);
// The same for a task that starts on a stream; ends early when the task is cancelled.
int faultAtTask(const char* name);

}  // namespace npu_emulator
