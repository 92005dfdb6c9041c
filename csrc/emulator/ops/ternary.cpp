// Arithmetic of three operands.
#include "emulator/ops/Pointwise.h"

#include <ATen/ops/addcdiv.h>
#include <ATen/ops/addcmul.h>
#include <ATen/ops/lerp.h>
#include <ATen/ops/result_type.h>

namespace npu_emulator::ops {

namespace {

ScalarType commonType(const Tensor& a, const Tensor& b, const Tensor& c) {
  return c10::promoteTypes(at::result_type(a, b), at::result_type(b, c));
}

}  // namespace

// self + value * tensor1 * tensor2
Work Addcmul(Tensor self, Tensor tensor1, Tensor tensor2, Scalar value, Tensor out) {
  expectBroadcastOut(out, {&self, &tensor1, &tensor2});
  return [=]() mutable {
    const ScalarType type = commonType(self, tensor1, tensor2);
    const Scalar factor = factorFor(type, value);
    writeAs(out, type, [&](Tensor& target) {
      at::addcmul_out(target, self, tensor1, tensor2, factor);
    });
  };
}
Work InplaceAddcmul(Tensor selfRef, Tensor tensor1, Tensor tensor2, Scalar value) {
  return Addcmul(selfRef, tensor1, tensor2, value, selfRef);
}

// self + value * tensor1 / tensor2
Work Addcdiv(Tensor self, Tensor tensor1, Tensor tensor2, Scalar value, Tensor out) {
  expectBroadcastOut(out, {&self, &tensor1, &tensor2});
  return [=]() mutable {
    const ScalarType type = commonType(self, tensor1, tensor2);
    writeAs(out, type, [&](Tensor& target) {
      at::addcdiv_out(target, self, tensor1, tensor2, value);
    });
  };
}
Work InplaceAddcdiv(Tensor selfRef, Tensor tensor1, Tensor tensor2, Scalar value) {
  return Addcdiv(selfRef, tensor1, tensor2, value, selfRef);
}

// self + weight * (end - self)
Work Lerp(Tensor self, Tensor end, Tensor weight, Tensor out) {
  expectBroadcastOut(out, {&self, &end, &weight});
  return [=]() mutable {
    const ScalarType type = self.scalar_type();
    writeExactly(out, type, [&](Tensor& target) {
      at::lerp_out(target, self, end.to(type), weight.to(type));
    });
  };
}
Work InplaceLerp(Tensor selfRef, Tensor end, Tensor weight) {
  return Lerp(selfRef, end, weight, selfRef);
}

Work Lerps(Tensor self, Tensor end, Scalar weight, Tensor out) {
  expectBroadcastOut(out, {&self, &end});
  return [=]() mutable {
    const ScalarType type = self.scalar_type();
    writeExactly(out, type, [&](Tensor& target) {
      at::lerp_out(target, self, end.to(type), weight);
    });
  };
}
Work InplaceLerps(Tensor selfRef, Tensor end, Scalar weight) {
  return Lerps(selfRef, end, weight, selfRef);
}

}  // namespace npu_emulator::ops
