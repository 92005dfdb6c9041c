#include "aten/Structured.h"

#include <ATen/EmptyTensor.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/native/Resize.h>
#include <c10/core/DispatchKeySet.h>

#include "runtime/CachingAllocator.h"

namespace torch_npu::aten {
namespace {

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

void checkSame(const at::Tensor& output, const at::TensorOptions& options) {
  TORCH_CHECK(
      output.scalar_type() == c10::typeMetaToScalarType(options.dtype()),
      "Expected out tensor to have dtype ", options.dtype(), ", but got ", output.dtype(),
      " instead");
  TORCH_CHECK(
      output.device() == options.device(), "Expected out tensor to have device ", options.device(),
      ", but got ", output.device(), " instead");
}

}  // namespace

at::Tensor allocate(
    at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options) {
  const at::ScalarType type = c10::typeMetaToScalarType(options.dtype());
  if (strides.empty()) {
    return at::Tensor(at::detail::empty_generic(
        sizes, cachingAllocator(), kKeys, type, options.memory_format_opt()));
  }
  return at::Tensor(
      at::detail::empty_strided_generic(sizes, strides, cachingAllocator(), kKeys, type));
}

void prepareOutput(
    Form form, at::Tensor& output, at::IntArrayRef sizes, at::IntArrayRef strides,
    const at::TensorOptions& options) {
  switch (form) {
    case Form::Functional:
      output = allocate(sizes, strides, options);
      return;
    case Form::Out: {
      checkSame(output, options);
      at::assert_no_internal_overlap(output);
      if (output.sizes() == sizes) {
        return;
      }
      if (at::native::resize_output(output, sizes)) {
        if (!strides.empty()) {
          output.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
        } else if (options.memory_format_opt().has_value()) {
          output.unsafeGetTensorImpl()->empty_tensor_restride(*options.memory_format_opt());
        }
      }
      return;
    }
    case Form::Inplace:
      checkSame(output, options);
      at::assert_no_internal_overlap(output);
      TORCH_CHECK(
          output.sizes() == sizes, "Bad in-place call: input tensor size ", output.sizes(),
          " and output tensor size ", sizes, " should match");
      return;
  }
}

bool sharesMemoryWith(const at::Tensor& out, const at::Tensor& input) {
  return at::get_overlap_status(out, input) != at::MemOverlapStatus::No;
}

void copyResult(const at::Tensor& result, const at::Tensor& out) {
  at::Tensor target = out;
  prepareOutput(Form::Out, target, result.sizes(), {}, result.options());
  target.copy_(result);
}

c10::Scalar numberOf(const at::Tensor& tensor) {
  const void* data = tensor.const_data_ptr();
  switch (tensor.scalar_type()) {
#define NPU_NUMBER(type, name) \
  case at::ScalarType::name:   \
    return c10::Scalar(*static_cast<const type*>(data));
    AT_FORALL_SCALAR_TYPES_WITH_COMPLEX_EXCEPT_COMPLEX_HALF_F8NZ(NPU_NUMBER)
#undef NPU_NUMBER
    default:
      return tensor.item();
  }
}

c10::MaybeOwned<at::Tensor> convertOperand(
    const at::Tensor& tensor, std::optional<at::ScalarType> type) {
  if (isMarked(tensor.unsafeGetTensorImpl())) {
    const at::Tensor plain = tensor.resolve_conj().resolve_neg();
    return c10::MaybeOwned<at::Tensor>::owned(at::Tensor(*operand(plain, type)));
  }
  const at::ScalarType target = type.value_or(tensor.scalar_type());
  const at::TensorOptions options = at::TensorOptions()
                                        .dtype(target)
                                        .device(c10::DeviceType::PrivateUse1, currentDevice());
  if (isNumber(tensor)) {
    at::Tensor filled = allocate({}, {}, options);
    launch(cann::aclnnInplaceFillScalar, filled, numberOf(tensor));
    return c10::MaybeOwned<at::Tensor>::owned(std::move(filled));
  }
  if (!tensor.is_privateuseone()) {
    throwWrongDevice(tensor, static_cast<c10::DeviceIndex>(currentDevice()));
  }
  at::Tensor converted = allocate(tensor.sizes(), {}, options);
  if (converted.numel() != 0) {
    launch(cann::aclnnCast, tensor, target, converted);
  }
  return c10::MaybeOwned<at::Tensor>::owned(std::move(converted));
}

}  // namespace torch_npu::aten
