// Functions of one tensor over lists of tensors.
#include "emulator/ops/Foreach.h"

namespace npu_emulator::ops {

Work Abs(Tensor, Tensor);
Work Acos(Tensor, Tensor);
Work Asin(Tensor, Tensor);
Work Atan(Tensor, Tensor);
Work Cos(Tensor, Tensor);
Work Cosh(Tensor, Tensor);
Work Erf(Tensor, Tensor);
Work Erfc(Tensor, Tensor);
Work Exp(Tensor, Tensor);
Work Expm1(Tensor, Tensor);
Work Log(Tensor, Tensor);
Work Log10(Tensor, Tensor);
Work Log1p(Tensor, Tensor);
Work Log2(Tensor, Tensor);
Work Neg(Tensor, Tensor);
Work Reciprocal(Tensor, Tensor);
Work Sigmoid(Tensor, Tensor);
Work Sign(Tensor, Tensor);
Work Sin(Tensor, Tensor);
Work Sinh(Tensor, Tensor);
Work Sqrt(Tensor, Tensor);
Work Tan(Tensor, Tensor);
Work Tanh(Tensor, Tensor);

Work ForeachAbs(Tensors x, Tensors out) {
  return each(Abs, x, out);
}

Work ForeachAcos(Tensors x, Tensors out) {
  return each(Acos, x, out);
}

Work ForeachAsin(Tensors x, Tensors out) {
  return each(Asin, x, out);
}

Work ForeachAtan(Tensors x, Tensors out) {
  return each(Atan, x, out);
}

Work ForeachCos(Tensors x, Tensors out) {
  return each(Cos, x, out);
}

Work ForeachCosh(Tensors x, Tensors out) {
  return each(Cosh, x, out);
}

Work ForeachErf(Tensors x, Tensors out) {
  return each(Erf, x, out);
}

Work ForeachErfc(Tensors x, Tensors out) {
  return each(Erfc, x, out);
}

Work ForeachExp(Tensors x, Tensors out) {
  return each(Exp, x, out);
}

Work ForeachExpm1(Tensors x, Tensors out) {
  return each(Expm1, x, out);
}

Work ForeachLog(Tensors x, Tensors out) {
  return each(Log, x, out);
}

Work ForeachLog10(Tensors x, Tensors out) {
  return each(Log10, x, out);
}

Work ForeachLog1p(Tensors x, Tensors out) {
  return each(Log1p, x, out);
}

Work ForeachLog2(Tensors x, Tensors out) {
  return each(Log2, x, out);
}

Work ForeachNeg(Tensors x, Tensors out) {
  return each(Neg, x, out);
}

Work ForeachReciprocal(Tensors x, Tensors out) {
  return each(Reciprocal, x, out);
}

Work ForeachSigmoid(Tensors x, Tensors out) {
  return each(Sigmoid, x, out);
}

Work ForeachSign(Tensors x, Tensors out) {
  return each(Sign, x, out);
}

Work ForeachSin(Tensors x, Tensors out) {
  return each(Sin, x, out);
}

Work ForeachSinh(Tensors x, Tensors out) {
  return each(Sinh, x, out);
}

Work ForeachSqrt(Tensors x, Tensors out) {
  return each(Sqrt, x, out);
}

Work ForeachTan(Tensors x, Tensors out) {
  return each(Tan, x, out);
}

Work ForeachTanh(Tensors x, Tensors out) {
  return each(Tanh, x, out);
}

}  // namespace npu_emulator::ops
