// Normalisations and their gradients. Sums of 16-bit types are taken in FLOAT.
#include "emulator/ops/Kernel.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/native_batch_norm.h>
#include <ATen/ops/native_batch_norm_backward.h>
#include <ATen/ops/native_group_norm.h>
#include <ATen/ops/native_group_norm_backward.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/sum.h>

#include <array>
#include <sstream>

namespace npu_emulator::ops {

namespace {

ScalarType sumType(ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16 ? at::kFloat : type;
}

OptionalTensor asType(const OptionalTensor& tensor, ScalarType type) {
  return tensor ? OptionalTensor(tensor->to(type)) : tensor;
}

// Statistics come in shapes that differ in ones only; absent and empty ones are not asked for.
void writeStatistic(const OptionalTensor& out, const Tensor& value) {
  if (out && out->numel() == value.numel() && value.numel() != 0) {
    out->copy_(value.reshape(out->sizes()));
  }
}

void writeAsked(const OptionalTensor& out, const Tensor& value) {
  if (out && value.defined()) {
    out->copy_(value.reshape(out->sizes()));
  }
}

std::array<bool, 3> maskOf(const Bools& outputMask) {
  if (outputMask.size() != 3) {
    refuse("outputMask has " + std::to_string(outputMask.size()) + " entries, expected 3");
  }
  return {outputMask[0] != 0, outputMask[1] != 0, outputMask[2] != 0};
}

void expectAsked(bool asked, const char* name, const OptionalTensor& out) {
  if (asked && !out) {
    refuse(std::string(name) + " is null, but outputMask asks for it");
  }
}

void expectNormalized(const Tensor& input, const Ints& normalizedShape) {
  const auto rank = static_cast<int64_t>(normalizedShape.size());
  if (rank == 0 || rank > input.dim() ||
      input.sizes().slice(input.dim() - rank) != IntArrayRef(normalizedShape)) {
    std::ostringstream message;
    message << "normalizedShape " << IntArrayRef(normalizedShape)
            << " is not the end of the input's shape " << input.sizes();
    refuse(message.str());
  }
}

// The last dimensions of x, those of gamma, as indices.
Ints trailingDims(const Tensor& x, const Tensor& gamma) {
  Ints dims;
  for (int64_t dim = x.dim() - gamma.dim(); dim < x.dim(); ++dim) {
    dims.push_back(dim);
  }
  return dims;
}

Ints leadingDims(const Tensor& x, const Tensor& gamma) {
  Ints dims;
  for (int64_t dim = 0; dim < x.dim() - gamma.dim(); ++dim) {
    dims.push_back(dim);
  }
  return dims;
}

void expectStatisticOf(
    const char* name, const Tensor& statistic, const Tensor& x, const Tensor& gamma) {
  const auto sizes = reducedSizes(x.sizes(), trailingDims(x, gamma), /*keepDim=*/true);
  int64_t rows = 1;
  for (const int64_t size : sizes) {
    rows *= size;
  }
  if (statistic.numel() != rows) {
    expectSizes(name, statistic, sizes);
  }
}

void rmsNorm(
    const Tensor& x, const Tensor& gamma, double epsilon, const Tensor& yOut,
    const OptionalTensor& rstdOut) {
  const ScalarType type = sumType(x.scalar_type());
  const Tensor wide = x.to(type);
  const Tensor rstd =
      (wide * wide).mean(trailingDims(x, gamma), /*keepdim=*/true).add_(epsilon).rsqrt_();
  yOut.copy_((wide * rstd).mul_(gamma.to(type)));
  writeStatistic(rstdOut, rstd);
}

}  // namespace

Work LayerNorm(
    Tensor input, Ints normalizedShape, OptionalTensor weightOptional, OptionalTensor biasOptional,
    double eps, Tensor out, OptionalTensor meanOutOptional, OptionalTensor rstdOutOptional) {
  expectNormalized(input, normalizedShape);
  expectSameSizes("out", out, "input", input);
  return [=] {
    const ScalarType type = sumType(input.scalar_type());
    const auto [result, mean, rstd] = at::native_layer_norm(
        input.to(type), normalizedShape, asType(weightOptional, type), asType(biasOptional, type),
        eps);
    out.copy_(result);
    writeStatistic(meanOutOptional, mean);
    writeStatistic(rstdOutOptional, rstd);
  };
}

Work FastLayerNorm(
    Tensor input, Ints normalizedShape, OptionalTensor weightOptional, OptionalTensor biasOptional,
    double eps, Tensor out, OptionalTensor meanOutOptional, OptionalTensor rstdOutOptional) {
  return LayerNorm(
      input, normalizedShape, weightOptional, biasOptional, eps, out, meanOutOptional,
      rstdOutOptional);
}

Work LayerNormBackward(
    Tensor gradOut, Tensor input, Ints normalizedShape, Tensor mean, Tensor rstd,
    OptionalTensor weightOptional, OptionalTensor biasOptional, Bools outputMask,
    OptionalTensor gradInputOut, OptionalTensor gradWeightOut, OptionalTensor gradBiasOut) {
  expectNormalized(input, normalizedShape);
  expectSameSizes("gradOut", gradOut, "input", input);
  const auto mask = maskOf(outputMask);
  expectAsked(mask[0], "gradInputOut", gradInputOut);
  expectAsked(mask[1], "gradWeightOut", gradWeightOut);
  expectAsked(mask[2], "gradBiasOut", gradBiasOut);
  return [=] {
    const ScalarType type = sumType(input.scalar_type());
    const auto [gradInput, gradWeight, gradBias] = at::native_layer_norm_backward(
        gradOut.to(type).contiguous(), input.to(type).contiguous(), normalizedShape,
        mean.to(type).contiguous(), rstd.to(type).contiguous(), asType(weightOptional, type),
        asType(biasOptional, type), mask);
    writeAsked(gradInputOut, gradInput);
    writeAsked(gradWeightOut, gradWeight);
    writeAsked(gradBiasOut, gradBias);
  };
}

// x / rms(x) * gamma, where rms goes over the dimensions of gamma.
Work RmsNorm(Tensor x, Tensor gamma, double epsilon, Tensor yOut, Tensor rstdOut) {
  expectNormalized(x, gamma.sizes().vec());
  expectSameSizes("yOut", yOut, "x", x);
  expectStatisticOf("rstdOut", rstdOut, x, gamma);
  return [=] { rmsNorm(x, gamma, epsilon, yOut, rstdOut); };
}

// The same with 1 + gamma.
Work GemmaRmsNorm(Tensor x, Tensor gamma, double epsilon, Tensor yOut, Tensor rstdOut) {
  expectNormalized(x, gamma.sizes().vec());
  expectSameSizes("yOut", yOut, "x", x);
  expectStatisticOf("rstdOut", rstdOut, x, gamma);
  return [=] { rmsNorm(x, gamma.to(sumType(x.scalar_type())) + 1, epsilon, yOut, rstdOut); };
}

Work RmsNormGrad(
    Tensor dy, Tensor x, Tensor rstd, Tensor gamma, Tensor dxOut, Tensor dgammaOut) {
  expectNormalized(x, gamma.sizes().vec());
  expectSameSizes("dy", dy, "x", x);
  expectSameSizes("dxOut", dxOut, "x", x);
  expectSameSizes("dgammaOut", dgammaOut, "gamma", gamma);
  expectStatisticOf("rstd", rstd, x, gamma);
  return [=] {
    const ScalarType type = sumType(x.scalar_type());
    const Ints dims = trailingDims(x, gamma);
    const Tensor scale = rstd.to(type).reshape(reducedSizes(x.sizes(), dims, /*keepDim=*/true));
    const Tensor normalized = x.to(type) * scale;
    const Tensor grad = dy.to(type);
    const Tensor product = grad * normalized;
    const Ints rows = leadingDims(x, gamma);
    dgammaOut.copy_(rows.empty() ? product : at::sum(product, rows));
    const Tensor gradNormalized = grad * gamma.to(type);
    const Tensor projection =
        (gradNormalized * normalized).mean(dims, /*keepdim=*/true);
    dxOut.copy_((gradNormalized - normalized * projection).mul_(scale));
  };
}

Work AddRmsNorm(
    Tensor x1, Tensor x2, Tensor gamma, double epsilon, Tensor yOut, Tensor rstdOut, Tensor xOut) {
  expectSameSizes("x2", x2, "x1", x1);
  expectNormalized(x1, gamma.sizes().vec());
  expectSameSizes("yOut", yOut, "x1", x1);
  expectSameSizes("xOut", xOut, "x1", x1);
  expectStatisticOf("rstdOut", rstdOut, x1, gamma);
  return [=] {
    xOut.copy_(x1 + x2);
    rmsNorm(xOut, gamma, epsilon, yOut, rstdOut);
  };
}

Work GroupNorm(
    Tensor self, OptionalTensor gamma, OptionalTensor beta, int64_t N, int64_t C, int64_t HxW,
    int64_t group, double eps, Tensor out, Tensor meanOut, Tensor rstdOut) {
  expectSameSizes("out", out, "self", self);
  if (N * C * HxW != self.numel() || group <= 0 || C % group != 0) {
    refuse(
        "N, C, HxW and group are " + std::to_string(N) + ", " + std::to_string(C) + ", " +
        std::to_string(HxW) + " and " + std::to_string(group) + ", which do not fit self");
  }
  return [=] {
    const ScalarType type = sumType(self.scalar_type());
    const auto [result, mean, rstd] = at::native_group_norm(
        self.to(type).contiguous(), asType(gamma, type), asType(beta, type), N, C, HxW, group, eps);
    out.copy_(result);
    writeStatistic(meanOut, mean);
    writeStatistic(rstdOut, rstd);
  };
}

Work GroupNormSilu(
    Tensor self, OptionalTensor gamma, OptionalTensor beta, int64_t group, double eps, Tensor out,
    Tensor meanOut, Tensor rstdOut) {
  expectSameSizes("out", out, "self", self);
  if (self.dim() < 2 || group <= 0 || self.size(1) % group != 0) {
    refuse("dimension 1 of self cannot be split into " + std::to_string(group) + " groups");
  }
  return [=] {
    const ScalarType type = sumType(self.scalar_type());
    const int64_t plane = self.numel() == 0 ? 0 : self.numel() / (self.size(0) * self.size(1));
    const auto [result, mean, rstd] = at::native_group_norm(
        self.to(type).contiguous(), asType(gamma, type), asType(beta, type), self.size(0),
        self.size(1), plane, group, eps);
    out.copy_(at::silu(result));
    writeStatistic(meanOut, mean);
    writeStatistic(rstdOut, rstd);
  };
}

Work GroupNormBackward(
    Tensor gradOut, Tensor input, Tensor mean, Tensor rstd, OptionalTensor gamma, int64_t N,
    int64_t C, int64_t HxW, int64_t group, Bools outputMask, OptionalTensor gradInput,
    OptionalTensor gradGammaOut, OptionalTensor gradBetaOut) {
  expectSameSizes("gradOut", gradOut, "input", input);
  const auto mask = maskOf(outputMask);
  expectAsked(mask[0], "gradInput", gradInput);
  expectAsked(mask[1], "gradGammaOut", gradGammaOut);
  expectAsked(mask[2], "gradBetaOut", gradBetaOut);
  return [=] {
    const ScalarType type = sumType(input.scalar_type());
    const auto [toInput, toGamma, toBeta] = at::native_group_norm_backward(
        gradOut.to(type).contiguous(), input.to(type).contiguous(),
        mean.to(type).reshape({N, group}), rstd.to(type).reshape({N, group}), asType(gamma, type),
        N, C, HxW, group, mask);
    writeAsked(gradInput, toInput);
    writeAsked(gradGammaOut, toGamma);
    writeAsked(gradBetaOut, toBeta);
  };
}

Work BatchNorm(
    Tensor input, OptionalTensor weight, OptionalTensor bias, OptionalTensor runningMean,
    OptionalTensor runningVar, bool training, double momentum, double eps, Tensor output,
    OptionalTensor saveMean, OptionalTensor saveInvstd) {
  expectSameSizes("output", output, "input", input);
  if (input.dim() < 2) {
    refuse("input must have at least 2 dimensions");
  }
  if (!training && (!runningMean || !runningVar)) {
    refuse("runningMean and runningVar must be given when training is false");
  }
  return [=] {
    const ScalarType type = sumType(input.scalar_type());
    const OptionalTensor mean = asType(runningMean, type);
    const OptionalTensor variance = asType(runningVar, type);
    const auto [result, saved, inverse] = at::native_batch_norm(
        input.to(type), asType(weight, type), asType(bias, type), mean, variance, training,
        momentum, eps);
    output.copy_(result);
    if (training) {
      writeAsked(runningMean, mean.value_or(Tensor()));
      writeAsked(runningVar, variance.value_or(Tensor()));
    }
    writeStatistic(saveMean, saved);
    writeStatistic(saveInvstd, inverse);
  };
}

Work BatchNormBackward(
    Tensor gradOut, Tensor input, OptionalTensor weight, OptionalTensor runningMean,
    OptionalTensor runningVar, OptionalTensor saveMean, OptionalTensor saveInvstd, bool training,
    double eps, Bools outputMask, OptionalTensor gradInput, OptionalTensor gradWeight,
    OptionalTensor gradBias) {
  expectSameSizes("gradOut", gradOut, "input", input);
  const auto mask = maskOf(outputMask);
  expectAsked(mask[0], "gradInput", gradInput);
  expectAsked(mask[1], "gradWeight", gradWeight);
  expectAsked(mask[2], "gradBias", gradBias);
  return [=] {
    const ScalarType type = sumType(input.scalar_type());
    const auto [toInput, toWeight, toBias] = at::native_batch_norm_backward(
        gradOut.to(type), input.to(type), asType(weight, type), asType(runningMean, type),
        asType(runningVar, type), asType(saveMean, type), asType(saveInvstd, type), training, eps,
        mask);
    writeAsked(gradInput, toInput);
    writeAsked(gradWeight, toWeight);
    writeAsked(gradBias, toBias);
  };
}

}  // namespace npu_emulator::ops
