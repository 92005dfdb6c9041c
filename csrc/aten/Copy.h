// Copies between host and device, on a device, and between devices. See Note [Copies] in Copy.cpp.
#pragma once

#include <ATen/core/Tensor.h>

namespace torch_npu::aten {

// dst[...] = src, with broadcasting and conversion; at least one of them is on an npu device.
void copyTensor(const at::Tensor& dst, const at::Tensor& src, bool nonBlocking);

// A new host tensor of the same values, dtype and (where dense) strides. Waits for the current
// stream.
at::Tensor toHost(const at::Tensor& tensor);
// A new tensor on `device` of the same values, dtype and (where dense) strides as a host tensor.
at::Tensor toDevice(const at::Tensor& tensor, c10::Device device);

// Kernels, named as their ATen operators.
at::Tensor _copy_from(const at::Tensor& self, const at::Tensor& dst, bool nonBlocking);
at::Tensor _copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst);

}  // namespace torch_npu::aten
