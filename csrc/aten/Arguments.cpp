#include "aten/Arguments.h"

#include <ATen/WrapDimUtils.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <limits>
#include <string>

#include "aten/Launch.h"
#include "aten/Structured.h"

namespace torch_npu::aten {

void checkSameType(
    const char* first, const at::Tensor& a, const char* second, const at::Tensor& b) {
  TORCH_CHECK(
      a.scalar_type() == b.scalar_type(), "expected ", first, " and ", second,
      " to have the same dtype, but got: ", a.dtype(), " != ", b.dtype());
}

void checkFloating(const char* name, const at::Tensor& tensor) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      tensor.is_floating_point() || tensor.is_complex(), name, " is not implemented for ",
      tensor.scalar_type(), "; expected a floating point dtype");
}

void checkWhole(const char* name, const at::Tensor& tensor) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      at::isIntegralType(tensor.scalar_type(), /*includeBool=*/true), name,
      " is not implemented for ", tensor.scalar_type(), "; expected an integer dtype or bool");
}

void checkReal(const char* name, const at::Tensor& tensor) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !tensor.is_complex(), name, " is not implemented for ", tensor.scalar_type(),
      ": it takes real numbers only");
}

void checkNoBool(const char* name, const at::Tensor& tensor) {
  TORCH_CHECK(
      tensor.scalar_type() != at::ScalarType::Bool, name,
      " is not supported for bool tensors; convert them, or use ^, ~ and logical_not()");
}

void checkMask(const char* name, const at::Tensor& mask) {
  TORCH_CHECK(
      mask.scalar_type() == at::ScalarType::Bool, name,
      " only supports boolean masks, but got mask with dtype ", mask.dtype());
}

void checkIndex(const char* name, const at::Tensor& index) {
  TORCH_CHECK(
      index.scalar_type() == at::ScalarType::Long || index.scalar_type() == at::ScalarType::Int,
      name, " expects indices of dtype int64 or int32, but got ", index.scalar_type());
}

void checkIndexVector(const char* name, const at::Tensor& index) {
  TORCH_CHECK_INDEX(
      index.scalar_type() == at::ScalarType::Long, name,
      "(): Expected dtype int64 for index, but got ", index.scalar_type());
  TORCH_CHECK(
      index.dim() <= 1, "Index has to be a vector/scalar, got ", index.dim(), " dimensions");
}

void checkApproximate(std::string_view approximate) {
  TORCH_CHECK(
      approximate == "none" || approximate == "tanh",
      "approximate argument must be either none or tanh, got '", std::string(approximate), "'");
}

void checkSearch(
    const at::Tensor& sequence, const at::Tensor& self, const std::optional<at::Tensor>& sorter) {
  const int64_t outer = sequence.dim() - 1;
  TORCH_CHECK(
      sequence.dim() == 1 ||
          (sequence.dim() == self.dim() &&
           sequence.sizes().slice(0, outer) == self.sizes().slice(0, outer)),
      "boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and "
      "input value tensor must match, but got ", sequence.sizes(), " and ", self.sizes());
  TORCH_CHECK(
      !present(sorter) ||
          (sorter->sizes() == sequence.sizes() && sorter->scalar_type() == at::ScalarType::Long),
      "sorter must be int64 and of the shape of sorted_sequence");
}

void checkZeroDim(const char* name, const at::Tensor& value) {
  TORCH_CHECK(
      value.dim() == 0, name, " only supports a 0-dimensional value tensor, but got tensor with ",
      value.dim(), " dimension(s).");
}

void checkFits(const c10::Scalar& value, at::ScalarType type) {
  switch (type) {
#define NPU_CHECK_FITS(ctype, name) \
  case at::ScalarType::name:        \
    (void)value.to<ctype>();        \
    return;
    AT_FORALL_SCALAR_TYPES_WITH_COMPLEX_EXCEPT_COMPLEX_HALF_F8NZ(NPU_CHECK_FITS)
#undef NPU_CHECK_FITS
    default:
      return;
  }
}

int32_t roundingMode(std::optional<std::string_view> mode) {
  if (!mode.has_value()) {
    return 0;
  }
  if (*mode == "trunc") {
    return 1;
  }
  if (*mode == "floor") {
    return 2;
  }
  TORCH_CHECK_VALUE(
      false, "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '",
      std::string(*mode), "'");
}

Dims reducedDims(at::OptionalIntArrayRef dims, const at::Tensor& self) {
  Dims result;
  if (!dims.has_value() || dims->empty()) {
    for (int64_t i = 0; i < self.dim(); ++i) {
      result.push_back(i);
    }
    return result;
  }
  if (self.dim() == 0) {
    return result;
  }
  for (const int64_t dim : *dims) {
    result.push_back(at::maybe_wrap_dim(dim, self.dim()));
  }
  std::sort(result.begin(), result.end());
  return result;
}

bool isIntegerCorrection(const std::optional<c10::Scalar>& correction) {
  if (!correction.has_value() || correction->isIntegral(/*includeBool=*/true)) {
    return true;
  }
  const double value = correction->toDouble();
  return value == static_cast<double>(static_cast<int64_t>(value));
}

int64_t integerCorrection(const std::optional<c10::Scalar>& correction) {
  return correction.has_value() ? correction->to<int64_t>() : 1;
}

at::Tensor classWeights(
    const std::optional<at::Tensor>& weight, const at::Tensor& input, int64_t dim) {
  if (present(weight)) {
    return *weight;
  }
  at::Tensor ones = allocate({input.size(dim)}, {}, input.options());
  if (ones.numel() != 0) {
    launch(cann::aclnnInplaceOne, ones);
  }
  return ones;
}

std::vector<at::Tensor> catOperands(const at::ITensorListRef& tensors, at::ScalarType type) {
  std::vector<at::Tensor> result;
  result.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    if (tensor.dim() == 1 && tensor.size(0) == 0) {
      continue;
    }
    result.push_back(*operand(tensor, type));
  }
  return result;
}

int64_t scatterReduction(std::string_view reduce) {
  if (reduce == "add") {
    return 1;
  }
  TORCH_CHECK_VALUE(
      reduce == "multiply", "reduce argument must be either add or multiply, got '",
      std::string(reduce), "'");
  return 2;
}

float largestNumber(at::ScalarType type) {
  switch (type) {
    case at::ScalarType::Half:
      return static_cast<float>(std::numeric_limits<c10::Half>::max());
    case at::ScalarType::BFloat16:
      return static_cast<float>(std::numeric_limits<c10::BFloat16>::max());
    case at::ScalarType::Double:
      return std::numeric_limits<float>::infinity();
    default:
      return std::numeric_limits<float>::max();
  }
}

}  // namespace torch_npu::aten
