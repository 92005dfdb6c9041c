// Runs a structured meta function of torch (at::meta::structured_X), or one of ours with the same
// protocol (Shapes.h), and gives it its outputs: allocated, resized or checked. What the generated
// adaptors are made of.
//
// Note [Outputs]
// A meta function describes output i by set_output_*(i, sizes, strides, options). In the functional
// form we allocate it; in the out form the caller's tensor is checked and resized; in the in-place
// form it is checked only. aclnn writes outputs of any strides, so that the strides a meta function
// insists on matter for allocation only, and no temporary stands in for a strided out.
#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/TensorMeta.h>
#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <c10/core/TensorOptions.h>
#include <c10/util/MaybeOwned.h>

#include <array>
#include <cstdint>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "aten/Launch.h"

namespace torch_npu::aten {

enum class Form { Functional, Out, Inplace };

// Uninitialised memory on the current device. Empty strides: contiguous, or as options say.
at::Tensor allocate(at::IntArrayRef sizes, at::IntArrayRef strides, const at::TensorOptions& options);

// See Note [Outputs].
void prepareOutput(
    Form form, at::Tensor& output, at::IntArrayRef sizes, at::IntArrayRef strides,
    const at::TensorOptions& options);

template <class Meta, size_t N>
class Structured final : public Meta {
 public:
  Structured() : form_(Form::Functional) {}
  template <class... Outputs>
  explicit Structured(Form form, const Outputs&... outputs) : form_(form), outputs_{outputs...} {
    static_assert(sizeof...(Outputs) == N);
  }

  const at::Tensor& maybe_get_output(int64_t index) override {
    return outputs_[index];
  }
  void set_output_strided(
      int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides,
      at::TensorOptions options) override {
    set(index, sizes, strides, options);
  }
  void set_output_raw_strided(
      int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides,
      at::TensorOptions options) override {
    set(index, sizes, strides, options);
  }

  Form form() const {
    return form_;
  }
  const at::Tensor& output(size_t index) const {
    return outputs_[index];
  }
  at::Tensor take(size_t index) {
    return std::move(outputs_[index]);
  }

  // Whether there is nothing to compute.
  bool empty() const {
    for (const at::Tensor& output : outputs_) {
      if (output.defined() && output.numel() != 0) {
        return false;
      }
    }
    return true;
  }

  // The dtype that the inputs are to be converted to, where the meta function knows it.
  std::optional<at::ScalarType> commonType() const {
    if constexpr (std::is_base_of_v<at::TensorIteratorBase, Meta>) {
      return this->maybe_common_dtype();
    } else {
      return std::nullopt;
    }
  }

 private:
  void set(
      int64_t index, at::IntArrayRef sizes, at::IntArrayRef strides,
      const at::TensorOptions& options) {
    prepareOutput(form_, outputs_[index], sizes, strides, options);
    if constexpr (std::is_base_of_v<at::TensorIteratorBase, Meta>) {
      at::TensorIteratorBase::set_output_raw_strided(index, sizes, strides, options);
    }
  }

  Form form_;
  std::array<at::Tensor, N> outputs_;
};

// The device that a call runs on: that of its first NPU tensor.
inline void findDevice(std::optional<c10::Device>& found, const at::Tensor& tensor) {
  if (!found.has_value() && tensor.defined() &&
      tensor.device().type() == c10::DeviceType::PrivateUse1) {
    found = tensor.device();
  }
}
inline void findDevice(
    std::optional<c10::Device>& found, const std::optional<at::Tensor>& tensor) {
  if (tensor.has_value()) {
    findDevice(found, *tensor);
  }
}
inline void findDevice(std::optional<c10::Device>& found, const at::ITensorListRef& tensors) {
  for (const at::Tensor& tensor : tensors) {
    findDevice(found, tensor);
  }
}
inline void findDevice(std::optional<c10::Device>& found, at::TensorList tensors) {
  for (const at::Tensor& tensor : tensors) {
    findDevice(found, tensor);
  }
}
inline void findDevice(
    std::optional<c10::Device>& found, const c10::List<std::optional<at::Tensor>>& tensors) {
  for (const std::optional<at::Tensor>& tensor : tensors) {
    findDevice(found, tensor);
  }
}
template <class... Tensors>
c10::Device deviceOf(const Tensors&... tensors) {
  std::optional<c10::Device> found;
  (findDevice(found, tensors), ...);
  return found.value_or(c10::Device(c10::DeviceType::CPU));
}

// Whether writing to `out` changes `input` too.
bool sharesMemoryWith(const at::Tensor& out, const at::Tensor& input);
inline bool sharesMemory(const at::Tensor& out, const at::Tensor& input) {
  return input.defined() && out.defined() && out.is_alias_of(input) &&
         sharesMemoryWith(out, input);
}
inline bool sharesMemory(const at::Tensor& out, const std::optional<at::Tensor>& input) {
  return input.has_value() && sharesMemory(out, *input);
}
inline bool sharesMemory(const at::Tensor& out, const at::ITensorListRef& inputs) {
  for (const at::Tensor& input : inputs) {
    if (sharesMemory(out, input)) {
      return true;
    }
  }
  return false;
}
template <class First, class Second, class... Others>
bool sharesMemory(
    const at::Tensor& out, const First& first, const Second& second, const Others&... others) {
  return sharesMemory(out, first) || sharesMemory(out, second, others...);
}

// Puts results into the caller's out tensors, resized and checked as in the out form.
void copyResult(const at::Tensor& result, const at::Tensor& out);
inline void copyResults(const at::Tensor& result, const at::Tensor& out) {
  copyResult(result, out);
}
template <class... Results, class... Outputs>
void copyResults(const std::tuple<Results...>& results, const Outputs&... outputs) {
  std::apply([&](const auto&... result) { (copyResult(result, outputs), ...); }, results);
}

// A tensor that stands for a number: 0-dim on the CPU. Operators on NPU tensors accept those.
inline bool isNumber(const at::Tensor& tensor) {
  return tensor.defined() && tensor.dim() == 0 && tensor.device().is_cpu();
}
inline bool isNumber(const std::optional<at::Tensor>& tensor) {
  return tensor.has_value() && isNumber(*tensor);
}
// Its value, read in place.
c10::Scalar numberOf(const at::Tensor& tensor);

// `tensor` as an operand of a launch: numbers moved to the current device, others converted to
// `type` if one is given; lazy conjugates and negatives computed.
c10::MaybeOwned<at::Tensor> convertOperand(
    const at::Tensor& tensor, std::optional<at::ScalarType> type);
inline c10::MaybeOwned<at::Tensor> operand(
    const at::Tensor& tensor, std::optional<at::ScalarType> type) {
  if (!tensor.defined() ||
      (tensor.device().type() == c10::DeviceType::PrivateUse1 &&
       (!type.has_value() || *type == tensor.scalar_type()) &&
       !isMarked(tensor.unsafeGetTensorImpl()))) [[likely]] {
    return c10::MaybeOwned<at::Tensor>::borrowed(tensor);
  }
  return convertOperand(tensor, type);
}
inline c10::MaybeOwned<at::Tensor> operand(
    const std::optional<at::Tensor>& tensor, std::optional<at::ScalarType> type) {
  return tensor.has_value() ? operand(*tensor, type)
                            : c10::MaybeOwned<at::Tensor>::owned(at::Tensor());
}

}  // namespace torch_npu::aten
