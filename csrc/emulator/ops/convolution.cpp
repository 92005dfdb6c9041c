// Convolutions and pooling.
#include "emulator/ops/Kernel.h"

#include <ATen/ops/_adaptive_avg_pool2d.h>
#include <ATen/ops/_adaptive_avg_pool2d_backward.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/avg_pool2d_backward.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/max_pool2d_with_indices.h>
#include <ATen/ops/max_pool2d_with_indices_backward.h>

#include <array>

namespace npu_emulator::ops {

namespace {

// The size of out is that of a result that is known only after the computation: checked then.
void writeChecked(const char* name, const Tensor& out, const Tensor& result) {
  TORCH_CHECK(
      out.sizes() == result.sizes(), name, " has shape ", out.sizes(), ", expected ",
      result.sizes());
  out.copy_(result);
}

}  // namespace

Work Convolution(
    Tensor input, Tensor weight, OptionalTensor bias, Ints stride, Ints padding, Ints dilation,
    bool transposed, Ints outputPadding, int64_t groups, Tensor output, int8_t /*cubeMathType*/) {
  if (weight.dim() != input.dim()) {
    refuse(
        "input has " + std::to_string(input.dim()) + " dimensions, weight has " +
        std::to_string(weight.dim()) + ", expected as many");
  }
  return [=] {
    writeChecked(
        "output", output,
        at::convolution(
            input, weight, bias, stride, padding, dilation, transposed, outputPadding, groups));
  };
}

Work ConvolutionBackward(
    Tensor gradOutput, Tensor input, Tensor weight, OptionalInts biasSizes, Ints stride,
    Ints padding, Ints dilation, bool transposed, Ints outputPadding, int groups, Bools outputMask,
    int8_t /*cubeMathType*/, OptionalTensor gradInput, OptionalTensor gradWeight,
    OptionalTensor gradBias) {
  if (outputMask.size() != 3) {
    refuse("outputMask has " + std::to_string(outputMask.size()) + " entries, expected 3");
  }
  const std::array<bool, 3> mask = {outputMask[0] != 0, outputMask[1] != 0, outputMask[2] != 0};
  const std::array<const OptionalTensor*, 3> gradients = {&gradInput, &gradWeight, &gradBias};
  for (std::size_t i = 0; i < 3; ++i) {
    if (mask[i] && !*gradients[i]) {
      refuse("gradient " + std::to_string(i) + " is null, but outputMask asks for it");
    }
  }
  return [=] {
    const auto sizes = biasSizes ? at::OptionalIntArrayRef(*biasSizes) : std::nullopt;
    const auto [toInput, toWeight, toBias] = at::convolution_backward(
        gradOutput, input, weight, sizes, stride, padding, dilation, transposed, outputPadding,
        groups, mask);
    if (mask[0]) {
      writeChecked("gradInput", *gradInput, toInput);
    }
    if (mask[1]) {
      writeChecked("gradWeight", *gradWeight, toWeight);
    }
    if (mask[2]) {
      writeChecked("gradBias", *gradBias, toBias);
    }
  };
}

Work AvgPool2d(
    Tensor self, Ints kernelSize, Ints strides, Ints paddings, bool ceilMode, bool countIncludePad,
    int64_t divisorOverride, int8_t /*cubeMathType*/, Tensor out) {
  return [=] {
    const auto divisor = divisorOverride == 0 ? std::nullopt : std::optional(divisorOverride);
    writeChecked(
        "out", out,
        at::avg_pool2d(self, kernelSize, strides, paddings, ceilMode, countIncludePad, divisor));
  };
}

Work AvgPool2dBackward(
    Tensor gradOutput, Tensor self, Ints kernelSize, Ints stride, Ints padding, bool ceilMode,
    bool countIncludePad, int64_t divisorOverride, int8_t /*cubeMathType*/, Tensor gradInput) {
  expectSameSizes("gradInput", gradInput, "self", self);
  return [=] {
    const auto divisor = divisorOverride == 0 ? std::nullopt : std::optional(divisorOverride);
    gradInput.copy_(at::avg_pool2d_backward(
        gradOutput, self, kernelSize, stride, padding, ceilMode, countIncludePad, divisor));
  };
}

Work AdaptiveAvgPool2d(Tensor self, Ints outputSize, Tensor out) {
  return [=] { writeChecked("out", out, at::_adaptive_avg_pool2d(self, outputSize)); };
}

Work AdaptiveAvgPool2dBackward(Tensor gradOutput, Tensor self, Tensor out) {
  expectSameSizes("out", out, "self", self);
  return [=] { out.copy_(at::_adaptive_avg_pool2d_backward(gradOutput, self)); };
}

Work MaxPool2dWithIndices(
    Tensor self, Ints kernelSize, Ints stride, Ints padding, Ints dilation, bool ceilMode,
    Tensor out, Tensor indices) {
  return [=] {
    const auto [values, places] =
        at::max_pool2d_with_indices(self, kernelSize, stride, padding, dilation, ceilMode);
    writeChecked("out", out, values);
    writeChecked("indices", indices, places);
  };
}

Work MaxPool2dWithIndicesBackward(
    Tensor gradOutput, Tensor self, Tensor indices, Ints kernelSize, Ints stride, Ints padding,
    Ints dilation, bool ceilMode, Tensor gradInput) {
  expectSameSizes("gradInput", gradInput, "self", self);
  return [=] {
    gradInput.copy_(at::max_pool2d_with_indices_backward(
        gradOutput, self, kernelSize, stride, padding, dilation, ceilMode, indices.to(at::kLong)));
  };
}

}  // namespace npu_emulator::ops
