// Arithmetic of the reducing collectives, and what is known about HCCL's data types.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "emulator/Abi.h"

namespace npu_emulator::hccl {

// Bytes of one element; 0 for a value that is no data type.
size_t elementSize(uint32_t dataType);
std::string dataTypeName(uint32_t dataType);
std::string reduceOpName(uint32_t reduceOp);

// Empty if the type can be reduced by the operation, else why it cannot.
std::string whyNotReducible(uint32_t dataType, uint32_t reduceOp);

// Reduces the same `bytes` (at most kReduceBlock) of all inputs, in the order of the inputs, into
// `result`. 16-bit and 8-bit floats are accumulated in float32 and rounded once. Integers wrap
// around; maximum and minimum of floats hand on NaN.
inline constexpr size_t kReduceBlock = 4096;
void reduceBlock(
    uint32_t dataType, uint32_t reduceOp, const std::byte* const* inputs, size_t inputCount,
    size_t bytes, std::byte* result);

}  // namespace npu_emulator::hccl
