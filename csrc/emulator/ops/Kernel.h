// What a kernel is written in.
//
// A kernel is a function at column 0 that returns Work and bears the operator's name without
// "aclnn":
//
//   Work Add(Tensor self, Tensor other, Scalar alpha, Tensor out) {
//
// codegen/emulator_ops.py finds it by that line and writes the two entry points. The parameters
// have the names and order of facts/aclnn_functions.tsv (the build fails otherwise; the name of an
// unused one is a comment) and the types below, by value. The body is phase 1: it runs on the
// caller's thread, looks at metadata only and refuses what is wrong. The function that it returns
// is phase 2: it runs later, on the stream, and owns all that it needs; only there may data be read
// or ATen operators be called.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "emulator/OpApi.h"

namespace npu_emulator::ops {

using Work = std::function<void()>;

using at::IntArrayRef;
using at::Scalar;
using at::ScalarType;
using at::Tensor;
using OptionalTensor = std::optional<Tensor>;  // a null pointer is allowed
using OptionalScalar = std::optional<Scalar>;
using Tensors = std::vector<Tensor>;  // absent members are undefined tensors
using Scalars = std::vector<Scalar>;
using Ints = std::vector<int64_t>;
using OptionalInts = std::optional<Ints>;
using Bools = std::vector<char>;
using Text = std::string;
using OptionalText = std::optional<std::string>;

// Thrown in phase 1: the call returns `code`, and the message is the recent one of the thread.
// In phase 2 it is a failure on the device, like any other exception.
struct Refusal {
  aclnnStatus code;
  std::string message;
};

[[noreturn]] void refuse(std::string message);

// A result whose shape depends on data. `view` has the largest size; phase 2 writes the real one.
class Resizable {
 public:
  Resizable(Tensor view, aclTensor* handle);

  Tensor view;

  void setSizes(IntArrayRef sizes) const;
  // Stores `result` at the start of the memory of the view, densely, with its sizes.
  void assign(const Tensor& result) const;

 private:
  std::shared_ptr<aclTensor> handle_;
};

void expectSizes(const char* name, const Tensor& tensor, IntArrayRef expected);
void expectSameSizes(
    const char* name, const Tensor& tensor, const char* otherName, const Tensor& other);
void expectDim(const char* name, const Tensor& tensor, int64_t dim);
void expectType(const char* name, const Tensor& tensor, ScalarType expected);

// Sizes that operands broadcast to; refuses what does not broadcast.
std::vector<int64_t> broadcastSizes(IntArrayRef a, IntArrayRef b);

// dim in [-rank, rank) as an index; refuses others. Rank 0 counts as rank 1.
int64_t wrapDim(int64_t dim, int64_t rank);
// The dimensions a reduction goes over; an empty list means all of them.
std::vector<int64_t> reducedDims(IntArrayRef dims, int64_t rank);
std::vector<int64_t> reducedSizes(IntArrayRef sizes, IntArrayRef dims, bool keepDim);

// Phase 2. Lets `into` write a result of type `computed` to out itself if the operator may convert
// while it stores, as pointwise ones do, else to a temporary that is converted.
template <class Into>
void writeAs(Tensor& out, ScalarType computed, Into&& into) {
  if (c10::canCast(computed, out.scalar_type())) {
    into(out);
    return;
  }
  Tensor result = at::empty(out.sizes(), out.options().dtype(computed));
  into(result);
  out.copy_(result);
}

// The same for operators whose result has exactly the type `computed`. Some of ATen's CPU kernels
// (softmax, gelu, matmul) write a result that is not dense as if it were, so they get a dense one.
template <class Into>
void writeExactly(Tensor& out, ScalarType computed, Into&& into) {
  if (computed == out.scalar_type() && out.is_contiguous()) {
    into(out);
    return;
  }
  Tensor result = at::empty(out.sizes(), out.options().dtype(computed));
  into(result);
  out.copy_(result);
}

}  // namespace npu_emulator::ops
