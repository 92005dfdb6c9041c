// Tensors out of nothing: empty, resize_, set_, and what else decides which memory a tensor has.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>
#include <c10/core/Stream.h>
#include <c10/util/OptionalArrayRef.h>

#include <optional>

namespace torch_npu::aten {

// Uninitialised tensors on an NPU, without the way through the dispatcher.
at::Tensor emptyStrided(
    at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType dtype, c10::Device device);
at::Tensor emptyContiguous(at::IntArrayRef sizes, at::ScalarType dtype, c10::Device device);

// Kernels, named as their ATen operators.
at::Tensor empty(
    at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
    std::optional<at::Device> device, std::optional<bool> pinMemory,
    std::optional<at::MemoryFormat> memoryFormat);
at::Tensor empty_strided(
    at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
    std::optional<at::Layout> layout, std::optional<at::Device> device,
    std::optional<bool> pinMemory);
// All zeros, of any size, without memory: what autograd uses for gradients that vanish.
at::Tensor _efficientzerotensor(
    at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
    std::optional<at::Device> device, std::optional<bool> pinMemory);
const at::Tensor& resize_(
    const at::Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat> memoryFormat);
at::Tensor& set_(at::Tensor& self);
at::Tensor& set_source_Storage_storage_offset(
    at::Tensor& self, at::Storage source, int64_t storageOffset, at::IntArrayRef size,
    at::IntArrayRef stride);
void record_stream(at::Tensor& self, at::Stream stream);
bool _has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from);

}  // namespace torch_npu::aten
