// Loss functions and their gradients. reduction is 0 (none), 1 (mean) or 2 (sum).
#include "emulator/ops/Kernel.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/binary_cross_entropy.h>
#include <ATen/ops/binary_cross_entropy_backward.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/kl_div.h>
#include <ATen/ops/l1_loss.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/mse_loss_backward.h>
#include <ATen/ops/nll_loss2d_backward.h>
#include <ATen/ops/nll_loss2d_forward.h>
#include <ATen/ops/nll_loss_backward.h>
#include <ATen/ops/nll_loss_forward.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/smooth_l1_loss.h>
#include <ATen/ops/smooth_l1_loss_backward.h>
#include <ATen/ops/soft_margin_loss.h>
#include <ATen/ops/soft_margin_loss_backward.h>

namespace npu_emulator::ops {

namespace {

constexpr int64_t kNone = 0;
constexpr int64_t kMean = 1;
constexpr int64_t kSum = 2;

void expectReduction(int64_t reduction) {
  if (reduction != kNone && reduction != kMean && reduction != kSum) {
    refuse(
        "reduction is " + std::to_string(reduction) + ", expected 0 (none), 1 (mean) or 2 (sum)");
  }
}

// The shape of a loss between tensors that broadcast.
void planLoss(
    int64_t reduction, const Tensor& self, const Tensor& target, const char* name,
    const Tensor& out) {
  expectReduction(reduction);
  const auto sizes = broadcastSizes(self.sizes(), target.sizes());
  expectSizes(name, out, reduction == kNone ? IntArrayRef(sizes) : IntArrayRef());
}

void planGradient(
    int64_t reduction, const Tensor& self, const Tensor& target, const char* name,
    const Tensor& out) {
  expectReduction(reduction);
  expectSizes(name, out, broadcastSizes(self.sizes(), target.sizes()));
}

// Callers that reduce pass a gradient of one element, in whatever rank.
Tensor scalarIfReduced(const Tensor& gradOutput, int64_t reduction) {
  return reduction != kNone && gradOutput.numel() == 1 ? gradOutput.reshape({}) : gradOutput;
}

// The gradient of each element's loss, from that of the reduced one.
Tensor spread(const Tensor& gradOutput, int64_t reduction, int64_t elements) {
  const Tensor grad = scalarIfReduced(gradOutput, reduction);
  return reduction == kMean ? grad / elements : grad;
}

OptionalTensor asType(const OptionalTensor& tensor, ScalarType type) {
  return tensor ? OptionalTensor(tensor->to(type)) : tensor;
}

void planNll(
    const Tensor& self, const Tensor& target, const OptionalTensor& weight, int64_t reduction) {
  expectReduction(reduction);
  if (self.dim() != 1 && self.dim() != 2) {
    refuse("self must have 1 or 2 dimensions, got " + std::to_string(self.dim()));
  }
  expectSizes("target", target, self.sizes().slice(0, self.dim() - 1));
  if (weight) {
    expectSizes("weight", *weight, {self.size(-1)});
  }
}

void planNll2d(const Tensor& self, const Tensor& target, int64_t reduction) {
  expectReduction(reduction);
  expectDim("self", self, 4);
  expectSizes("target", target, {self.size(0), self.size(2), self.size(3)});
}

}  // namespace

Work NLLLoss(
    Tensor self, Tensor target, OptionalTensor weight, int64_t reduction, int64_t ignoreIndex,
    Tensor out, Tensor totalWeightOut) {
  planNll(self, target, weight, reduction);
  expectSizes("out", out, reduction == kNone ? target.sizes() : IntArrayRef());
  return [=] {
    const auto [loss, total] = at::nll_loss_forward(
        self, target.to(at::kLong), asType(weight, self.scalar_type()), reduction, ignoreIndex);
    out.copy_(loss);
    totalWeightOut.fill_(total);
  };
}

Work NLLLossBackward(
    Tensor gradOutput, Tensor self, Tensor target, OptionalTensor weight, int64_t reduction,
    int64_t ignoreIndex, Tensor totalWeight, Tensor out) {
  planNll(self, target, weight, reduction);
  expectSameSizes("out", out, "self", self);
  return [=] {
    const ScalarType type = self.scalar_type();
    out.copy_(at::nll_loss_backward(
        scalarIfReduced(gradOutput, reduction).to(type), self, target.to(at::kLong),
        asType(weight, type), reduction, ignoreIndex, totalWeight.reshape({}).to(type)));
  };
}

Work NLLLoss2d(
    Tensor self, Tensor target, OptionalTensor weight, int64_t reduction, int64_t ignoreIndex,
    Tensor out, Tensor totalWeightOut) {
  planNll2d(self, target, reduction);
  expectSizes("out", out, reduction == kNone ? target.sizes() : IntArrayRef());
  return [=] {
    const auto [loss, total] = at::nll_loss2d_forward(
        self, target.to(at::kLong), asType(weight, self.scalar_type()), reduction, ignoreIndex);
    out.copy_(loss);
    totalWeightOut.fill_(total);
  };
}

Work NLLLoss2dBackward(
    Tensor gradOutput, Tensor self, Tensor target, OptionalTensor weight, int64_t reduction,
    int64_t ignoreIndex, Tensor totalWeight, Tensor out) {
  planNll2d(self, target, reduction);
  expectSameSizes("out", out, "self", self);
  return [=] {
    const ScalarType type = self.scalar_type();
    out.copy_(at::nll_loss2d_backward(
        scalarIfReduced(gradOutput, reduction).to(type), self, target.to(at::kLong),
        asType(weight, type), reduction, ignoreIndex, totalWeight.reshape({}).to(type)));
  };
}

Work MseLoss(Tensor self, Tensor target, int64_t reduction, Tensor out) {
  planLoss(reduction, self, target, "out", out);
  return [=] { out.copy_(at::mse_loss(self, target, reduction)); };
}
Work MseLossBackward(
    Tensor gradOutput, Tensor self, Tensor target, int64_t reduction, Tensor out) {
  planGradient(reduction, self, target, "out", out);
  return [=] {
    out.copy_(
        at::mse_loss_backward(scalarIfReduced(gradOutput, reduction), self, target, reduction));
  };
}

Work L1Loss(Tensor self, Tensor target, int64_t reduction, Tensor out) {
  planLoss(reduction, self, target, "out", out);
  return [=] { out.copy_(at::l1_loss(self, target, reduction)); };
}
Work L1LossBackward(
    Tensor gradOutput, Tensor self, Tensor target, int64_t reduction, Tensor gradInput) {
  planGradient(reduction, self, target, "gradInput", gradInput);
  return [=] {
    gradInput.copy_((self - target).sgn() * spread(gradOutput, reduction, gradInput.numel()));
  };
}

Work SmoothL1Loss(Tensor self, Tensor target, int64_t reduction, float beta, Tensor result) {
  planLoss(reduction, self, target, "result", result);
  return [=] { result.copy_(at::smooth_l1_loss(self, target, reduction, beta)); };
}
Work SmoothL1LossBackward(
    Tensor gradOut, Tensor self, Tensor target, int64_t reduction, float beta, Tensor gradInput) {
  planGradient(reduction, self, target, "gradInput", gradInput);
  return [=] {
    gradInput.copy_(at::smooth_l1_loss_backward(
        scalarIfReduced(gradOut, reduction), self, target, reduction, beta));
  };
}

Work SoftMarginLoss(Tensor self, Tensor target, int64_t reduction, Tensor out) {
  planLoss(reduction, self, target, "out", out);
  return [=] { out.copy_(at::soft_margin_loss(self, target, reduction)); };
}
Work SoftMarginLossBackward(
    Tensor gradOutput, Tensor self, Tensor target, int64_t reduction, Tensor out) {
  planGradient(reduction, self, target, "out", out);
  return [=] {
    out.copy_(at::soft_margin_loss_backward(
        scalarIfReduced(gradOutput, reduction), self, target, reduction));
  };
}

Work BinaryCrossEntropy(
    Tensor self, Tensor target, OptionalTensor weight, int64_t reduction, Tensor out) {
  expectSameSizes("target", target, "self", self);
  planLoss(reduction, self, target, "out", out);
  return [=] {
    out.copy_(at::binary_cross_entropy(self, target.to(self.scalar_type()), weight, reduction));
  };
}
Work BinaryCrossEntropyBackward(
    Tensor gradOutput, Tensor self, Tensor target, OptionalTensor weightOptional,
    int64_t reduction, Tensor out) {
  planGradient(reduction, self, target, "out", out);
  return [=] {
    out.copy_(at::binary_cross_entropy_backward(
        scalarIfReduced(gradOutput, reduction), self, target.to(self.scalar_type()),
        weightOptional, reduction));
  };
}

Work BinaryCrossEntropyWithLogits(
    Tensor self, Tensor target, OptionalTensor weightOptional, OptionalTensor posWeightOptional,
    int64_t reduction, Tensor out) {
  expectSameSizes("target", target, "self", self);
  planLoss(reduction, self, target, "out", out);
  return [=] {
    out.copy_(at::binary_cross_entropy_with_logits(
        self, target, weightOptional, posWeightOptional, reduction));
  };
}
Work BinaryCrossEntropyWithLogitsBackward(
    Tensor gradOutput, Tensor self, Tensor target, OptionalTensor weightOptional,
    OptionalTensor posWeightOptional, int64_t reduction, Tensor out) {
  planGradient(reduction, self, target, "out", out);
  return [=] {
    const Tensor probability = at::sigmoid(self);
    Tensor slope = posWeightOptional
        ? probability * ((*posWeightOptional - 1) * target + 1) - *posWeightOptional * target
        : probability - target;
    if (weightOptional) {
      slope = slope * *weightOptional;
    }
    out.copy_(slope * spread(gradOutput, reduction, out.numel()));
  };
}

Work KlDiv(Tensor self, Tensor target, int64_t reduction, bool logTarget, Tensor out) {
  planLoss(reduction, self, target, "out", out);
  return [=] { out.copy_(at::kl_div(self, target, reduction, logTarget)); };
}
Work KlDivBackward(
    Tensor gradOutput, Tensor self, Tensor target, int64_t reduction, bool logTarget, Tensor out) {
  planGradient(reduction, self, target, "out", out);
  return [=] {
    const Tensor slope = logTarget ? target.exp() : target;
    out.copy_(-slope * spread(gradOutput, reduction, out.numel()));
  };
}

}  // namespace npu_emulator::ops
