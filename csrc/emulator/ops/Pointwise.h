// Shapes of element-by-element kernels: what they have in common is checked and decided here.
#pragma once

#include "emulator/ops/Kernel.h"

namespace npu_emulator::ops {

// ATen's out variants, chosen among overloads by these types.
using UnaryOut = Tensor& (*)(Tensor&, const Tensor&);
using BinaryOut = Tensor& (*)(Tensor&, const Tensor&, const Tensor&);
using ScalarRightOut = Tensor& (*)(Tensor&, const Tensor&, const Scalar&);
using ScalarLeftOut = Tensor& (*)(Tensor&, const Scalar&, const Tensor&);

// The type that the result has before it is converted to that of out.
enum class Result {
  Promoted,        // common type of the operands
  PromotedFloat,   // the same, the default float type for integers
  Bool,
};

Work unary(Tensor self, Tensor out, UnaryOut into, Result result = Result::Promoted);
Work binary(
    Tensor self, Tensor other, Tensor out, BinaryOut into, Result result = Result::Promoted);
Work binary(
    Tensor self, Scalar other, Tensor out, ScalarRightOut into, Result result = Result::Promoted);
Work binary(
    Scalar self, Tensor other, Tensor out, ScalarLeftOut into, Result result = Result::Promoted);

// Refuses operands that do not broadcast to the shape of out.
void expectBroadcastOut(const Tensor& out, std::initializer_list<const Tensor*> operands);

// A factor for operands of `type`: callers pass 1.0 for integers, which ATen refuses.
Scalar factorFor(ScalarType type, const Scalar& factor);

// What `result` means for operands of `type`.
ScalarType resultType(ScalarType type, Result result);

}  // namespace npu_emulator::ops
