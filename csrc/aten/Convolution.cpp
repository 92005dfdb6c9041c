#include "aten/Convolution.h"

#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>

#include "aten/Copy.h"
#include "aten/Fallback.h"
#include "aten/Launch.h"

namespace torch_npu::aten {
namespace {

void checkDevices(
    const at::Tensor& input, const at::Tensor& other, const char* name) {
  TORCH_CHECK(
      other.device() == input.device(),
      "Expected all tensors to be on the same device, but found at least two devices, ",
      input.device(), " and ", other.device(), "! (", name, " of a convolution)");
}

}  // namespace

at::Tensor convolution_overrideable(
    const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
    at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
    at::IntArrayRef outputPadding, int64_t groups) {
  checkDevices(input, weight, "weight");
  std::optional<at::Tensor> hostBias;
  if (bias.has_value() && bias->defined()) {
    checkDevices(input, *bias, "bias");
    hostBias = toHost(*bias);
  }
  noteFallback("aten::convolution_overrideable");
  const OnDevice scope(input);
  at::Tensor result;
  {
    const at::Tensor hostInput = toHost(input);
    const at::Tensor hostWeight = toHost(weight);
    const HostKernelScope host;
    result = at::convolution(
        hostInput, hostWeight, hostBias, stride, padding, dilation, transposed, outputPadding,
        groups);
  }
  return toDevice(result, input.device());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolution_backward_overrideable(
    const at::Tensor& gradOutput, const at::Tensor& input, const at::Tensor& weight,
    at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
    at::IntArrayRef outputPadding, int64_t groups, std::array<bool, 3> outputMask) {
  checkDevices(gradOutput, input, "input");
  checkDevices(gradOutput, weight, "weight");
  noteFallback("aten::convolution_backward_overrideable");
  const OnDevice scope(input);
  std::tuple<at::Tensor, at::Tensor, at::Tensor> results;
  {
    const at::Tensor hostGrad = toHost(gradOutput);
    const at::Tensor hostInput = toHost(input);
    const at::Tensor hostWeight = toHost(weight);
    const std::array<int64_t, 1> biasSizes{transposed ? weight.size(1) * groups : weight.size(0)};
    const HostKernelScope host;
    results = at::convolution_backward(
        hostGrad, hostInput, hostWeight, at::IntArrayRef(biasSizes), stride, padding,
        dilation, transposed, outputPadding, groups, outputMask);
  }
  const auto moved = [&](const at::Tensor& tensor) {
    return tensor.defined() ? toDevice(tensor, input.device()) : tensor;
  };
  return {moved(std::get<0>(results)), moved(std::get<1>(results)), moved(std::get<2>(results))};
}

}  // namespace torch_npu::aten
