#include "aten/Arguments.h"

#include <ATen/WrapDimUtils.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <limits>
#include <string>

#include "aten/Launch.h"
#include "aten/Structured.h"

namespace torch_npu::aten {

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
