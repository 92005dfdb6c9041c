// Cells of LSTM and GRU. PyTorch asks for these fused operators on every device but the CPU, which
// has no kernel that could stand in; here they are made of pointwise operators.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace torch_npu::aten {

// Kernels, named as their ATen operators. Gates are [batch, 4 * hidden] in the order input, forget,
// cell, output (LSTM), or [batch, 3 * hidden] in the order reset, update, new (GRU).
std::tuple<at::Tensor, at::Tensor, at::Tensor> _thnn_fused_lstm_cell(
    const at::Tensor& inputGates, const at::Tensor& hiddenGates, const at::Tensor& cx,
    const std::optional<at::Tensor>& inputBias, const std::optional<at::Tensor>& hiddenBias);
std::tuple<at::Tensor, at::Tensor, at::Tensor> _thnn_fused_lstm_cell_backward_impl(
    const std::optional<at::Tensor>& gradHy, const std::optional<at::Tensor>& gradCy,
    const at::Tensor& cx, const at::Tensor& cy, const at::Tensor& workspace, bool hasBias);
std::tuple<at::Tensor, at::Tensor> _thnn_fused_gru_cell(
    const at::Tensor& inputGates, const at::Tensor& hiddenGates, const at::Tensor& hx,
    const std::optional<at::Tensor>& inputBias, const std::optional<at::Tensor>& hiddenBias);
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>
_thnn_fused_gru_cell_backward(
    const at::Tensor& gradHy, const at::Tensor& workspace, bool hasBias);

}  // namespace torch_npu::aten
