// Pinned host memory (aclrtMallocHost*) and registered host memory (aclrtHostRegister*).
#pragma once

#include "emulator/Memory.h"

namespace npu_emulator {

// Fills in kind and available bytes when the pointer is known; leaves Pageable otherwise.
void classifyHost(const void* ptr, PointerInfo* info);

}  // namespace npu_emulator
