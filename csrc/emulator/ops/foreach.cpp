// Arithmetic over lists of tensors.
#include "emulator/ops/Foreach.h"

#include <ATen/ops/linalg_vector_norm.h>

namespace npu_emulator::ops {

Work Add(Tensor, Tensor, Scalar, Tensor);
Work Adds(Tensor, Scalar, Scalar, Tensor);
Work Addcdiv(Tensor, Tensor, Tensor, Scalar, Tensor);
Work Addcmul(Tensor, Tensor, Tensor, Scalar, Tensor);
Work ClampMax(Tensor, Scalar, Tensor);
Work ClampMin(Tensor, Scalar, Tensor);
Work Div(Tensor, Tensor, Tensor);
Work Divs(Tensor, Scalar, Tensor);
Work InplaceCopy(Tensor, Tensor);
Work InplaceZero(Tensor);
Work Lerp(Tensor, Tensor, Tensor, Tensor);
Work Lerps(Tensor, Tensor, Scalar, Tensor);
Work Maximum(Tensor, Tensor, Tensor);
Work Minimum(Tensor, Tensor, Tensor);
Work Mul(Tensor, Tensor, Tensor);
Work Muls(Tensor, Scalar, Tensor);
Work PowScalarTensor(Scalar, Tensor, Tensor);
Work PowTensorScalar(Tensor, Scalar, Tensor);
Work PowTensorTensor(Tensor, Tensor, Tensor);
Work Sub(Tensor, Tensor, Scalar, Tensor);
Work Subs(Tensor, Scalar, Scalar, Tensor);

namespace {

Work addScalar(Tensor self, Scalar other, Tensor out) { return Adds(self, other, 1, out); }

Work subScalar(Tensor self, Scalar other, Tensor out) { return Subs(self, other, 1, out); }

Work copyTo(Tensor source, Tensor target) { return InplaceCopy(target, source); }

// The entries of a tensor that holds one number for each tensor of a list. Phase 2.
Scalars numbersOf(const Tensor& scalars) {
  Scalars numbers;
  for (const int64_t i : c10::irange(scalars.numel())) {
    numbers.push_back(scalars[i].item());
  }
  return numbers;
}

template <class Kernel>
Work eachWithNumbers(
    Kernel kernel, const Tensors& x1, const Tensors& x2, const Tensors& x3, const Tensor& scalars,
    const Tensors& out) {
  expectDim("scalars", scalars, 1);
  eachOf(kernel, x1, x2, x3, Scalars(static_cast<std::size_t>(scalars.numel()), 1), out);
  return [=] { eachOf(kernel, x1, x2, x3, numbersOf(scalars), out)(); };
}

}  // namespace

Work ForeachAddList(Tensors x1, Tensors x2, Tensor alpha, Tensors out) {
  return each(Add, x1, x2, alpha, out);
}

Work ForeachAddListV2(Tensors x1, Tensors x2, Scalar alpha, Tensors out) {
  return each(Add, x1, x2, alpha, out);
}

Work ForeachAddScalar(Tensors x, Tensor scalar, Tensors out) {
  return each(addScalar, x, scalar, out);
}

Work ForeachAddScalarV2(Tensors x, Scalar scalar, Tensors out) {
  return each(addScalar, x, scalar, out);
}

Work ForeachAddScalarList(Tensors x, Scalars scalars, Tensors out) {
  return each(addScalar, x, scalars, out);
}

Work ForeachSubList(Tensors x1, Tensors x2, Tensor alpha, Tensors out) {
  return each(Sub, x1, x2, alpha, out);
}

Work ForeachSubListV2(Tensors x1, Tensors x2, Scalar alpha, Tensors out) {
  return each(Sub, x1, x2, alpha, out);
}

Work ForeachSubScalar(Tensors x, Tensor scalar, Tensors out) {
  return each(subScalar, x, scalar, out);
}

Work ForeachSubScalarV2(Tensors x, Scalar scalar, Tensors out) {
  return each(subScalar, x, scalar, out);
}

Work ForeachSubScalarList(Tensors x, Scalars scalars, Tensors out) {
  return each(subScalar, x, scalars, out);
}

Work ForeachMulList(Tensors x1, Tensors x2, Tensors out) {
  return each(Mul, x1, x2, out);
}

Work ForeachMulScalar(Tensors x, Tensor scalar, Tensors out) {
  return each(Muls, x, scalar, out);
}

Work ForeachMulScalarV2(Tensors x, Scalar scalar, Tensors out) {
  return each(Muls, x, scalar, out);
}

Work ForeachMulScalarList(Tensors x, Scalars scalars, Tensors out) {
  return each(Muls, x, scalars, out);
}

Work ForeachDivList(Tensors x1, Tensors x2, Tensors out) {
  return each(Div, x1, x2, out);
}

Work ForeachDivScalar(Tensors x, Tensor scalar, Tensors out) {
  return each(Divs, x, scalar, out);
}

Work ForeachDivScalarV2(Tensors x, Scalar scalar, Tensors out) {
  return each(Divs, x, scalar, out);
}

Work ForeachDivScalarList(Tensors x, Scalars scalars, Tensors out) {
  return each(Divs, x, scalars, out);
}

Work ForeachMaximumList(Tensors x1, Tensors x2, Tensors out) {
  return each(Maximum, x1, x2, out);
}

Work ForeachMaximumScalar(Tensors x, Tensor scalar, Tensors out) {
  return each(ClampMin, x, scalar, out);
}

Work ForeachMaximumScalarV2(Tensors x, Scalar scalar, Tensors out) {
  return each(ClampMin, x, scalar, out);
}

Work ForeachMaximumScalarList(Tensors x, Scalars scalars, Tensors out) {
  return each(ClampMin, x, scalars, out);
}

Work ForeachMinimumList(Tensors x1, Tensors x2, Tensors out) {
  return each(Minimum, x1, x2, out);
}

Work ForeachMinimumScalar(Tensors x, Tensor scalar, Tensors out) {
  return each(ClampMax, x, scalar, out);
}

Work ForeachMinimumScalarV2(Tensors x, Scalar scalar, Tensors out) {
  return each(ClampMax, x, scalar, out);
}

Work ForeachMinimumScalarList(Tensors x, Scalars scalars, Tensors out) {
  return each(ClampMax, x, scalars, out);
}

Work ForeachPowList(Tensors x1, Tensors x2, Tensors out) {
  return each(PowTensorTensor, x1, x2, out);
}

Work ForeachPowScalar(Tensors x, Tensor scalar, Tensors out) {
  return each(PowTensorScalar, x, scalar, out);
}

Work ForeachPowScalarV2(Tensors x, Scalar scalar, Tensors out) {
  return each(PowTensorScalar, x, scalar, out);
}

Work ForeachPowScalarList(Tensors x, Scalars scalars, Tensors out) {
  return each(PowTensorScalar, x, scalars, out);
}

Work ForeachPowScalarAndTensor(Scalar scalar, Tensors x, Tensors out) {
  return each(PowScalarTensor, scalar, x, out);
}
Work ForeachAddcdivScalar(Tensors x1, Tensors x2, Tensors x3, Tensor scalar, Tensors out) {
  return each(Addcdiv, x1, x2, x3, scalar, out);
}

Work ForeachAddcdivScalarV2(Tensors x1, Tensors x2, Tensors x3, Scalar scalar, Tensors out) {
  return each(Addcdiv, x1, x2, x3, scalar, out);
}

Work ForeachAddcdivScalarList(Tensors x1, Tensors x2, Tensors x3, Tensor scalars, Tensors out) {
  return eachWithNumbers(Addcdiv, x1, x2, x3, scalars, out);
}

Work ForeachAddcmulScalar(Tensors x1, Tensors x2, Tensors x3, Tensor scalar, Tensors out) {
  return each(Addcmul, x1, x2, x3, scalar, out);
}

Work ForeachAddcmulScalarV2(Tensors x1, Tensors x2, Tensors x3, Scalar scalar, Tensors out) {
  return each(Addcmul, x1, x2, x3, scalar, out);
}

Work ForeachAddcmulScalarList(Tensors x1, Tensors x2, Tensors x3, Tensor scalars, Tensors out) {
  return eachWithNumbers(Addcmul, x1, x2, x3, scalars, out);
}

Work ForeachLerpList(Tensors x1, Tensors x2, Tensors weight, Tensors out) {
  return each(Lerp, x1, x2, weight, out);
}

Work ForeachLerpScalar(Tensors x1, Tensors x2, Scalar weight, Tensors out) {
  return each(Lerps, x1, x2, weight, out);
}

Work ForeachCopy(Tensors x, Tensors out) {
  return each(copyTo, x, out);
}

Work ForeachZeroInplace(Tensors x) {
  return each(InplaceZero, x);
}

namespace {

Work normOf(Tensor self, Scalar order, Tensor out) {
  if (out.numel() != 1) {
    refuse("a norm is one number, out has " + std::to_string(out.numel()) + " elements");
  }
  return [=] { out.fill_(at::linalg_vector_norm(self, order)); };
}

}  // namespace

Work ForeachNorm(Tensors x, Scalar scalar, Tensors out) {
  return each(normOf, x, scalar, out);
}

// Multiplies all gradients by invScale; foundInf becomes 1 if one of them is not finite.
Work ForeachNonFiniteCheckAndUnscale(Tensors scaledGrads, Tensor foundInf, Tensor invScale) {
  for (const Tensor* flag : {&foundInf, &invScale}) {
    if (flag->numel() != 1) {
      refuse("foundInf and invScale must have one element each");
    }
  }
  return [=] {
    for (const Tensor& grad : scaledGrads) {
      if (!grad.isfinite().all().item<bool>()) {
        foundInf.fill_(1);
      }
      grad.mul_(invScale.reshape({}));
    }
  };
}

}  // namespace npu_emulator::ops
