// Copies, conversions and fills.
#include "emulator/ops/Kernel.h"

#include <ATen/ops/eye.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/logspace.h>
#include <ATen/ops/range.h>

#include <cmath>

namespace npu_emulator::ops {

namespace {

void expectBroadcast(const char* name, const Tensor& from, const Tensor& to) {
  if (broadcastSizes(from.sizes(), to.sizes()) != to.sizes().vec()) {
    refuse(std::string(name) + " has more elements than it can be broadcast to in selfRef");
  }
}

int64_t rangeLength(const Scalar& start, const Scalar& end, const Scalar& step, bool inclusive) {
  const bool integral = start.isIntegral(true) && end.isIntegral(true) && step.isIntegral(true);
  if (step.to<double>() == 0) {
    refuse("step must not be 0");
  }
  if (integral) {
    const int64_t span = end.to<int64_t>() - start.to<int64_t>();
    const int64_t stride = step.to<int64_t>();
    const int64_t whole = span / stride;
    return inclusive ? whole + 1 : whole + (span % stride != 0 ? 1 : 0);
  }
  const double steps = (end.to<double>() - start.to<double>()) / step.to<double>();
  return static_cast<int64_t>(inclusive ? std::floor(steps) + 1 : std::ceil(steps));
}

}  // namespace

Work InplaceCopy(Tensor selfRef, Tensor src) {
  expectBroadcast("src", src, selfRef);
  return [=] { selfRef.copy_(src); };
}

Work Cast(Tensor self, ScalarType dtype, Tensor out) {
  expectType("out", out, dtype);
  expectSameSizes("out", out, "self", self);
  return [=] { out.copy_(self); };
}

Work InplaceFillScalar(Tensor selfRef, Scalar value) {
  return [=] { selfRef.fill_(value); };
}

Work InplaceFillTensor(Tensor selfRef, Tensor value) {
  if (value.numel() != 1) {
    refuse("value must have one element, got " + std::to_string(value.numel()));
  }
  return [=] { selfRef.copy_(value.reshape({}).expand(selfRef.sizes())); };
}

Work InplaceZero(Tensor selfRef) {
  return [=] { selfRef.zero_(); };
}

Work InplaceOne(Tensor selfRef) {
  return [=] { selfRef.fill_(1); };
}

Work InplaceFillDiagonal(Tensor selfRef, Scalar fillValue, bool wrap) {
  return [=] { selfRef.fill_diagonal_(fillValue, wrap); };
}

Work Arange(Scalar start, Scalar end, Scalar step, Tensor out) {
  expectSizes("out", out, {rangeLength(start, end, step, /*inclusive=*/false)});
  return [=]() mutable { at::arange_out(out, start, end, step); };
}

Work Range(Scalar start, Scalar end, Scalar step, Tensor out) {
  expectSizes("out", out, {rangeLength(start, end, step, /*inclusive=*/true)});
  return [=]() mutable { at::range_out(out, start, end, step); };
}

Work Linspace(Scalar start, Scalar end, int64_t steps, Tensor out) {
  expectSizes("out", out, {steps});
  return [=]() mutable { at::linspace_out(out, start, end, steps); };
}

Work LogSpace(Scalar start, Scalar end, int64_t steps, double base, Tensor result) {
  expectSizes("result", result, {steps});
  return [=]() mutable { at::logspace_out(result, start, end, steps, base); };
}

Work Eye(int64_t n, int64_t m, Tensor out) {
  expectSizes("out", out, {n, m});
  return [=]() mutable { at::eye_out(out, n, m); };
}

}  // namespace npu_emulator::ops
