// Addresses that programs map themselves: aclrtReserveMemAddress and aclrtMapMem
// (VirtualMemory.cpp), and memory of other processes that aclrtIpcMemImportByKey mapped
// (IpcMemory.cpp).
#pragma once

#include "emulator/Memory.h"

namespace npu_emulator {

// locate() for what is mapped here: false and device -1 if the address is not; false with a device
// for a reserved address without memory.
bool locateMapped(const void* ptr, MemoryLocation* location);
bool locateImported(const void* ptr, MemoryLocation* location);

}  // namespace npu_emulator
