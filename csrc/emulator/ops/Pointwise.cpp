#include "emulator/ops/Pointwise.h"

#include <ATen/ops/result_type.h>
#include <c10/core/DefaultDtype.h>

namespace npu_emulator::ops {

ScalarType resultType(ScalarType type, Result result) {
  switch (result) {
    case Result::Bool:
      return at::kBool;
    case Result::PromotedFloat:
      return c10::isIntegralType(type, /*includeBool=*/true)
          ? c10::get_default_dtype_as_scalartype()
          : type;
    case Result::Promoted:
      break;
  }
  return type;
}

Scalar factorFor(ScalarType type, const Scalar& factor) {
  return c10::isIntegralType(type, /*includeBool=*/true) && factor.isFloatingPoint()
      ? Scalar(factor.to<int64_t>())
      : factor;
}

void expectBroadcastOut(const Tensor& out, std::initializer_list<const Tensor*> operands) {
  std::vector<int64_t> sizes;
  for (const Tensor* operand : operands) {
    sizes = broadcastSizes(sizes, operand->sizes());
  }
  expectSizes("out", out, sizes);
}

Work unary(Tensor self, Tensor out, UnaryOut into, Result result) {
  expectSameSizes("out", out, "self", self);
  return [=]() mutable {
    writeAs(out, resultType(self.scalar_type(), result), [&](Tensor& target) {
      into(target, self);
    });
  };
}

Work binary(Tensor self, Tensor other, Tensor out, BinaryOut into, Result result) {
  expectBroadcastOut(out, {&self, &other});
  return [=]() mutable {
    writeAs(out, resultType(at::result_type(self, other), result), [&](Tensor& target) {
      into(target, self, other);
    });
  };
}

Work binary(Tensor self, Scalar other, Tensor out, ScalarRightOut into, Result result) {
  expectSameSizes("out", out, "self", self);
  return [=]() mutable {
    writeAs(out, resultType(at::result_type(self, other), result), [&](Tensor& target) {
      into(target, self, other);
    });
  };
}

Work binary(Scalar self, Tensor other, Tensor out, ScalarLeftOut into, Result result) {
  expectSameSizes("out", out, "other", other);
  return [=]() mutable {
    writeAs(out, resultType(at::result_type(self, other), result), [&](Tensor& target) {
      into(target, self, other);
    });
  };
}

}  // namespace npu_emulator::ops
