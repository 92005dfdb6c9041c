// Operators whose result shares the memory of an argument. None of them may reach the CPU fallback,
// which would return a copy: writes to it would be lost.
#pragma once

#include <ATen/core/Tensor.h>

namespace torch_npu::aten {

// Kernels, named as their ATen operators. All are pure arithmetic on sizes and strides.
at::Tensor as_strided(
    const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride,
    std::optional<int64_t> storageOffset);
at::Tensor view(const at::Tensor& self, at::IntArrayRef size);
at::Tensor _reshape_alias(const at::Tensor& self, at::IntArrayRef size, at::IntArrayRef stride);
at::Tensor unfold(const at::Tensor& self, int64_t dimension, int64_t size, int64_t step);
at::Tensor view_as_real(const at::Tensor& self);
at::Tensor view_as_complex(const at::Tensor& self);
bool is_set_to(const at::Tensor& self, const at::Tensor& tensor);
at::Tensor& set_source_Storage(at::Tensor& self, at::Storage source);
at::Tensor& set_source_Tensor(at::Tensor& self, const at::Tensor& source);

}  // namespace torch_npu::aten
