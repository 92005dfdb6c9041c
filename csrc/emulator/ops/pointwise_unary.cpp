// Functions of one tensor.
#include "emulator/ops/Pointwise.h"

#include <ATen/ops/abs.h>
#include <ATen/ops/acos.h>
#include <ATen/ops/acosh.h>
#include <ATen/ops/asin.h>
#include <ATen/ops/asinh.h>
#include <ATen/ops/atan.h>
#include <ATen/ops/atanh.h>
#include <ATen/ops/bitwise_not.h>
#include <ATen/ops/ceil.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/cosh.h>
#include <ATen/ops/erf.h>
#include <ATen/ops/erfc.h>
#include <ATen/ops/erfinv.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/exp2.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/frac.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/isneginf.h>
#include <ATen/ops/isposinf.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log10.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/log2.h>
#include <ATen/ops/logical_not.h>
#include <ATen/ops/nan_to_num.h>
#include <ATen/ops/neg.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/round.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/signbit.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/sinc.h>
#include <ATen/ops/sinh.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/tan.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/trunc.h>

namespace npu_emulator::ops {

Work Acos(Tensor input, Tensor out) {
  return unary(input, out, at::acos_out, Result::PromotedFloat);
}
Work InplaceAcos(Tensor inputRef) {
  return Acos(inputRef, inputRef);
}

Work Acosh(Tensor self, Tensor out) {
  return unary(self, out, at::acosh_out, Result::PromotedFloat);
}
Work InplaceAcosh(Tensor selfRef) {
  return Acosh(selfRef, selfRef);
}

Work Asin(Tensor self, Tensor out) {
  return unary(self, out, at::asin_out, Result::PromotedFloat);
}
Work InplaceAsin(Tensor selfRef) {
  return Asin(selfRef, selfRef);
}

Work Asinh(Tensor input, Tensor out) {
  return unary(input, out, at::asinh_out, Result::PromotedFloat);
}
Work InplaceAsinh(Tensor inputRef) {
  return Asinh(inputRef, inputRef);
}

Work Atan(Tensor input, Tensor out) {
  return unary(input, out, at::atan_out, Result::PromotedFloat);
}
Work InplaceAtan(Tensor inputRef) {
  return Atan(inputRef, inputRef);
}

Work Atanh(Tensor input, Tensor out) {
  return unary(input, out, at::atanh_out, Result::PromotedFloat);
}
Work InplaceAtanh(Tensor inputRef) {
  return Atanh(inputRef, inputRef);
}

Work BitwiseNot(Tensor self, Tensor out) {
  return unary(self, out, at::bitwise_not_out);
}

Work Ceil(Tensor self, Tensor out) {
  return unary(self, out, at::ceil_out);
}
Work InplaceCeil(Tensor selfRef) {
  return Ceil(selfRef, selfRef);
}

Work Cos(Tensor input, Tensor out) {
  return unary(input, out, at::cos_out, Result::PromotedFloat);
}
Work InplaceCos(Tensor inputRef) {
  return Cos(inputRef, inputRef);
}

Work Cosh(Tensor self, Tensor out) {
  return unary(self, out, at::cosh_out, Result::PromotedFloat);
}
Work InplaceCosh(Tensor selfRef) {
  return Cosh(selfRef, selfRef);
}

Work Erf(Tensor self, Tensor out) {
  return unary(self, out, at::erf_out, Result::PromotedFloat);
}
Work InplaceErf(Tensor selfRef) {
  return Erf(selfRef, selfRef);
}

Work Erfc(Tensor self, Tensor out) {
  return unary(self, out, at::erfc_out, Result::PromotedFloat);
}
Work InplaceErfc(Tensor selfRef) {
  return Erfc(selfRef, selfRef);
}

Work Erfinv(Tensor self, Tensor out) {
  return unary(self, out, at::erfinv_out, Result::PromotedFloat);
}
Work InplaceErfinv(Tensor selfRef) {
  return Erfinv(selfRef, selfRef);
}

Work Exp(Tensor self, Tensor out) {
  return unary(self, out, at::exp_out, Result::PromotedFloat);
}
Work InplaceExp(Tensor selfRef) {
  return Exp(selfRef, selfRef);
}

Work Exp2(Tensor self, Tensor out) {
  return unary(self, out, at::exp2_out, Result::PromotedFloat);
}
Work InplaceExp2(Tensor selfRef) {
  return Exp2(selfRef, selfRef);
}

Work Expm1(Tensor self, Tensor out) {
  return unary(self, out, at::expm1_out, Result::PromotedFloat);
}
Work InplaceExpm1(Tensor selfRef) {
  return Expm1(selfRef, selfRef);
}

Work Floor(Tensor self, Tensor out) {
  return unary(self, out, at::floor_out);
}
Work InplaceFloor(Tensor selfRef) {
  return Floor(selfRef, selfRef);
}

Work IsNegInf(Tensor self, Tensor out) {
  return unary(self, out, at::isneginf_out, Result::Bool);
}

Work IsPosInf(Tensor self, Tensor out) {
  return unary(self, out, at::isposinf_out, Result::Bool);
}

Work Log(Tensor self, Tensor out) {
  return unary(self, out, at::log_out, Result::PromotedFloat);
}
Work InplaceLog(Tensor selfRef) {
  return Log(selfRef, selfRef);
}

Work Log10(Tensor self, Tensor out) {
  return unary(self, out, at::log10_out, Result::PromotedFloat);
}
Work InplaceLog10(Tensor selfRef) {
  return Log10(selfRef, selfRef);
}

Work Log1p(Tensor self, Tensor out) {
  return unary(self, out, at::log1p_out, Result::PromotedFloat);
}
Work InplaceLog1p(Tensor selfRef) {
  return Log1p(selfRef, selfRef);
}

Work Log2(Tensor self, Tensor out) {
  return unary(self, out, at::log2_out, Result::PromotedFloat);
}
Work InplaceLog2(Tensor selfRef) {
  return Log2(selfRef, selfRef);
}

Work LogicalNot(Tensor self, Tensor out) {
  return unary(self, out, at::logical_not_out, Result::Bool);
}
Work InplaceLogicalNot(Tensor selfRef) {
  return LogicalNot(selfRef, selfRef);
}

Work Neg(Tensor self, Tensor out) {
  return unary(self, out, at::neg_out);
}

Work Reciprocal(Tensor self, Tensor out) {
  return unary(self, out, at::reciprocal_out, Result::PromotedFloat);
}
Work InplaceReciprocal(Tensor selfRef) {
  return Reciprocal(selfRef, selfRef);
}

Work Round(Tensor self, Tensor out) {
  return unary(self, out, at::round_out);
}

Work Rsqrt(Tensor self, Tensor out) {
  return unary(self, out, at::rsqrt_out, Result::PromotedFloat);
}
Work InplaceRsqrt(Tensor selfRef) {
  return Rsqrt(selfRef, selfRef);
}

Work Sigmoid(Tensor self, Tensor out) {
  return unary(self, out, at::sigmoid_out, Result::PromotedFloat);
}
Work InplaceSigmoid(Tensor selfRef) {
  return Sigmoid(selfRef, selfRef);
}

Work Sign(Tensor self, Tensor result) {
  return unary(self, result, at::sign_out);
}

Work Signbit(Tensor self, Tensor out) {
  return unary(self, out, at::signbit_out, Result::Bool);
}

Work Sin(Tensor self, Tensor out) {
  return unary(self, out, at::sin_out, Result::PromotedFloat);
}
Work InplaceSin(Tensor selfRef) {
  return Sin(selfRef, selfRef);
}

Work Sinc(Tensor self, Tensor out) {
  return unary(self, out, at::sinc_out, Result::PromotedFloat);
}
Work InplaceSinc(Tensor selfRef) {
  return Sinc(selfRef, selfRef);
}

Work Sinh(Tensor self, Tensor out) {
  return unary(self, out, at::sinh_out, Result::PromotedFloat);
}
Work InplaceSinh(Tensor selfRef) {
  return Sinh(selfRef, selfRef);
}

Work Sqrt(Tensor self, Tensor out) {
  return unary(self, out, at::sqrt_out, Result::PromotedFloat);
}
Work InplaceSqrt(Tensor self) {
  return Sqrt(self, self);
}

Work Tan(Tensor self, Tensor out) {
  return unary(self, out, at::tan_out, Result::PromotedFloat);
}
Work InplaceTan(Tensor selfRef) {
  return Tan(selfRef, selfRef);
}

Work Tanh(Tensor self, Tensor out) {
  return unary(self, out, at::tanh_out, Result::PromotedFloat);
}
Work InplaceTanh(Tensor selfRef) {
  return Tanh(selfRef, selfRef);
}

Work Trunc(Tensor self, Tensor out) {
  return unary(self, out, at::trunc_out);
}
Work Abs(Tensor self, Tensor out) {
  expectSameSizes("out", out, "self", self);
  return [=]() mutable {
    writeAs(out, c10::toRealValueType(self.scalar_type()), [&](Tensor& target) {
      at::abs_out(target, self);
    });
  };
}

Work Frac(Tensor input, Tensor out) {
  if (c10::isIntegralType(input.scalar_type(), /*includeBool=*/true)) {
    expectSameSizes("out", out, "input", input);
    return [=] { out.zero_(); };
  }
  return unary(input, out, at::frac_out);
}
Work InplaceFrac(Tensor inputRef) {
  return Frac(inputRef, inputRef);
}

Work IsFinite(Tensor self, Tensor out) {
  expectSameSizes("out", out, "self", self);
  return [=] { out.copy_(at::isfinite(self)); };
}

Work RoundDecimals(Tensor self, int64_t decimals, Tensor out) {
  expectSameSizes("out", out, "self", self);
  return [=]() mutable {
    writeAs(out, self.scalar_type(), [&](Tensor& target) {
      at::round_out(target, self, decimals);
    });
  };
}
Work InplaceRoundDecimals(Tensor selfRef, int64_t decimals) {
  return RoundDecimals(selfRef, decimals, selfRef);
}

Work NanToNum(Tensor self, float nan, float posinf, float neginf, Tensor out) {
  expectSameSizes("out", out, "self", self);
  return [=]() mutable {
    writeAs(out, self.scalar_type(), [&](Tensor& target) {
      at::nan_to_num_out(target, self, nan, posinf, neginf);
    });
  };
}
Work InplaceNanToNum(Tensor selfRef, float nan, float posinf, float neginf) {
  return NanToNum(selfRef, nan, posinf, neginf, selfRef);
}

}  // namespace npu_emulator::ops
