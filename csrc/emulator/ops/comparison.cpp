// Comparisons, logic and choices.
#include "emulator/ops/Pointwise.h"

#include <ATen/ops/clamp.h>
#include <ATen/ops/clamp_max.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ge.h>
#include <ATen/ops/gt.h>
#include <ATen/ops/hardtanh.h>
#include <ATen/ops/isclose.h>
#include <ATen/ops/isin.h>
#include <ATen/ops/le.h>
#include <ATen/ops/logical_and.h>
#include <ATen/ops/logical_or.h>
#include <ATen/ops/logical_xor.h>
#include <ATen/ops/lt.h>
#include <ATen/ops/masked_fill.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/threshold.h>
#include <ATen/ops/where.h>

namespace npu_emulator::ops {

Work EqTensor(Tensor self, Tensor other, Tensor out) {
  return binary(self, other, out, at::eq_out, Result::Bool);
}
Work InplaceEqTensor(Tensor selfRef, Tensor other) {
  return EqTensor(selfRef, other, selfRef);
}

Work EqScalar(Tensor self, Scalar other, Tensor out) {
  return binary(self, other, out, at::eq_out, Result::Bool);
}
Work InplaceEqScalar(Tensor selfRef, Scalar other) {
  return EqScalar(selfRef, other, selfRef);
}

Work NeTensor(Tensor self, Tensor other, Tensor out) {
  return binary(self, other, out, at::ne_out, Result::Bool);
}
Work InplaceNeTensor(Tensor selfRef, Tensor other) {
  return NeTensor(selfRef, other, selfRef);
}

Work NeScalar(Tensor self, Scalar other, Tensor out) {
  return binary(self, other, out, at::ne_out, Result::Bool);
}
Work InplaceNeScalar(Tensor selfRef, Scalar other) {
  return NeScalar(selfRef, other, selfRef);
}

Work LtTensor(Tensor self, Tensor other, Tensor out) {
  return binary(self, other, out, at::lt_out, Result::Bool);
}
Work InplaceLtTensor(Tensor selfRef, Tensor other) {
  return LtTensor(selfRef, other, selfRef);
}

Work LtScalar(Tensor self, Scalar other, Tensor out) {
  return binary(self, other, out, at::lt_out, Result::Bool);
}
Work InplaceLtScalar(Tensor selfRef, Scalar other) {
  return LtScalar(selfRef, other, selfRef);
}

Work LeTensor(Tensor self, Tensor other, Tensor out) {
  return binary(self, other, out, at::le_out, Result::Bool);
}
Work InplaceLeTensor(Tensor selfRef, Tensor other) {
  return LeTensor(selfRef, other, selfRef);
}

Work LeScalar(Tensor self, Scalar other, Tensor out) {
  return binary(self, other, out, at::le_out, Result::Bool);
}
Work InplaceLeScalar(Tensor selfRef, Scalar other) {
  return LeScalar(selfRef, other, selfRef);
}

Work GtTensor(Tensor self, Tensor other, Tensor out) {
  return binary(self, other, out, at::gt_out, Result::Bool);
}
Work InplaceGtTensor(Tensor selfRef, Tensor other) {
  return GtTensor(selfRef, other, selfRef);
}

Work GtScalar(Tensor self, Scalar other, Tensor out) {
  return binary(self, other, out, at::gt_out, Result::Bool);
}
Work InplaceGtScalar(Tensor selfRef, Scalar other) {
  return GtScalar(selfRef, other, selfRef);
}

Work GeTensor(Tensor self, Tensor other, Tensor out) {
  return binary(self, other, out, at::ge_out, Result::Bool);
}
Work InplaceGeTensor(Tensor selfRef, Tensor other) {
  return GeTensor(selfRef, other, selfRef);
}

Work GeScalar(Tensor self, Scalar other, Tensor out) {
  return binary(self, other, out, at::ge_out, Result::Bool);
}
Work InplaceGeScalar(Tensor selfRef, Scalar other) {
  return GeScalar(selfRef, other, selfRef);
}

Work LogicalAnd(Tensor self, Tensor other, Tensor out) {
  return binary(self, other, out, at::logical_and_out, Result::Bool);
}
Work InplaceLogicalAnd(Tensor selfRef, Tensor other) {
  return LogicalAnd(selfRef, other, selfRef);
}

Work LogicalOr(Tensor self, Tensor other, Tensor out) {
  return binary(self, other, out, at::logical_or_out, Result::Bool);
}
Work InplaceLogicalOr(Tensor selfRef, Tensor other) {
  return LogicalOr(selfRef, other, selfRef);
}

Work LogicalXor(Tensor self, Tensor other, Tensor out) {
  return binary(self, other, out, at::logical_xor_out, Result::Bool);
}
Work LessScalar(Tensor self, Scalar other, Tensor out) {
  return LtScalar(self, other, out);
}

Work IsClose(Tensor self, Tensor other, double rtol, double atol, bool equalNan, Tensor out) {
  expectBroadcastOut(out, {&self, &other});
  return [=] { out.copy_(at::isclose(self, other, rtol, atol, equalNan)); };
}

Work Equal(Tensor self, Tensor other, Tensor out) {
  if (out.numel() != 1) {
    refuse("out must have one element, got " + std::to_string(out.numel()));
  }
  return [=] { out.fill_(self.sizes() == other.sizes() && at::equal(self, other)); };
}

Work IsInTensorScalar(
    Tensor element, Scalar testElement, bool assumeUnique, bool invert, Tensor out) {
  expectSameSizes("out", out, "element", element);
  return [=] { out.copy_(at::isin(element, testElement, assumeUnique, invert)); };
}

Work IsInScalarTensor(
    Scalar element, Tensor testElements, bool assumeUnique, bool invert, Tensor out) {
  expectSizes("out", out, {});
  // ATen's CPU function takes a flat view of the second operand.
  return [=] { out.copy_(at::isin(element, testElements.contiguous(), assumeUnique, invert)); };
}

Work SWhere(Tensor condition, Tensor self, Tensor other, Tensor out) {
  expectBroadcastOut(out, {&condition, &self, &other});
  return [=]() mutable {
    const Tensor chosen = condition.to(at::kBool);
    if (self.scalar_type() == other.scalar_type() && self.scalar_type() == out.scalar_type()) {
      at::where_out(out, chosen, self, other);
    } else {
      out.copy_(at::where(chosen, self, other));
    }
  };
}

Work InplaceMaskedFillScalar(Tensor selfRef, Tensor mask, Scalar value) {
  expectSizes("mask, once broadcast,", selfRef, broadcastSizes(mask.sizes(), selfRef.sizes()));
  return [=] { selfRef.masked_fill_(mask.to(at::kBool), value); };
}

Work InplaceMaskedFillTensor(Tensor selfRef, Tensor mask, Tensor value) {
  expectSizes("mask, once broadcast,", selfRef, broadcastSizes(mask.sizes(), selfRef.sizes()));
  if (value.numel() != 1) {
    refuse("value must have one element, got " + std::to_string(value.numel()));
  }
  return [=] {
    selfRef.masked_fill_(mask.to(at::kBool), value.reshape({}).to(selfRef.scalar_type()));
  };
}

Work Clamp(Tensor self, OptionalScalar clipValueMin, OptionalScalar clipValueMax, Tensor out) {
  if (!clipValueMin && !clipValueMax) {
    refuse("clipValueMin and clipValueMax must not both be null");
  }
  expectSameSizes("out", out, "self", self);
  return [=] { out.copy_(at::clamp(self, clipValueMin, clipValueMax)); };
}

Work ClampMin(Tensor self, Scalar clipValueMin, Tensor out) {
  return binary(self, clipValueMin, out, at::clamp_min_out);
}

Work ClampMax(Tensor self, Scalar clipValueMax, Tensor out) {
  return binary(self, clipValueMax, out, at::clamp_max_out);
}
Work InplaceClampMax(Tensor selfRef, Scalar clipValueMax) {
  return ClampMax(selfRef, clipValueMax, selfRef);
}

Work ClampTensor(
    Tensor self, OptionalTensor clipValueMin, OptionalTensor clipValueMax, Tensor out) {
  if (!clipValueMin && !clipValueMax) {
    refuse("clipValueMin and clipValueMax must not both be null");
  }
  std::vector<int64_t> sizes = self.sizes().vec();
  for (const auto& limit : {clipValueMin, clipValueMax}) {
    if (limit) {
      sizes = broadcastSizes(sizes, limit->sizes());
    }
  }
  expectSizes("out", out, sizes);
  return [=] { out.copy_(at::clamp(self, clipValueMin, clipValueMax)); };
}

Work ClampMinTensor(Tensor self, Tensor clipValueMin, Tensor out) {
  return binary(self, clipValueMin, out, at::clamp_min_out);
}
Work InplaceClampMinTensor(Tensor selfRef, Tensor clipValueMin) {
  return ClampMinTensor(selfRef, clipValueMin, selfRef);
}

Work ClampMaxTensor(Tensor self, Tensor max, Tensor out) {
  return binary(self, max, out, at::clamp_max_out);
}
Work InplaceClampMaxTensor(Tensor selfRef, Tensor max) {
  return ClampMaxTensor(selfRef, max, selfRef);
}

Work Hardtanh(Tensor self, Scalar clipValueMin, Scalar clipValueMax, Tensor out) {
  expectSameSizes("out", out, "self", self);
  return [=] { out.copy_(at::hardtanh(self, clipValueMin, clipValueMax)); };
}
Work InplaceHardtanh(Tensor selfRef, Scalar clipValueMin, Scalar clipValueMax) {
  return Hardtanh(selfRef, clipValueMin, clipValueMax, selfRef);
}

Work Threshold(Tensor self, Scalar threshold, Scalar value, Tensor out) {
  expectSameSizes("out", out, "self", self);
  return [=]() mutable {
    writeAs(out, self.scalar_type(), [&](Tensor& target) {
      at::threshold_out(target, self, threshold, value);
    });
  };
}
Work InplaceThreshold(Tensor selfRef, Scalar threshold, Scalar value) {
  return Threshold(selfRef, threshold, value, selfRef);
}

}  // namespace npu_emulator::ops
