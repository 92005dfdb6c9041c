// A value read from the device: what .item() is made of.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

namespace torch_npu::aten {

// Kernel of aten::_local_scalar_dense. Waits for the current stream of the tensor's device, no
// other.
at::Scalar _local_scalar_dense(const at::Tensor& self);

}  // namespace torch_npu::aten
