#include "distributed/TensorChecks.h"

#include <c10/util/Exception.h>

#include "distributed/HcclTypes.h"

namespace torch_npu::distributed {

const at::Tensor& onlyTensor(const std::vector<at::Tensor>& tensors, const char* operation) {
  TORCH_CHECK_VALUE(
      tensors.size() == 1, operation, ": expected one tensor, got ", tensors.size(),
      "; one process drives one device here (use the *_coalesced form for several tensors)");
  return tensors.front();
}

const std::vector<at::Tensor>& onlyList(
    const std::vector<std::vector<at::Tensor>>& lists, const char* operation) {
  TORCH_CHECK_VALUE(
      lists.size() == 1, operation, ": expected one list of tensors, got ", lists.size(),
      "; one process drives one device here");
  return lists.front();
}

void checkDevice(const at::Tensor& tensor, const char* operation) {
  TORCH_CHECK_VALUE(tensor.defined(), operation, ": got an undefined tensor");
  TORCH_CHECK_VALUE(
      tensor.device().type() == c10::DeviceType::PrivateUse1, operation,
      ": expected npu tensors, got one on ", tensor.device(),
      "; all tensors of a call must be on one device");
  TORCH_CHECK_VALUE(
      tensor.layout() == at::kStrided, operation, ": expected a dense tensor, got layout ",
      tensor.layout(), "; HCCL moves dense memory only (tensor.to_dense())");
}

void checkDense(const at::Tensor& tensor, const char* operation) {
  checkDevice(tensor, operation);
  TORCH_CHECK_VALUE(
      tensor.is_contiguous(tensor.suggest_memory_format()), operation,
      ": Tensors must be contiguous, got shape ", tensor.sizes(), " with strides ",
      tensor.strides(),
      "; call .contiguous() first and copy the result back if the operation writes to it");
}

void checkContiguous(const at::Tensor& tensor, const char* operation) {
  checkDevice(tensor, operation);
  TORCH_CHECK_VALUE(
      tensor.is_contiguous(), operation, ": Tensors must be contiguous, got shape ", tensor.sizes(),
      " with strides ", tensor.strides(), "; call .contiguous() first");
}

void checkSameDtype(const at::Tensor& a, const at::Tensor& b, const char* operation) {
  TORCH_CHECK_TYPE(
      a.scalar_type() == b.scalar_type(), operation, ": expected tensors of one dtype, got ",
      dtypeName(a.scalar_type()), " and ", dtypeName(b.scalar_type()));
  TORCH_CHECK_VALUE(
      a.device() == b.device(), operation, ": expected tensors on one device, got ", a.device(),
      " and ", b.device());
}

void checkAlike(const std::vector<at::Tensor>& tensors, const char* operation) {
  TORCH_CHECK_VALUE(!tensors.empty(), operation, ": expected at least one tensor, got none");
  for (const at::Tensor& tensor : tensors) {
    checkDevice(tensor, operation);
    checkSameDtype(tensors.front(), tensor, operation);
  }
}

void checkRank(int64_t rank, int size, const char* operation, const char* what) {
  TORCH_CHECK_VALUE(
      rank >= 0 && rank < size, operation, ": the ", what, " is rank ", rank,
      " of the group, expected 0 to ", size - 1);
}

void checkElements(int64_t got, int64_t expected, const char* operation, const char* what) {
  TORCH_CHECK_VALUE(
      got == expected, operation, ": ", what, " has ", got, " elements, expected ", expected);
}

void checkLength(size_t got, size_t expected, const char* operation, const char* what) {
  TORCH_CHECK_VALUE(got == expected, operation, ": expected ", expected, " ", what, ", got ", got);
}

}  // namespace torch_npu::distributed
