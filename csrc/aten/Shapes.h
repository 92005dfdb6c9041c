// Meta functions for operators that torch has no structured one for: what at::meta::structured_X is
// to the others, with the same protocol (see Note [Outputs] in Structured.h). Elementwise ones are
// TensorIterators, so that broadcasting, promotion and overlap checks are torch's own.
#pragma once

#include <ATen/TensorIterator.h>
#include <ATen/TensorMeta.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/util/OptionalArrayRef.h>

#include <array>
#include <cstdint>
#include <optional>

namespace torch_npu::aten::shapes {

// --- elementwise ------------------------------------------------------------------------------------

struct Unary : at::TensorIteratorBase {
  void meta(const at::Tensor& self) {
    build_borrowing_unary_op(maybe_get_output(), self);
  }
};

struct UnaryFloat : at::TensorIteratorBase {
  void meta(const at::Tensor& self) {
    build_borrowing_unary_float_op(maybe_get_output(), self);
  }
};

struct Predicate : at::TensorIteratorBase {
  void meta(const at::Tensor& self) {
    build_borrowing_unary_force_boolean_op(maybe_get_output(), self);
  }
};

struct Binary : at::TensorIteratorBase {
  void meta(const at::Tensor& a, const at::Tensor& b) {
    build_binary_op(maybe_get_output(), a, b);
  }
};

struct Comparison : at::TensorIteratorBase {
  void meta(const at::Tensor& a, const at::Tensor& b) {
    build_comparison_op(maybe_get_output(), a, b);
  }
};

struct Ternary : at::TensorIteratorBase {
  void meta(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c);
};

// Like self; for complex numbers, of their real type.
struct Abs : at::impl::MetaBase {
  void meta(const at::Tensor& self);
};

struct Where : at::impl::MetaBase {
  void meta(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other);
};
at::ScalarType whereType(const at::Tensor& self, const at::Tensor& other);

// --- reductions ---------------------------------------------------------------------------------------

// All elements to one, of the same dtype; at least one element is needed.
struct Extremum : at::impl::MetaBase {
  void meta(const at::Tensor& self);
};

// All elements to one; integers are summed up as int64.
struct Total : at::impl::MetaBase {
  void meta(const at::Tensor& self, std::optional<at::ScalarType> type);
};

// Over `dims` (none: all); integers are summed up as int64.
struct Sum : at::impl::MetaBase {
  void meta(
      const at::Tensor& self, at::OptionalIntArrayRef dims, bool keepdim,
      std::optional<at::ScalarType> type);
};

// Over `dims` (none: all) to a floating result of self's dtype.
struct Moment : at::impl::MetaBase {
  void meta(const at::Tensor& self, at::OptionalIntArrayRef dims, bool keepdim);
};

// As Moment, with two results (variance and mean).
struct Moments : at::impl::MetaBase {
  void meta(const at::Tensor& self, at::OptionalIntArrayRef dims, bool keepdim);
};

// log(sum(exp)): as Moment, integers become the default dtype.
struct LogSumExp : at::impl::MetaBase {
  void meta(const at::Tensor& self, at::IntArrayRef dims, bool keepdim);
};

// All elements to one of the same dtype.
struct Median : at::impl::MetaBase {
  void meta(const at::Tensor& self);
};

// Values and positions along one dimension.
struct ReducedPair : at::impl::MetaBase {
  void meta(const at::Tensor& self, int64_t dim, bool keepdim);
};

struct Kthvalue : ReducedPair {
  void meta(const at::Tensor& self, int64_t k, int64_t dim, bool keepdim);
};

struct Count : at::impl::MetaBase {
  void meta(const at::Tensor& self, at::IntArrayRef dims);
};

struct Histogram : at::impl::MetaBase {
  void meta(const at::Tensor& self, int64_t bins);
};

struct Trace : at::impl::MetaBase {
  void meta(const at::Tensor& self);
};

// --- matrices -----------------------------------------------------------------------------------------

struct Addbmm : at::impl::MetaBase {
  void meta(const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2);
};

struct Dot : at::impl::MetaBase {
  void meta(const at::Tensor& self, const at::Tensor& other);
};

// --- layers -------------------------------------------------------------------------------------------

struct LayerNorm : at::impl::MetaBase {
  void meta(
      const at::Tensor& input, at::IntArrayRef normalizedShape,
      const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias);
};

struct LayerNormBackward : at::impl::MetaBase {
  void meta(
      const at::Tensor& input, const std::optional<at::Tensor>& weight,
      const std::optional<at::Tensor>& bias, const std::array<bool, 3>& mask);
};

struct BatchNorm : at::impl::MetaBase {
  void meta(
      const at::Tensor& input, const std::optional<at::Tensor>& weight,
      const std::optional<at::Tensor>& runningMean, bool training);
};

struct BatchNormBackward : at::impl::MetaBase {
  void meta(
      const at::Tensor& input, const std::optional<at::Tensor>& weight,
      const std::array<bool, 3>& mask);
};

struct GroupNorm : at::impl::MetaBase {
  void meta(const at::Tensor& input, int64_t batch, int64_t groups);
};

struct GroupNormBackward : at::impl::MetaBase {
  void meta(const at::Tensor& input, int64_t channels, const std::array<bool, 3>& mask);
};

struct PreluBackward : at::impl::MetaBase {
  void meta(const at::Tensor& gradOutput, const at::Tensor& self, const at::Tensor& weight);
};

struct LogSigmoid : at::impl::MetaBase {
  void meta(const at::Tensor& self);
};

struct GluBackward : at::impl::MetaBase {
  void meta(const at::Tensor& self);
};

// --- losses -------------------------------------------------------------------------------------------

struct ElementLoss : at::impl::MetaBase {
  void meta(const at::Tensor& self, const at::Tensor& target, int64_t reduction);
};

struct NllLoss2d : at::impl::MetaBase {
  void meta(const at::Tensor& self, const at::Tensor& target, int64_t reduction);
};

// --- indexing and shape ---------------------------------------------------------------------------------

// One output like the argument, contiguous.
struct Like : at::impl::MetaBase {
  void meta(const at::Tensor& self);
};

struct Embedding : at::impl::MetaBase {
  void meta(const at::Tensor& weight, const at::Tensor& indices);
};

struct EmbeddingBackward : at::impl::MetaBase {
  void meta(const at::Tensor& grad, const at::Tensor& indices, int64_t numWeights);
};

struct IndexSelect : at::impl::MetaBase {
  void meta(const at::Tensor& self, int64_t dim, const at::Tensor& index);
};

struct Take : at::impl::MetaBase {
  void meta(const at::Tensor& self, const at::Tensor& index);
};

// Positions, one per element of self.
struct Search : at::impl::MetaBase {
  void meta(const at::Tensor& self, bool int32);
};

struct Flip : at::impl::MetaBase {
  void meta(const at::Tensor& self, at::IntArrayRef dims);
};

struct Roll : at::impl::MetaBase {
  void meta(const at::Tensor& self, at::IntArrayRef shifts, at::IntArrayRef dims);
};

struct ConstantPad : at::impl::MetaBase {
  void meta(const at::Tensor& self, at::IntArrayRef pad);
};

// --- filled by a rule: the out tensor's dtype and device are the caller's --------------------------------

struct Arange : at::impl::MetaBase {
  void meta(const c10::Scalar& start, const c10::Scalar& end, const c10::Scalar& step);
};

// Like Arange, with the end included and floating steps.
struct Range : at::impl::MetaBase {
  void meta(const c10::Scalar& start, const c10::Scalar& end, const c10::Scalar& step);
};

struct Linspace : at::impl::MetaBase {
  void meta(int64_t steps);
};

struct Eye : at::impl::MetaBase {
  void meta(int64_t rows, int64_t columns);
};

}  // namespace torch_npu::aten::shapes
