// What the operator tables say in their calls, where ATen's arguments are not yet aclnn's.
#pragma once

#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/util/OptionalArrayRef.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace torch_npu::aten {

using Dims = c10::SmallVector<int64_t, 6>;

inline bool present(const std::optional<at::Tensor>& tensor) {
  return tensor.has_value() && tensor->defined();
}

// Checks for what neither torch's meta functions nor CANN report before the work runs. `name` is the
// operator's, for the message.
void checkSameType(
    const char* first, const at::Tensor& a, const char* second, const at::Tensor& b);
void checkFloating(const char* name, const at::Tensor& tensor);
void checkWhole(const char* name, const at::Tensor& tensor);  // integers and bool
void checkReal(const char* name, const at::Tensor& tensor);
void checkNoBool(const char* name, const at::Tensor& tensor);
void checkMask(const char* name, const at::Tensor& mask);
void checkIndex(const char* name, const at::Tensor& index);  // int64 or int32
void checkIndexVector(const char* name, const at::Tensor& index);  // int64, at most 1-dim
void checkApproximate(std::string_view approximate);  // of gelu
void checkSearch(
    const at::Tensor& sequence, const at::Tensor& self, const std::optional<at::Tensor>& sorter);
void checkZeroDim(const char* name, const at::Tensor& value);
// Whether `value` can be stored as `type`.
void checkFits(const c10::Scalar& value, at::ScalarType type);

// How matrix units may round: 0 keeps the dtype's precision, 1 allows HF32 for float32.
inline int8_t cubeMathType() {
  return 0;
}

// aclnnDivMod's mode: 0 true division, 1 towards zero, 2 towards minus infinity.
int32_t roundingMode(std::optional<std::string_view> mode);

// The dimensions to reduce, non-negative and sorted; none given means all.
Dims reducedDims(at::OptionalIntArrayRef dims, const at::Tensor& self);
inline Dims allDims(const at::Tensor& self) {
  return reducedDims(std::nullopt, self);
}

// The correction of a variance where aclnn takes it (an integer; by default 1), else nothing.
bool isIntegerCorrection(const std::optional<c10::Scalar>& correction);
int64_t integerCorrection(const std::optional<c10::Scalar>& correction);

// aclnn wants a weight per class where torch takes none for "all one".
at::Tensor classWeights(const std::optional<at::Tensor>& weight, const at::Tensor& input, int64_t dim);

// What is concatenated: without the one-dimensional empty tensors that torch ignores, all of `type`.
std::vector<at::Tensor> catOperands(const at::ITensorListRef& tensors, at::ScalarType type);

// aclnnScatter's reduce: 0 replace, 1 add, 2 multiply.
int64_t scatterReduction(std::string_view reduce);

// Largest and lowest finite number of a floating dtype, as the float that aclnn takes (infinity for
// float64, whose largest number is no float).
float largestNumber(at::ScalarType type);

// Whether sizes are such that the result is all zeros (a sum over nothing).
inline bool anyEmpty(const at::Tensor& a, const at::Tensor& b) {
  return a.numel() == 0 || b.numel() == 0;
}

}  // namespace torch_npu::aten
