// What the environment says about the machine that is emulated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace npu_emulator {

struct Environment {
  uint32_t machineDevices = 0;       // TORCH_NPU_EMULATOR_DEVICES
  std::vector<int> visible;          // physical ids in the order of ASCEND_RT_VISIBLE_DEVICES
  uint64_t bytesPerDevice = 0;       // TORCH_NPU_EMULATOR_MEMORY
  std::string error;                 // why the above is unusable; empty: fine
  bool badDevices = false;           // the error is about devices, not memory
};

// Reads it anew. The state of the process keeps the result from its first use of a device on.
Environment readEnvironment();

// "512 MiB", "1.50 GiB" for messages.
std::string describeBytes(uint64_t bytes);

// A non-negative number of bytes with an optional unit (K, M, G, T, also KiB, KB, ...; powers of
// 1024); false if the text is something else.
bool parseBytes(const std::string& text, uint64_t* bytes);

// A decimal integer of the environment variable, or `fallback` if unset or not a number.
int64_t integerFromEnvironment(const char* name, int64_t fallback);

}  // namespace npu_emulator
