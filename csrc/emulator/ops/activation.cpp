// Activation functions and their gradients.
#include "emulator/ops/Pointwise.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/celu.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/elu_backward.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/glu.h>
#include <ATen/ops/glu_backward.h>
#include <ATen/ops/hardshrink.h>
#include <ATen/ops/hardshrink_backward.h>
#include <ATen/ops/hardsigmoid.h>
#include <ATen/ops/hardsigmoid_backward.h>
#include <ATen/ops/hardswish.h>
#include <ATen/ops/hardswish_backward.h>
#include <ATen/ops/hardtanh_backward.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/leaky_relu_backward.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/log_sigmoid_backward.h>
#include <ATen/ops/log_sigmoid_forward.h>
#include <ATen/ops/logit.h>
#include <ATen/ops/logit_backward.h>
#include <ATen/ops/mish.h>
#include <ATen/ops/mish_backward.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/_prelu_kernel.h>
#include <ATen/ops/_prelu_kernel_backward.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sigmoid_backward.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
#include <ATen/ops/softplus.h>
#include <ATen/ops/softplus_backward.h>
#include <ATen/ops/softshrink.h>
#include <ATen/ops/softshrink_backward.h>
#include <ATen/ops/tanh_backward.h>
#include <ATen/ops/threshold_backward.h>

