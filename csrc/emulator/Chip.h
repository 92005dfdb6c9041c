// The chip that programs are told of.
#pragma once

#include <cstdint>

namespace npu_emulator {

// An Ascend 910B1, with its published numbers of cores.
inline constexpr const char* kSocName = "Ascend910B1";
inline constexpr int64_t kCubeCores = 24;
inline constexpr int64_t kVectorCores = 48;
inline constexpr int64_t kAiCpuCores = 6;
inline constexpr int64_t kL2Bytes = int64_t{192} << 20;
inline constexpr int64_t kUnifiedBufferBytes = int64_t{192} << 10;
inline constexpr int64_t kArchitecture = 2201;  // number of this generation

}  // namespace npu_emulator
