// Root-mean-square normalisation. Both directions or neither: with the fused forward, autograd calls
// the fused backward.
#include <torch/library.h>

#include <limits>
#include <tuple>

#include "aten/Arguments.h"
#include "aten/Structured.h"

namespace torch_npu::aten {
namespace {

double smallestStep(at::ScalarType type) {
  switch (type) {
    case at::ScalarType::Half:
      return std::numeric_limits<c10::Half>::epsilon();
    case at::ScalarType::BFloat16:
      return std::numeric_limits<c10::BFloat16>::epsilon();
    case at::ScalarType::Double:
      return std::numeric_limits<double>::epsilon();
    default:
      return std::numeric_limits<float>::epsilon();
  }
}

at::Tensor gammaOf(
    const std::optional<at::Tensor>& weight, const at::Tensor& input, at::IntArrayRef shape) {
  if (present(weight)) {
    return *weight;
  }
  at::Tensor ones = allocate(shape, {}, input.options());
  if (ones.numel() != 0) {
    launch(cann::aclnnInplaceOne, ones);
  }
  return ones;
}

std::tuple<at::Tensor, at::Tensor> rmsNorm(
    const at::Tensor& input, at::IntArrayRef normalizedShape,
    const std::optional<at::Tensor>& weight, std::optional<double> eps) {
  checkFloating("rms_norm", input);
  const OnDevice scope(input);
  const int64_t kept = input.dim() - static_cast<int64_t>(normalizedShape.size());
  TORCH_CHECK(
      kept >= 0 && input.sizes().slice(kept) == normalizedShape, "Given normalized_shape=",
      normalizedShape, ", expected input with shape [*, ", normalizedShape,
      "], but got input of size ", input.sizes());
  Dims statistics(input.sizes().begin(), input.sizes().end());
  std::fill(statistics.begin() + kept, statistics.end(), 1);
  at::Tensor out = allocate(input.sizes(), {}, input.options());
  at::Tensor rstd = allocate(
      statistics, {},
      input.options().dtype(
          input.scalar_type() == at::ScalarType::Double ? at::ScalarType::Double
                                                        : at::ScalarType::Float));
  if (out.numel() != 0) {
    launch(
        cann::aclnnRmsNorm, input, gammaOf(weight, input, normalizedShape),
        eps.value_or(smallestStep(input.scalar_type())), out, rstd);
  }
  return {std::move(out), std::move(rstd)};
}

std::tuple<at::Tensor, at::Tensor> rmsNormBackward(
    const at::Tensor& gradOut, const at::Tensor& input, at::IntArrayRef normalizedShape,
    const at::Tensor& rstd, const std::optional<at::Tensor>& weight, std::array<bool, 2> mask) {
  const OnDevice scope(input);
  const at::Tensor gamma = gammaOf(weight, input, normalizedShape);
  at::Tensor gradInput = allocate(input.sizes(), {}, input.options());
  // aclnn sums the gradient of gamma in float32, whatever gamma is.
  at::Tensor gradGamma = allocate(normalizedShape, {}, rstd.options());
  if (input.numel() != 0) {
    launch(cann::aclnnRmsNormGrad, gradOut, input, rstd, gamma, gradInput, gradGamma);
  } else {
    gradGamma.zero_();
  }
  const bool wantsGamma = mask[1] && present(weight);
  return {
      mask[0] ? std::move(gradInput) : at::Tensor(),
      wantsGamma ? *operand(gradGamma, weight->scalar_type()) : at::Tensor()};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("_fused_rms_norm", &rmsNorm);
  library.impl("_fused_rms_norm_backward", &rmsNormBackward);
}

}  // namespace
}  // namespace torch_npu::aten
