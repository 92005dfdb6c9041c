// Random numbers: kernels over aclnn's Philox functions, and generators for CPU kernels that stand
// in.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <optional>
#include <tuple>

namespace torch_npu::aten {

// A CPU generator whose seed is drawn from an npu generator (the device's default one if none is
// given): CPU kernels that stand in for npu ones obey torch.npu.manual_seed and advance its state.
at::Generator hostGenerator(const std::optional<at::Generator>& generator, c10::Device device);

// Kernels, named as their ATen operators.
at::Tensor& normal_(
    at::Tensor& self, double mean, double std, std::optional<at::Generator> generator);
at::Tensor& uniform_(
    at::Tensor& self, double from, double to, std::optional<at::Generator> generator);
at::Tensor& random_(at::Tensor& self, std::optional<at::Generator> generator);
at::Tensor& random_to(at::Tensor& self, int64_t to, std::optional<at::Generator> generator);
at::Tensor& random_from(
    at::Tensor& self, int64_t from, std::optional<int64_t> to,
    std::optional<at::Generator> generator);
at::Tensor& bernoulli_float(
    at::Tensor& self, double p, std::optional<at::Generator> generator);
at::Tensor& bernoulli_Tensor(
    at::Tensor& self, const at::Tensor& p, std::optional<at::Generator> generator);
at::Tensor& bernoulli_out(
    const at::Tensor& self, std::optional<at::Generator> generator, at::Tensor& out);
at::Tensor& randperm_generator_out(
    int64_t n, std::optional<at::Generator> generator, at::Tensor& out);
std::tuple<at::Tensor, at::Tensor> native_dropout(
    const at::Tensor& input, double p, std::optional<bool> train);
at::Tensor native_dropout_backward(
    const at::Tensor& gradOutput, const at::Tensor& mask, double scale);

}  // namespace torch_npu::aten