namespace npu_emulator::ops {

namespace {

// Writes a gradient that `compute(target)` gives in the common type of grad and self.
template <class Compute>
Work gradient(Tensor grad, Tensor self, Tensor out, Compute compute) {
  expectBroadcastOut(out, {&grad, &self});
  return [=]() mutable {
    writeAs(out, c10::promoteTypes(grad.scalar_type(), self.scalar_type()), compute);
  };
}

template <class Compute>
Work pointwise(Tensor self, Tensor out, Compute compute) {
  expectSameSizes("out", out, "self", self);
  return [=]() mutable { writeAs(out, self.scalar_type(), compute); };
}

std::string geluKind(int64_t approximate) {
  if (approximate != 0 && approximate != 1) {
    refuse("approximate is " + std::to_string(approximate) + ", expected 0 (erf) or 1 (tanh)");
  }
  return approximate == 0 ? "none" : "tanh";
}

Work gelu(Tensor self, std::string approximate, Tensor out) {
  expectSameSizes("out", out, "self", self);
  return [=]() mutable {
    writeExactly(out, self.scalar_type(), [&](Tensor& target) {
      at::gelu_out(target, self, approximate);
    });
  };
}

void expectGeluKind(const std::string& approximate) {
  if (approximate != "none" && approximate != "tanh") {
    refuse("approximate is '" + approximate + "', expected 'none' or 'tanh'");
  }
}

// One slope for all channels, or one for each entry of dimension 1.
Tensor weightAlong(const Tensor& self, const Tensor& weight) {
  if (weight.numel() == 1 || self.dim() < 2) {
    return weight.reshape(std::vector<int64_t>(self.dim(), weight.numel() == 1 ? 1 : -1));
  }
  std::vector<int64_t> sizes(self.dim(), 1);
  sizes[1] = weight.numel();
  return weight.reshape(sizes);
}

// The slope x * sigmoid(1.702 x) approximates gelu.
constexpr double kFastGeluSlope = 1.702;

}  // namespace

Work Relu(Tensor self, Tensor out) {
  return unary(self, out, at::relu_out);
}
Work InplaceRelu(Tensor selfRef) {
  return Relu(selfRef, selfRef);
}
Work ThresholdBackward(Tensor gradOutput, Tensor self, Scalar threshold, Tensor out) {
  return gradient(gradOutput, self, out, [=](Tensor& target) {
    at::threshold_backward_out(target, gradOutput, self, threshold);
  });
}

Work Silu(Tensor self, Tensor out) {
  return unary(self, out, at::silu_out);
}
Work SiluBackward(Tensor gradOutput, Tensor self, Tensor gradInput) {
  return binary(gradOutput, self, gradInput, at::silu_backward_out);
}

Work Gelu(Tensor self, Tensor out) {
  return gelu(self, "none", out);
}
Work GeluV2(Tensor x, int64_t approximate, Tensor y) {
  return gelu(x, geluKind(approximate), y);
}
Work GeluBackwardV2(Tensor gradOutput, Tensor self, Text approximate, Tensor gradInput) {
  expectGeluKind(approximate);
  expectBroadcastOut(gradInput, {&gradOutput, &self});
  return [=]() mutable {
    const ScalarType type = c10::promoteTypes(gradOutput.scalar_type(), self.scalar_type());
    writeExactly(gradInput, type, [&](Tensor& target) {
      at::gelu_backward_out(target, gradOutput.to(type), self.to(type), approximate);
    });
  };
}

Work GeluBackward(Tensor gradOutput, Tensor self, Tensor gradInput) {
  return GeluBackwardV2(gradOutput, self, "none", gradInput);
}

Work FastGelu(Tensor self, Tensor out) {
  expectSameSizes("out", out, "self", self);
  return [=] { out.copy_(at::mul(self, at::sigmoid(at::mul(self, kFastGeluSlope)))); };
}
Work FastGeluBackward(Tensor gradOutput, Tensor self, Tensor gradInput) {
  expectBroadcastOut(gradInput, {&gradOutput, &self});
  return [=] {
    const Tensor gate = at::sigmoid(at::mul(self, kFastGeluSlope));
    const Tensor slope = gate + self * kFastGeluSlope * gate * (1 - gate);
    gradInput.copy_(gradOutput * slope);
  };
}

Work SigmoidBackward(Tensor gradOutput, Tensor output, Tensor gradInput) {
  return binary(gradOutput, output, gradInput, at::sigmoid_backward_out);
}
Work TanhBackward(Tensor gradOutput, Tensor output, Tensor gradInput) {
  return binary(gradOutput, output, gradInput, at::tanh_backward_out);
}

Work LeakyRelu(Tensor self, Scalar negativeSlope, Tensor out) {
  return binary(self, negativeSlope, out, at::leaky_relu_out);
}
Work InplaceLeakyRelu(Tensor selfRef, Scalar negativeSlope) {
  return LeakyRelu(selfRef, negativeSlope, selfRef);
}
Work LeakyReluBackward(
    Tensor gradOutput, Tensor self, Scalar negativeSlope, bool selfIsResult, Tensor out) {
  return gradient(gradOutput, self, out, [=](Tensor& target) {
    at::leaky_relu_backward_out(target, gradOutput, self, negativeSlope, selfIsResult);
  });
}

Work Hardswish(Tensor self, Tensor out) {
  return unary(self, out, at::hardswish_out);
}
Work InplaceHardswish(Tensor self) {
  return Hardswish(self, self);
}
Work HardswishBackward(Tensor gradOutput, Tensor self, Tensor out) {
  return binary(gradOutput, self, out, at::hardswish_backward_out);
}
Work HardswishBackwardV2(Tensor gradOutput, Tensor self, Tensor out) {
  return HardswishBackward(gradOutput, self, out);
}
Work Hardsigmoid(Tensor self, Tensor out) {
  return unary(self, out, at::hardsigmoid_out);
}
Work InplaceHardsigmoid(Tensor self) {
  return Hardsigmoid(self, self);
}
Work HardsigmoidBackward(Tensor gradOutput, Tensor self, Tensor out) {
  return binary(gradOutput, self, out, at::hardsigmoid_backward_out);
}
Work HardtanhBackward(Tensor gradOutput, Tensor self, Scalar min, Scalar max, Tensor out) {
  return gradient(gradOutput, self, out, [=](Tensor& target) {
    at::hardtanh_backward_out(target, gradOutput, self, min, max);
  });
}

Work Softplus(Tensor self, Scalar beta, Scalar threshold, Tensor out) {
  return pointwise(self, out, [=](Tensor& target) {
    at::softplus_out(target, self, beta, threshold);
  });
}
Work SoftplusBackward(
    Tensor gradOutput, Tensor self, Scalar beta, Scalar threshold, Tensor gradInput) {
  return gradient(gradOutput, self, gradInput, [=](Tensor& target) {
    at::softplus_backward_out(target, gradOutput, self, beta, threshold);
  });
}

Work Mish(Tensor self, Tensor out) {
  return unary(self, out, at::mish_out);
}
Work InplaceMish(Tensor selfRef) {
  return Mish(selfRef, selfRef);
}
Work MishBackward(Tensor gradOutput, Tensor self, Tensor gradInput) {
  expectBroadcastOut(gradInput, {&gradOutput, &self});
  return [=] { gradInput.copy_(at::mish_backward(gradOutput, self)); };
}

Work Elu(Tensor self, Scalar alpha, Scalar scale, Scalar inputScale, Tensor out) {
  return pointwise(self, out, [=](Tensor& target) {
    at::elu_out(target, self, alpha, scale, inputScale);
  });
}
Work InplaceElu(Tensor selfRef, Scalar alpha, Scalar scale, Scalar inputScale) {
  return Elu(selfRef, alpha, scale, inputScale, selfRef);
}
Work EluBackward(
    Tensor gradOutput, Scalar alpha, Scalar scale, Scalar inputScale, bool isResult,
    Tensor selfOrResult, Tensor gradInput) {
  return gradient(gradOutput, selfOrResult, gradInput, [=](Tensor& target) {
    at::elu_backward_out(target, gradOutput, alpha, scale, inputScale, isResult, selfOrResult);
  });
}
Work Celu(Tensor self, Scalar alpha, Tensor out) {
  expectSameSizes("out", out, "self", self);
  return [=] { out.copy_(at::celu(self, alpha)); };
}
Work InplaceCelu(Tensor selfRef, Scalar alpha) {
  return Celu(selfRef, alpha, selfRef);
}

Work Softshrink(Tensor self, Scalar lambd, Tensor out) {
  return binary(self, lambd, out, at::softshrink_out);
}
Work SoftshrinkBackward(Tensor gradOutput, Tensor self, Scalar lambda, Tensor gradInput) {
  return gradient(gradOutput, self, gradInput, [=](Tensor& target) {
    at::softshrink_backward_out(target, gradOutput, self, lambda);
  });
}
Work Hardshrink(Tensor self, Scalar lambd, Tensor out) {
  return binary(self, lambd, out, at::hardshrink_out);
}
Work HardshrinkBackward(Tensor gradOutput, Tensor self, Scalar lambd, Tensor gradInput) {
  return gradient(gradOutput, self, gradInput, [=](Tensor& target) {
    at::hardshrink_backward_out(target, gradOutput, self, lambd);
  });
}

Work LogSigmoid(Tensor self, Tensor out) {
  return unary(self, out, at::log_sigmoid_out);
}
// buffer carries what the gradient needs; callers may give it no elements.
Work LogSigmoidForward(Tensor self, Tensor out, Tensor buffer) {
  expectSameSizes("out", out, "self", self);
  return [=] {
    const auto [output, kept] = at::log_sigmoid_forward(self);
    out.copy_(output);
    if (buffer.sizes() == kept.sizes()) {
      buffer.copy_(kept);
    }
  };
}
Work LogSigmoidBackward(Tensor gradOutput, Tensor self, Tensor /*buffer*/, Tensor gradInput) {
  expectBroadcastOut(gradInput, {&gradOutput, &self});
  return [=] {
    // The derivative of log(sigmoid(x)) is sigmoid(-x).
    gradInput.copy_(gradOutput * at::sigmoid(-self));
  };
}

Work Logit(Tensor input, double eps, Tensor out) {
  expectSameSizes("out", out, "input", input);
  return [=] { out.copy_(at::logit(input, eps < 0 ? std::nullopt : std::optional(eps))); };
}
Work LogitGrad(Tensor x, Tensor dy, double eps, Tensor out) {
  expectSameSizes("out", out, "x", x);
  return [=] {
    out.copy_(at::logit_backward(dy, x, eps < 0 ? std::nullopt : std::optional(eps)));
  };
}

Work Prelu(Tensor self, Tensor weight, Tensor out) {
  expectSameSizes("out", out, "self", self);
  return [=] { out.copy_(at::_prelu_kernel(self, weightAlong(self, weight))); };
}
Work PreluBackward(
    Tensor gradOutput, Tensor self, Tensor weight, Tensor gradInput, Tensor gradWeight) {
  expectSameSizes("gradInput", gradInput, "self", self);
  return [=] {
    const auto [toInput, toWeight] =
        at::_prelu_kernel_backward(gradOutput, self, weightAlong(self, weight));
    gradInput.copy_(toInput);
    gradWeight.copy_(toWeight.sum_to_size(weightAlong(self, weight).sizes())
                         .reshape(gradWeight.sizes()));
  };
}

namespace {

std::vector<int64_t> halvedSizes(const Tensor& tensor, int64_t dim, int64_t* wrapped) {
  if (tensor.dim() == 0) {
    refuse("a tensor without dimensions cannot be halved");
  }
  *wrapped = wrapDim(dim, tensor.dim());
  std::vector<int64_t> sizes = tensor.sizes().vec();
  if (sizes[*wrapped] % 2 != 0) {
    refuse(
        "dimension " + std::to_string(*wrapped) + " has size " + std::to_string(sizes[*wrapped]) +
        ", expected an even one");
  }
  sizes[*wrapped] /= 2;
  return sizes;
}

}  // namespace

Work Glu(Tensor self, int64_t dim, Tensor out) {
  expectSizes("out", out, halvedSizes(self, dim, &dim));
  return [=] { out.copy_(at::glu(self, dim)); };
}
Work GluBackward(Tensor gradOut, Tensor self, int64_t dim, Tensor out) {
  expectSizes("gradOut", gradOut, halvedSizes(self, dim, &dim));
  expectSameSizes("out", out, "self", self);
  return [=] { out.copy_(at::glu_backward(gradOut, self, dim)); };
}

// silu(first half of x) * second half
Work SwiGlu(Tensor x, int64_t dim, Tensor out) {
  expectSizes("out", out, halvedSizes(x, dim, &dim));
  return [=] {
    const auto halves = x.chunk(2, dim);
    out.copy_(at::mul(at::silu(halves[0]), halves[1]));
  };
}
Work SwiGluGrad(Tensor yGrad, Tensor x, int64_t dim, Tensor out) {
  expectSizes("yGrad", yGrad, halvedSizes(x, dim, &dim));
  expectSameSizes("out", out, "x", x);
  return [=] {
    const auto halves = x.chunk(2, dim);
    const auto gradients = out.chunk(2, dim);
    gradients[0].copy_(at::silu_backward(at::mul(yGrad, halves[1]), halves[0]));
    gradients[1].copy_(at::mul(yGrad, at::silu(halves[0])));
  };
}

}  // namespace npu_emulator::ops
