// Arithmetic of two operands.
#include "emulator/ops/Pointwise.h"

#include <ATen/ScalarOps.h>
#include <ATen/ops/add.h>
#include <ATen/ops/atan2.h>
#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/bitwise_left_shift.h>
#include <ATen/ops/bitwise_or.h>
#include <ATen/ops/bitwise_right_shift.h>
#include <ATen/ops/bitwise_xor.h>
#include <ATen/ops/div.h>
#include <ATen/ops/floor_divide.h>
#include <ATen/ops/fmod.h>
#include <ATen/ops/gcd.h>
#include <ATen/ops/logaddexp.h>
#include <ATen/ops/logaddexp2.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/remainder.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/rsub.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/xlogy.h>

namespace npu_emulator::ops {

namespace {

// An operand that counts as a number in type promotion. The overloads of ATen that take a Scalar
// and an out do not convert to the type of out.
Tensor number(const Scalar& value) { return at::native::wrapped_scalar_tensor(value); }

}  // namespace

Work Mul(Tensor self, Tensor other, Tensor out) {
  return binary(self, other, out, at::mul_out);
}
Work InplaceMul(Tensor selfRef, Tensor other) {
  return Mul(selfRef, other, selfRef);
}

Work Muls(Tensor self, Scalar other, Tensor out) {
  return binary(self, number(other), out, at::mul_out);
}
Work InplaceMuls(Tensor selfRef, Scalar other) {
  return Muls(selfRef, other, selfRef);
}

Work Div(Tensor self, Tensor other, Tensor out) {
  return binary(self, other, out, at::div_out, Result::PromotedFloat);
}
Work InplaceDiv(Tensor selfRef, Tensor other) {
  return Div(selfRef, other, selfRef);
}

Work Divs(Tensor self, Scalar other, Tensor out) {
  return binary(self, number(other), out, at::div_out, Result::PromotedFloat);
}
Work InplaceDivs(Tensor selfRef, Scalar other) {
  return Divs(selfRef, other, selfRef);
}

Work FloorDivide(Tensor self, Tensor other, Tensor out) {
  return binary(self, other, out, at::floor_divide_out);
}
Work InplaceFloorDivide(Tensor selfRef, Tensor other) {
  return FloorDivide(selfRef, other, selfRef);
}

Work FmodTensor(Tensor self, Tensor other, Tensor out) {
  return binary(self, other, out, at::fmod_out);
}
Work InplaceFmodTensor(Tensor selfRef, Tensor other) {
  return FmodTensor(selfRef, other, selfRef);
}

Work FmodScalar(Tensor self, Scalar other, Tensor out) {
  return binary(self, other, out, at::fmod_out);
}
Work InplaceFmodScalar(Tensor selfRef, Scalar other) {
  return FmodScalar(selfRef, other, selfRef);
}

Work RemainderTensorTensor(Tensor self, Tensor other, Tensor out) {
  return binary(self, other, out, at::remainder_out);
}
Work InplaceRemainderTensorTensor(Tensor selfRef, Tensor other) {
  return RemainderTensorTensor(selfRef, other, selfRef);
}

Work RemainderTensorScalar(Tensor self, Scalar other, Tensor out) {
  return binary(self, other, out, at::remainder_out);
}
Work InplaceRemainderTensorScalar(Tensor selfRef, Scalar other) {
  return RemainderTensorScalar(selfRef, other, selfRef);
}

Work RemainderScalarTensor(Scalar self, Tensor other, Tensor out) {
  return binary(self, other, out, at::remainder_out);
}

Work PowTensorTensor(Tensor self, Tensor exponent, Tensor out) {
  return binary(self, exponent, out, at::pow_out);
}
Work InplacePowTensorTensor(Tensor self, Tensor exponent) {
  return PowTensorTensor(self, exponent, self);
}

Work PowTensorScalar(Tensor self, Scalar exponent, Tensor out) {
  return binary(self, exponent, out, at::pow_out);
}
Work InplacePowTensorScalar(Tensor self, Scalar exponent) {
  return PowTensorScalar(self, exponent, self);
}

Work PowScalarTensor(Scalar self, Tensor exponent, Tensor out) {
  return binary(self, exponent, out, at::pow_out);
}

Work Maximum(Tensor self, Tensor other, Tensor out) {
  return binary(self, other, out, at::maximum_out);
}

Work Minimum(Tensor self, Tensor other, Tensor out) {
  return binary(self, other, out, at::minimum_out);
}

Work Atan2(Tensor self, Tensor other, Tensor out) {
  return binary(self, other, out, at::atan2_out, Result::PromotedFloat);
}
Work InplaceAtan2(Tensor selfRef, Tensor other) {
  return Atan2(selfRef, other, selfRef);
}

Work LogAddExp(Tensor self, Tensor other, Tensor out) {
  return binary(self, other, out, at::logaddexp_out);
}

Work LogAddExp2(Tensor self, Tensor other, Tensor out) {
  return binary(self, other, out, at::logaddexp2_out);
}

Work XLogYTensor(Tensor self, Tensor other, Tensor out) {
  return binary(self, other, out, at::xlogy_out, Result::PromotedFloat);
}

Work XLogYScalarOther(Tensor self, Scalar other, Tensor out) {
  return binary(self, other, out, at::xlogy_out, Result::PromotedFloat);
}
Work InplaceXLogYScalarOther(Tensor selfRef, Scalar other) {
  return XLogYScalarOther(selfRef, other, selfRef);
}

Work XLogYScalarSelf(Scalar self, Tensor other, Tensor out) {
  return binary(self, other, out, at::xlogy_out, Result::PromotedFloat);
}

Work Gcd(Tensor self, Tensor other, Tensor out) {
  return binary(self, other, out, at::gcd_out);
}

Work BitwiseAndTensor(Tensor self, Tensor other, Tensor out) {
  return binary(self, other, out, at::bitwise_and_out);
}
Work InplaceBitwiseAndTensor(Tensor selfRef, Tensor other) {
  return BitwiseAndTensor(selfRef, other, selfRef);
}

Work BitwiseAndScalar(Tensor self, Scalar other, Tensor out) {
  return binary(self, other, out, at::bitwise_and_out);
}
Work InplaceBitwiseAndScalar(Tensor selfRef, Scalar other) {
  return BitwiseAndScalar(selfRef, other, selfRef);
}

Work BitwiseOrTensor(Tensor self, Tensor other, Tensor out) {
  return binary(self, other, out, at::bitwise_or_out);
}

Work BitwiseOrScalar(Tensor self, Scalar other, Tensor out) {
  return binary(self, other, out, at::bitwise_or_out);
}

Work BitwiseXorTensor(Tensor self, Tensor other, Tensor out) {
  return binary(self, other, out, at::bitwise_xor_out);
}
Work InplaceBitwiseXorTensor(Tensor selfRef, Tensor other) {
  return BitwiseXorTensor(selfRef, other, selfRef);
}

Work BitwiseXorScalar(Tensor self, Scalar other, Tensor out) {
  return binary(self, other, out, at::bitwise_xor_out);
}
Work InplaceBitwiseXorScalar(Tensor selfRef, Scalar other) {
  return BitwiseXorScalar(selfRef, other, selfRef);
}

Work LeftShift(Tensor self, Tensor shiftBits, Tensor out) {
  return binary(self, shiftBits, out, at::bitwise_left_shift_out);
}

Work LeftShifts(Tensor self, Scalar shiftBits, Tensor out) {
  return binary(self, shiftBits, out, at::bitwise_left_shift_out);
}

Work RightShift(Tensor input, Tensor shiftBits, Tensor out) {
  return binary(input, shiftBits, out, at::bitwise_right_shift_out);
}
Work Add(Tensor self, Tensor other, Scalar alpha, Tensor out) {
  expectBroadcastOut(out, {&self, &other});
  return [=]() mutable {
    const ScalarType type = at::result_type(self, other);
    const Scalar factor = factorFor(type, alpha);
    writeAs(out, type, [&](Tensor& target) { at::add_out(target, self, other, factor); });
  };
}
Work InplaceAdd(Tensor selfRef, Tensor other, Scalar alpha) {
  return Add(selfRef, other, alpha, selfRef);
}

Work Adds(Tensor self, Scalar other, Scalar alpha, Tensor out) {
  expectSameSizes("out", out, "self", self);
  return [=]() mutable {
    const ScalarType type = at::result_type(self, other);
    const Scalar factor = factorFor(type, alpha);
    writeAs(out, type, [&](Tensor& target) { at::add_out(target, self, number(other), factor); });
  };
}
Work InplaceAdds(Tensor selfRef, Scalar other, Scalar alpha) {
  return Adds(selfRef, other, alpha, selfRef);
}

Work AddV3(Scalar self, Tensor other, Scalar alpha, Tensor out) {
  expectSameSizes("out", out, "other", other);
  return [=] {
    const Scalar factor = factorFor(at::result_type(self, other), alpha);
    out.copy_(at::add(at::mul(other, factor), self));
  };
}

Work AddRelu(Tensor self, Tensor other, Scalar alpha, Tensor out) {
  expectBroadcastOut(out, {&self, &other});
  return [=] {
    const Scalar factor = factorFor(at::result_type(self, other), alpha);
    out.copy_(at::relu(at::add(self, other, factor)));
  };
}
Work InplaceAddRelu(Tensor selfRef, Tensor other, Scalar alpha) {
  return AddRelu(selfRef, other, alpha, selfRef);
}

Work Sub(Tensor self, Tensor other, Scalar alpha, Tensor out) {
  expectBroadcastOut(out, {&self, &other});
  return [=]() mutable {
    const ScalarType type = at::result_type(self, other);
    const Scalar factor = factorFor(type, alpha);
    writeAs(out, type, [&](Tensor& target) { at::sub_out(target, self, other, factor); });
  };
}
Work InplaceSub(Tensor selfRef, Tensor other, Scalar alpha) {
  return Sub(selfRef, other, alpha, selfRef);
}

Work Subs(Tensor self, Scalar other, Scalar alpha, Tensor out) {
  expectSameSizes("out", out, "self", self);
  return [=]() mutable {
    const ScalarType type = at::result_type(self, other);
    const Scalar factor = factorFor(type, alpha);
    writeAs(out, type, [&](Tensor& target) { at::sub_out(target, self, number(other), factor); });
  };
}
Work InplaceSubs(Tensor selfRef, Scalar other, Scalar alpha) {
  return Subs(selfRef, other, alpha, selfRef);
}

// other - alpha * self
Work Rsub(Tensor self, Tensor other, Scalar alpha, Tensor out) {
  return Sub(other, self, alpha, out);
}

Work Rsubs(Tensor self, Scalar other, Scalar alpha, Tensor out) {
  expectSameSizes("out", out, "self", self);
  return [=] {
    const Scalar factor = factorFor(at::result_type(self, other), alpha);
    out.copy_(at::rsub(self, other, factor));
  };
}

Work FloorDivides(Tensor self, Scalar other, Tensor out) {
  expectSameSizes("out", out, "self", self);
  return [=] { out.copy_(at::floor_divide(self, other)); };
}
Work InplaceFloorDivides(Tensor selfRef, Scalar other) {
  return FloorDivides(selfRef, other, selfRef);
}

namespace {

// 0: true division, 1: towards zero, 2: towards minus infinity.
std::optional<c10::string_view> roundingMode(int mode) {
  switch (mode) {
    case 0:
      return std::nullopt;
    case 1:
      return "trunc";
    case 2:
      return "floor";
    default:
      refuse("mode is " + std::to_string(mode) + ", expected 0 (none), 1 (trunc) or 2 (floor)");
  }
}

}  // namespace

Work DivMod(Tensor self, Tensor other, int mode, Tensor out) {
  const auto rounding = roundingMode(mode);
  expectBroadcastOut(out, {&self, &other});
  return [=]() mutable {
    const auto type = resultType(
        at::result_type(self, other), rounding ? Result::Promoted : Result::PromotedFloat);
    writeAs(out, type, [&](Tensor& target) { at::div_out(target, self, other, rounding); });
  };
}
Work InplaceDivMod(Tensor selfRef, Tensor other, int mode) {
  return DivMod(selfRef, other, mode, selfRef);
}

Work DivMods(Tensor self, Scalar other, int mode, Tensor out) {
  const auto rounding = roundingMode(mode);
  expectSameSizes("out", out, "self", self);
  return [=] { out.copy_(at::div(self, other, rounding)); };
}
Work InplaceDivMods(Tensor selfRef, Scalar other, int mode) {
  return DivMods(selfRef, other, mode, selfRef);
}

}  // namespace npu_emulator::ops
