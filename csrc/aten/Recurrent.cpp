#include "aten/Recurrent.h"

#include <ATen/ops/add.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/chunk.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/rsub.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sub.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/tanh.h>

#include "aten/Launch.h"

namespace torch_npu::aten {
namespace {

bool present(const std::optional<at::Tensor>& tensor) {
  return tensor.has_value() && tensor->defined();
}

at::Tensor withBias(const at::Tensor& gates, const std::optional<at::Tensor>& bias) {
  return present(bias) ? gates.add(*bias) : gates;
}

// Derivatives as functions of the value.
at::Tensor sigmoidSlope(const at::Tensor& y) {
  return y.mul(at::rsub(y, 1));
}
at::Tensor tanhSlope(const at::Tensor& y) {
  return at::rsub(y.mul(y), 1);
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor> _thnn_fused_lstm_cell(
    const at::Tensor& inputGates, const at::Tensor& hiddenGates, const at::Tensor& cx,
    const std::optional<at::Tensor>& inputBias, const std::optional<at::Tensor>& hiddenBias) {
  const OnDevice scope(cx);
  const auto gates =
      withBias(inputGates, inputBias).add(withBias(hiddenGates, hiddenBias)).chunk(4, 1);
  const at::Tensor input = gates[0].sigmoid();
  const at::Tensor forget = gates[1].sigmoid();
  const at::Tensor cell = gates[2].tanh();
  const at::Tensor output = gates[3].sigmoid();
  const at::Tensor cy = forget.mul(cx).add_(input.mul(cell));
  const at::Tensor hy = output.mul(cy.tanh());
  return {hy, cy, at::cat({input, forget, cell, output}, 1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> _thnn_fused_lstm_cell_backward_impl(
    const std::optional<at::Tensor>& gradHy, const std::optional<at::Tensor>& gradCy,
    const at::Tensor& cx, const at::Tensor& cy, const at::Tensor& workspace, bool hasBias) {
  if (!present(gradHy) && !present(gradCy)) {
    return {};
  }
  const OnDevice scope(cx);
  const auto gates = workspace.chunk(4, 1);
  const at::Tensor& input = gates[0];
  const at::Tensor& forget = gates[1];
  const at::Tensor& cell = gates[2];
  const at::Tensor& output = gates[3];
  at::Tensor gradCell = present(gradCy) ? *gradCy : at::Tensor();
  at::Tensor gradOutput;
  const at::Tensor squashed = cy.tanh();
  if (present(gradHy)) {
    const at::Tensor through = gradHy->mul(output).mul_(tanhSlope(squashed));
    gradCell = gradCell.defined() ? gradCell.add(through) : through;
    gradOutput = gradHy->mul(squashed).mul_(sigmoidSlope(output));
  } else {
    gradOutput = output.mul(0);
  }
  const at::Tensor gradGates = at::cat(
      {gradCell.mul(cell).mul_(sigmoidSlope(input)), gradCell.mul(cx).mul_(sigmoidSlope(forget)),
       gradCell.mul(input).mul_(tanhSlope(cell)), gradOutput},
      1);
  return {
      gradGates, gradCell.mul(forget),
      hasBias ? gradGates.sum(0, /*keepdim=*/false) : at::Tensor()};
}

std::tuple<at::Tensor, at::Tensor> _thnn_fused_gru_cell(
    const at::Tensor& inputGates, const at::Tensor& hiddenGates, const at::Tensor& hx,
    const std::optional<at::Tensor>& inputBias, const std::optional<at::Tensor>& hiddenBias) {
  const OnDevice scope(hx);
  const auto fromInput = withBias(inputGates, inputBias).chunk(3, 1);
  const auto fromHidden = withBias(hiddenGates, hiddenBias).chunk(3, 1);
  const at::Tensor reset = fromInput[0].add(fromHidden[0]).sigmoid_();
  const at::Tensor update = fromInput[1].add(fromHidden[1]).sigmoid_();
  const at::Tensor candidate = fromInput[2].add(reset.mul(fromHidden[2])).tanh_();
  const at::Tensor hy = hx.sub(candidate).mul_(update).add_(candidate);
  return {hy, at::cat({reset, update, candidate, hx, fromHidden[2]}, 1)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>
_thnn_fused_gru_cell_backward(
    const at::Tensor& gradHy, const at::Tensor& workspace, bool hasBias) {
  const OnDevice scope(workspace);
  const auto saved = workspace.chunk(5, 1);
  const at::Tensor& reset = saved[0];
  const at::Tensor& update = saved[1];
  const at::Tensor& candidate = saved[2];
  const at::Tensor& hx = saved[3];
  const at::Tensor& hiddenCandidate = saved[4];  // with its bias
  const at::Tensor gradUpdate = hx.sub(candidate).mul_(gradHy).mul_(sigmoidSlope(update));
  const at::Tensor gradCandidate = gradHy.mul(at::rsub(update, 1)).mul_(tanhSlope(candidate));
  const at::Tensor gradReset = gradCandidate.mul(hiddenCandidate).mul_(sigmoidSlope(reset));
  const at::Tensor gradInputGates = at::cat({gradReset, gradUpdate, gradCandidate}, 1);
  const at::Tensor gradHiddenGates =
      at::cat({gradReset, gradUpdate, gradCandidate.mul(reset)}, 1);
  const auto biasGrad = [&](const at::Tensor& grad) {
    return hasBias ? grad.sum(0, /*keepdim=*/false) : at::Tensor();
  };
  return {
      gradInputGates, gradHiddenGates, gradHy.mul(update), biasGrad(gradInputGates),
      biasGrad(gradHiddenGates)};
}

}  // namespace torch_npu::aten
