// How PyTorch's dtypes and reductions are said to HCCL.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <cstdint>
#include <string>

#include "cann/abi/hccl.h"

namespace torch_npu::distributed {

// What travels for one element of a tensor. Complex numbers travel as two real ones, bool as int8,
// the 8-bit floats as bytes (only some products know them, and moving needs no arithmetic).
struct WireType {
  HcclDataType type;
  int64_t perElement;
};

// HCCL declares buffers that it only reads as void* too.
inline void* pointer(const at::Tensor& tensor) {
  return const_cast<void*>(tensor.const_data_ptr());
}

inline uint64_t wireCount(const at::Tensor& tensor, const WireType& wire) {
  return static_cast<uint64_t>(tensor.numel() * wire.perElement);
}

// For operations that only move data. Throws c10::TypeError for dtypes without a wire form.
WireType wireType(at::ScalarType dtype, const char* operation);

// 8-bit floats as the bytes that travel, everything else as it is: cutting and joining them must
// not depend on operators that know them.
at::Tensor asBytes(const at::Tensor& tensor);

struct Reduction {
  HcclReduceOp op;
  WireType wire;
  // HCCL has no average: it sums, then the result is divided by the number of ranks.
  bool average = false;
  // PREMUL_SUM: inputs are multiplied by this factor, then summed.
  c10::intrusive_ptr<c10d::PreMulSumSupplement> factor;
};

// Throws c10::TypeError or c10::ValueError where the reduction has no meaning for the dtype or no
// form in HCCL: bitwise ones, AVG of bool, order of complex numbers, 8-bit floats.
Reduction reduction(const c10d::ReduceOp& op, at::ScalarType dtype, const char* operation);

// "float32", as Python calls it
std::string dtypeName(at::ScalarType dtype);
// "SUM"
const char* reduceOpName(c10d::ReduceOp::RedOpType op) noexcept;

}  // namespace torch_npu::distributed
