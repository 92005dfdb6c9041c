#include "aten/Scalar.h"

#include <ATen/ops/_local_scalar_dense.h>

#include "aten/Copy.h"

namespace torch_npu::aten {

at::Scalar _local_scalar_dense(const at::Tensor& self) {
  TORCH_CHECK(
      self.numel() == 1, "a tensor with ", self.numel(),
      " elements cannot be converted to a single number");
  return at::_local_scalar_dense(toHost(self));
}

}  // namespace torch_npu::aten
