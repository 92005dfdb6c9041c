#include "aten/Shapes.h"

#include <ATen/AccumulateType.h>
#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/result_type.h>
#include <c10/core/DefaultDtype.h>
#include <c10/util/Exception.h>

#include <cmath>

#include "aten/Arguments.h"

namespace torch_npu::aten::shapes {
namespace {

// The dtype of an output whose natural dtype is `natural`: the caller's tensor may have another one
// that it can be cast to, as everywhere in torch.
at::ScalarType outputType(const at::Tensor& output, at::ScalarType natural) {
  if (!output.defined()) {
    return natural;
  }
  TORCH_CHECK(
      c10::canCast(natural, output.scalar_type()), "result type ", natural,
      " can't be cast to the desired output type ", output.scalar_type());
  return output.scalar_type();
}

Dims reducedSizes(const at::Tensor& self, at::OptionalIntArrayRef dims, bool keepdim) {
  const bool all = !dims.has_value() || dims->empty();
  const auto mask =
      at::dim_list_to_bitset(all ? at::OptionalIntArrayRef(std::nullopt) : dims, self.dim());
  Dims sizes;
  for (int64_t i = 0; i < self.dim(); ++i) {
    if (!mask[i]) {
      sizes.push_back(self.size(i));
    } else if (keepdim) {
      sizes.push_back(1);
    }
  }
  return sizes;
}

void checkFloating(const char* name, const at::Tensor& self) {
  TORCH_CHECK(
      at::isFloatingType(self.scalar_type()) || at::isComplexType(self.scalar_type()), name,
      " only support floating point and complex dtypes, got ", self.scalar_type());
}

// Statistics of normalisations are kept in float32 for the 16-bit dtypes.
at::ScalarType statisticsType(const at::Tensor& input) {
  return c10::isReducedFloatingType(input.scalar_type()) ? at::ScalarType::Float
                                                         : input.scalar_type();
}

}  // namespace

void Ternary::meta(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c) {
  build_ternary_op(maybe_get_output(), a, b, c);
}

void Abs::meta(const at::Tensor& self) {
  const at::ScalarType natural = c10::toRealValueType(self.scalar_type());
  set_output_raw_strided(
      0, self.sizes(), {}, self.options().dtype(outputType(maybe_get_output(), natural)));
}

at::ScalarType whereType(const at::Tensor& self, const at::Tensor& other) {
  return at::result_type(self, other);
}

void Where::meta(
    const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(
      condition.scalar_type() == at::ScalarType::Bool ||
          condition.scalar_type() == at::ScalarType::Byte,
      "where expected condition to be a boolean tensor, but got a tensor with dtype ",
      condition.scalar_type());
  const auto sizes = at::infer_size_dimvector(
      at::infer_size_dimvector(condition.sizes(), self.sizes()), other.sizes());
  const at::Tensor& reference =
      !condition.device().is_cpu() ? condition : (!self.device().is_cpu() ? self : other);
  const at::ScalarType type = whereType(self, other);
  set_output_raw_strided(
      0, sizes, {},
      at::TensorOptions()
          .device(reference.device())
          .dtype(outputType(maybe_get_output(), type)));
}

void Extremum::meta(const at::Tensor& self) {
  TORCH_CHECK(
      self.numel() > 0,
      "max() or min(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
      "reduction dim with the 'dim' argument.");
  set_output_raw_strided(
      0, {}, {}, self.options().dtype(outputType(maybe_get_output(), self.scalar_type())));
}

void Total::meta(const at::Tensor& self, std::optional<at::ScalarType> type) {
  const at::ScalarType natural =
      at::isIntegralType(self.scalar_type(), /*includeBool=*/true) ? at::ScalarType::Long
                                                                   : self.scalar_type();
  set_output_raw_strided(0, {}, {}, self.options().dtype(type.value_or(natural)));
}

void Sum::meta(
    const at::Tensor& self, at::OptionalIntArrayRef dims, bool keepdim,
    std::optional<at::ScalarType> type) {
  const at::ScalarType natural =
      at::isIntegralType(self.scalar_type(), /*includeBool=*/true) ? at::ScalarType::Long
                                                                   : self.scalar_type();
  set_output_raw_strided(
      0, reducedSizes(self, dims, keepdim), {}, self.options().dtype(type.value_or(natural)));
}

void Moment::meta(const at::Tensor& self, at::OptionalIntArrayRef dims, bool keepdim) {
  checkFloating("std and var", self);
  set_output_raw_strided(
      0, reducedSizes(self, dims, keepdim), {},
      self.options().dtype(c10::toRealValueType(self.scalar_type())));
}

void Moments::meta(const at::Tensor& self, at::OptionalIntArrayRef dims, bool keepdim) {
  checkFloating("std_mean and var_mean", self);
  const Dims sizes = reducedSizes(self, dims, keepdim);
  set_output_raw_strided(
      0, sizes, {}, self.options().dtype(c10::toRealValueType(self.scalar_type())));
  set_output_raw_strided(1, sizes, {}, self.options());
}

void LogSumExp::meta(const at::Tensor& self, at::IntArrayRef dims, bool keepdim) {
  const at::ScalarType type = at::isIntegralType(self.scalar_type(), /*includeBool=*/true)
                                  ? c10::get_default_dtype_as_scalartype()
                                  : self.scalar_type();
  set_output_raw_strided(
      0, reducedSizes(self, dims, keepdim), {}, self.options().dtype(type));
}

void Median::meta(const at::Tensor& self) {
  set_output_raw_strided(0, {}, {}, self.options());
}

void ReducedPair::meta(const at::Tensor& self, int64_t dim, bool keepdim) {
  const std::array<int64_t, 1> dims{at::maybe_wrap_dim(dim, self.dim())};
  TORCH_CHECK_INDEX(
      self.dim() == 0 || self.size(dims[0]) != 0, "Expected reduction dim ", dims[0],
      " to have non-zero size.");
  const Dims sizes = self.dim() == 0 ? Dims() : reducedSizes(self, dims, keepdim);
  set_output_raw_strided(0, sizes, {}, self.options());
  set_output_raw_strided(1, sizes, {}, self.options().dtype(at::ScalarType::Long));
}

void Kthvalue::meta(const at::Tensor& self, int64_t k, int64_t dim, bool keepdim) {
  const int64_t extent = self.dim() == 0 ? 1 : self.size(at::maybe_wrap_dim(dim, self.dim()));
  TORCH_CHECK(
      k >= 1 && k <= extent, "kthvalue(): selected number k out of range for dimension ", dim,
      ": expected 1 to ", extent, ", got ", k);
  ReducedPair::meta(self, dim, keepdim);
}

void Count::meta(const at::Tensor& self, at::IntArrayRef dims) {
  set_output_raw_strided(
      0, reducedSizes(self, dims, /*keepdim=*/false), {},
      self.options().dtype(at::ScalarType::Long));
}

void Histogram::meta(const at::Tensor& self, int64_t bins) {
  TORCH_CHECK(bins > 0, "bins must be > 0, got ", bins);
  set_output_raw_strided(0, {bins}, {}, self.options());
}

void Trace::meta(const at::Tensor& self) {
  TORCH_CHECK(self.dim() == 2, "trace: expected a matrix, but got tensor with dim ", self.dim());
  const at::ScalarType type = at::isIntegralType(self.scalar_type(), /*includeBool=*/true)
                                  ? at::ScalarType::Long
                                  : self.scalar_type();
  set_output_raw_strided(0, {}, {}, self.options().dtype(type));
}

void Addbmm::meta(
    const at::Tensor& self, const at::Tensor& batch1, const at::Tensor& batch2) {
  TORCH_CHECK(
      batch1.dim() == 3 && batch2.dim() == 3, "addbmm: batch1 and batch2 must be 3D tensors, got ",
      batch1.dim(), "D and ", batch2.dim(), "D");
  TORCH_CHECK(
      batch1.size(0) == batch2.size(0), "batch1 and batch2 must have same number of batches, got ",
      batch1.size(0), " and ", batch2.size(0));
  TORCH_CHECK(
      batch1.size(2) == batch2.size(1), "Incompatible matrix sizes for bmm (", batch1.size(1), "x",
      batch1.size(2), " and ", batch2.size(1), "x", batch2.size(2), ")");
  const std::array<int64_t, 2> sizes{batch1.size(1), batch2.size(2)};
  TORCH_CHECK(
      at::is_expandable_to(self.sizes(), sizes), "addbmm: self of shape ", self.sizes(),
      " does not broadcast to ", at::IntArrayRef(sizes));
  set_output_raw_strided(0, sizes, {}, batch1.options());
}

void Dot::meta(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(
      self.dim() == 1 && other.dim() == 1, "1D tensors expected, but got ", self.dim(), "D and ",
      other.dim(), "D tensors");
  TORCH_CHECK(
      self.scalar_type() == other.scalar_type(),
      "dot : expected both vectors to have same dtype, but found ", self.scalar_type(), " and ",
      other.scalar_type());
  TORCH_CHECK(
      self.numel() == other.numel(), "inconsistent tensor size, expected tensor [", self.numel(),
      "] and src [", other.numel(),
      "] to have the same number of elements, but got ", self.numel(), " and ", other.numel(),
      " elements respectively");
  set_output_raw_strided(0, {}, {}, self.options());
}

void LayerNorm::meta(
    const at::Tensor& input, at::IntArrayRef normalizedShape,
    const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias) {
  const int64_t normalized = static_cast<int64_t>(normalizedShape.size());
  TORCH_CHECK(
      normalized >= 1, "Expected normalized_shape to be at least 1-dimensional, i.e., containing at "
      "least one element, but got normalized_shape = ", normalizedShape);
  for (const auto& [name, tensor] : {std::pair("weight", &weight), std::pair("bias", &bias)}) {
    TORCH_CHECK(
        !present(*tensor) || (*tensor)->sizes() == normalizedShape, "Expected ", name,
        " to be of same shape as normalized_shape, but got ", name, " of shape ",
        (*tensor)->sizes(), " and normalized_shape = ", normalizedShape);
  }
  TORCH_CHECK(
      input.dim() >= normalized &&
          input.sizes().slice(input.dim() - normalized) == normalizedShape,
      "Given normalized_shape=", normalizedShape, ", expected input with shape [*, ",
      normalizedShape, "], but got input of size", input.sizes());
  Dims statistics(input.sizes().begin(), input.sizes().end());
  for (int64_t i = input.dim() - normalized; i < input.dim(); ++i) {
    statistics[i] = 1;
  }
  set_output_raw_strided(0, input.sizes(), {}, input.options());
  const auto options = input.options().dtype(statisticsType(input));
  set_output_raw_strided(1, statistics, {}, options);
  set_output_raw_strided(2, statistics, {}, options);
}

void LayerNormBackward::meta(
    const at::Tensor& input, const std::optional<at::Tensor>& weight,
    const std::optional<at::Tensor>& bias, const std::array<bool, 3>& mask) {
  if (mask[0]) {
    set_output_raw_strided(0, input.sizes(), {}, input.options());
  }
  if (mask[1] && present(weight)) {
    set_output_raw_strided(1, weight->sizes(), {}, weight->options());
  }
  if (mask[2] && present(bias)) {
    set_output_raw_strided(2, bias->sizes(), {}, bias->options());
  }
}

void BatchNorm::meta(
    const at::Tensor& input, const std::optional<at::Tensor>& weight,
    const std::optional<at::Tensor>& runningMean, bool training) {
  TORCH_CHECK(input.dim() >= 2, "batch_norm expects at least 2 dimensions, got ", input.dim());
  TORCH_CHECK(
      training || present(runningMean), "running_mean must be defined in evaluation mode");
  set_output_raw_strided(
      0, input.sizes(), {}, input.options().memory_format(input.suggest_memory_format()));
  const at::ScalarType type = present(weight) && weight->scalar_type() != input.scalar_type()
                                  ? weight->scalar_type()
                                  : statisticsType(input);
  const std::array<int64_t, 1> sizes{training ? input.size(1) : 0};
  set_output_raw_strided(1, sizes, {}, input.options().dtype(type));
  set_output_raw_strided(2, sizes, {}, input.options().dtype(type));
}

void BatchNormBackward::meta(
    const at::Tensor& input, const std::optional<at::Tensor>& weight,
    const std::array<bool, 3>& mask) {
  if (mask[0]) {
    set_output_raw_strided(
        0, input.sizes(), {}, input.options().memory_format(input.suggest_memory_format()));
  }
  const at::ScalarType type = present(weight) ? weight->scalar_type() : statisticsType(input);
  const std::array<int64_t, 1> sizes{input.size(1)};
  for (const int i : {1, 2}) {
    if (mask[i]) {
      set_output_raw_strided(i, sizes, {}, input.options().dtype(type));
    }
  }
}

void GroupNorm::meta(const at::Tensor& input, int64_t batch, int64_t groups) {
  set_output_raw_strided(0, input.sizes(), {}, input.options());
  const std::array<int64_t, 2> sizes{batch, groups};
  set_output_raw_strided(1, sizes, {}, input.options());
  set_output_raw_strided(2, sizes, {}, input.options());
}

void GroupNormBackward::meta(
    const at::Tensor& input, int64_t channels, const std::array<bool, 3>& mask) {
  if (mask[0]) {
    set_output_raw_strided(0, input.sizes(), {}, input.options());
  }
  const std::array<int64_t, 1> sizes{channels};
  for (const int i : {1, 2}) {
    if (mask[i]) {
      set_output_raw_strided(i, sizes, {}, input.options());
    }
  }
}

void PreluBackward::meta(
    const at::Tensor&, const at::Tensor& self, const at::Tensor& weight) {
  set_output_raw_strided(0, self.sizes(), {}, self.options());
  set_output_raw_strided(1, weight.sizes(), {}, weight.options());
}

void LogSigmoid::meta(const at::Tensor& self) {
  set_output_raw_strided(0, self.sizes(), {}, self.options());
  set_output_raw_strided(1, self.sizes(), {}, self.options());
}

void GluBackward::meta(const at::Tensor& self) {
  set_output_raw_strided(0, self.sizes(), {}, self.options());
}

void ElementLoss::meta(const at::Tensor& self, const at::Tensor& target, int64_t reduction) {
  if (reduction != at::Reduction::None) {
    set_output_raw_strided(0, {}, {}, self.options());
    return;
  }
  set_output_raw_strided(
      0, at::infer_size_dimvector(self.sizes(), target.sizes()), {}, self.options());
}

void NllLoss2d::meta(const at::Tensor& self, const at::Tensor& target, int64_t reduction) {
  TORCH_CHECK(
      target.dim() == 3 && self.dim() == 4,
      "only batches of spatial targets supported (3D tensors) with input of 4 dimensions, got ",
      target.sizes(), " and ", self.sizes());
  TORCH_CHECK(
      self.size(0) == target.size(0) && self.size(2) == target.size(1) &&
          self.size(3) == target.size(2),
      "size mismatch (got input: ", self.sizes(), " , target: ", target.sizes());
  if (reduction == at::Reduction::None) {
    set_output_raw_strided(0, target.sizes(), {}, self.options());
  } else {
    set_output_raw_strided(0, {}, {}, self.options());
  }
  set_output_raw_strided(1, {}, {}, self.options());
}

void Like::meta(const at::Tensor& self) {
  set_output_raw_strided(0, self.sizes(), {}, self.options());
}

void Embedding::meta(const at::Tensor& weight, const at::Tensor& indices) {
  TORCH_CHECK(weight.dim() == 2, "'weight' must be 2-D, got ", weight.dim(), "-D");
  TORCH_CHECK(
      indices.scalar_type() == at::ScalarType::Long || indices.scalar_type() == at::ScalarType::Int,
      "Expected tensor for argument 'indices' to have one of the following scalar types: Long, Int; "
      "but got ", indices.scalar_type(), " instead");
  Dims sizes(indices.sizes().begin(), indices.sizes().end());
  sizes.push_back(weight.size(1));
  set_output_raw_strided(0, sizes, {}, weight.options());
}

void EmbeddingBackward::meta(
    const at::Tensor& grad, const at::Tensor& indices, int64_t numWeights) {
  TORCH_CHECK(
      grad.dim() >= 1 && grad.numel() == indices.numel() * grad.size(-1),
      "embedding_dense_backward: grad_output of shape ", grad.sizes(),
      " does not fit indices of shape ", indices.sizes());
  const std::array<int64_t, 2> sizes{numWeights, grad.size(-1)};
  set_output_raw_strided(0, sizes, {}, grad.options());
}

void IndexSelect::meta(const at::Tensor& self, int64_t dim, const at::Tensor& index) {
  TORCH_CHECK_INDEX(
      index.dim() <= 1, "index_select(): Index is supposed to be a vector, but got dim: ",
      index.dim());
  TORCH_CHECK(
      index.scalar_type() == at::ScalarType::Long || index.scalar_type() == at::ScalarType::Int,
      "index_select(): Expected dtype int32 or int64 for index, got ", index.scalar_type());
  dim = at::maybe_wrap_dim(dim, self.dim());
  Dims sizes(self.sizes().begin(), self.sizes().end());
  if (self.dim() != 0) {
    sizes[dim] = index.numel();
  } else {
    TORCH_CHECK(
        index.numel() == 1,
        "index_select(): Index to scalar can have only 1 value, got ", index.numel(), " value(s)");
  }
  set_output_raw_strided(0, sizes, {}, self.options());
}

void Take::meta(const at::Tensor& self, const at::Tensor& index) {
  TORCH_CHECK(
      index.scalar_type() == at::ScalarType::Long,
      "take(): Expected a long tensor for index, but got ", index.scalar_type());
  TORCH_CHECK_INDEX(
      self.numel() != 0 || index.numel() == 0, "take(): tried to take from an empty tensor");
  set_output_raw_strided(0, index.sizes(), {}, self.options());
}

void Search::meta(const at::Tensor& self, bool int32) {
  set_output_raw_strided(
      0, self.sizes(), {},
      self.options().dtype(int32 ? at::ScalarType::Int : at::ScalarType::Long));
}

void Flip::meta(const at::Tensor& self, at::IntArrayRef dims) {
  at::dim_list_to_bitset(dims, self.dim());  // checks for range and repetition
  set_output_raw_strided(0, self.sizes(), {}, self.options());
}

void Roll::meta(const at::Tensor& self, at::IntArrayRef shifts, at::IntArrayRef dims) {
  TORCH_CHECK(!shifts.empty(), "`shifts` required");
  TORCH_CHECK(
      shifts.size() == dims.size() || (dims.empty() && shifts.size() == 1),
      "shifts and dimensions must align. shifts: ", shifts.size(), ", dims:", dims.size());
  for (const int64_t dim : dims) {
    TORCH_CHECK_INDEX(
        self.dim() != 0, "Dimension specified as ", dim, " but tensor has no dimensions");
    at::maybe_wrap_dim(dim, self.dim());
  }
  set_output_raw_strided(0, self.sizes(), {}, self.options());
}

void ConstantPad::meta(const at::Tensor& self, at::IntArrayRef pad) {
  TORCH_CHECK(
      pad.size() % 2 == 0, "Length of pad must be even but instead it equals ", pad.size());
  const int64_t padded = static_cast<int64_t>(pad.size()) / 2;
  TORCH_CHECK(
      self.dim() >= padded,
      "Length of pad should be no more than twice the number of dimensions of the input. Pad "
      "length is ", pad.size(), "while the input has ", self.dim(), "dimensions.");
  Dims sizes(self.sizes().begin(), self.sizes().end());
  for (int64_t i = 0; i < padded; ++i) {
    int64_t& size = sizes[self.dim() - 1 - i];
    const int64_t result = size + pad[2 * i] + pad[2 * i + 1];
    TORCH_CHECK(
        result >= 0, "The input size ", size, ", plus negative padding ", pad[2 * i], " and ",
        pad[2 * i + 1],
        " resulted in a negative output size, which is invalid. Check dimension ",
        self.dim() - 1 - i, " of your input.");
    size = result;
  }
  set_output_raw_strided(
      0, sizes, {}, self.options().memory_format(self.suggest_memory_format()));
}

namespace {

void checkSteps(double from, double to, double by) {
  TORCH_CHECK(by != 0, "step must be nonzero");
  TORCH_CHECK(std::isfinite(from) && std::isfinite(to), "unsupported range: ", from, " -> ", to);
  TORCH_CHECK(
      (by > 0 && to >= from) || (by < 0 && to <= from),
      "upper bound and lower bound inconsistent with step sign");
}

}  // namespace

// Steps are taken in the arithmetic of the result: whole numbers if that is whole.
void Arange::meta(const c10::Scalar& start, const c10::Scalar& end, const c10::Scalar& step) {
  int64_t count = 0;
  if (at::isIntegralType(maybe_get_output().scalar_type(), /*includeBool=*/false)) {
    const int64_t from = start.to<int64_t>();
    const int64_t to = end.to<int64_t>();
    const int64_t by = step.to<int64_t>();
    checkSteps(static_cast<double>(from), static_cast<double>(to), static_cast<double>(by));
    const int64_t distance = to - from;
    count = distance / by + (distance % by != 0 ? 1 : 0);
  } else {
    checkSteps(start.toDouble(), end.toDouble(), step.toDouble());
    count = static_cast<int64_t>(
        std::ceil((end.toDouble() - start.toDouble()) / step.toDouble()));
  }
  set_output_raw_strided(0, {count}, {}, maybe_get_output().options());
}

void Range::meta(const c10::Scalar& start, const c10::Scalar& end, const c10::Scalar& step) {
  checkSteps(start.toDouble(), end.toDouble(), step.toDouble());
  const int64_t count =
      static_cast<int64_t>((end.toDouble() - start.toDouble()) / step.toDouble() + 1);
  set_output_raw_strided(0, {count}, {}, maybe_get_output().options());
}

void Linspace::meta(int64_t steps) {
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative, got ", steps);
  set_output_raw_strided(0, {steps}, {}, maybe_get_output().options());
}

void Eye::meta(int64_t rows, int64_t columns) {
  TORCH_CHECK(rows >= 0, "n must be greater or equal to 0, got ", rows);
  TORCH_CHECK(columns >= 0, "m must be greater or equal to 0, got ", columns);
  set_output_raw_strided(0, {rows, columns}, {}, maybe_get_output().options());
}

}  // namespace torch_npu::aten::shapes
