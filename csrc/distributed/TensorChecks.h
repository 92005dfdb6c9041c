// What every collective demands of its tensors.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace torch_npu::distributed {

// The one tensor of a call whose list form is left over from several devices per process.
const at::Tensor& onlyTensor(const std::vector<at::Tensor>& tensors, const char* operation);
const std::vector<at::Tensor>& onlyList(
    const std::vector<std::vector<at::Tensor>>& lists, const char* operation);

// An npu tensor with memory of its own kind (strided, not sparse).
void checkDevice(const at::Tensor& tensor, const char* operation);
// Its elements fill their memory, in the order of one of the memory formats: for operations that
// treat elements alike wherever they lie.
void checkDense(const at::Tensor& tensor, const char* operation);
// Row-major: for operations that cut or join tensors.
void checkContiguous(const at::Tensor& tensor, const char* operation);
void checkSameDtype(const at::Tensor& a, const at::Tensor& b, const char* operation);
// All of one device and dtype, at least one.
void checkAlike(const std::vector<at::Tensor>& tensors, const char* operation);
void checkRank(int64_t rank, int size, const char* operation, const char* what);
void checkElements(int64_t got, int64_t expected, const char* operation, const char* what);
void checkLength(size_t got, size_t expected, const char* operation, const char* what);

}  // namespace torch_npu::distributed
