// Fused steps of optimizers and of gradient scaling.
#include "emulator/ops/Kernel.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/maximum.h>

#include <cmath>

namespace npu_emulator::ops {

// One step of AdamW in FLOAT. `step` is the number of this step, counted from 1 by the caller.
Work ApplyAdamWV2(
    Tensor varRef, Tensor mRef, Tensor vRef, OptionalTensor maxGradNormOptionalRef, Tensor grad,
    Tensor step, float lr, float beta1, float beta2, float weightDecay, float eps, bool amsgrad,
    bool maximize) {
  expectSameSizes("mRef", mRef, "varRef", varRef);
  expectSameSizes("vRef", vRef, "varRef", varRef);
  expectSameSizes("grad", grad, "varRef", varRef);
  if (step.numel() != 1) {
    refuse("step must have one element, got " + std::to_string(step.numel()));
  }
  if (amsgrad && !maxGradNormOptionalRef) {
    throw Refusal{kParamNull, "maxGradNormOptionalRef is null, but amsgrad asks for it"};
  }
  return [=] {
    const double count = step.item().to<double>();
    const double correction1 = 1 - std::pow(static_cast<double>(beta1), count);
    const double correction2 = 1 - std::pow(static_cast<double>(beta2), count);
    const Tensor gradient = maximize ? grad.to(at::kFloat).neg() : grad.to(at::kFloat);

    const Tensor decayed = varRef.to(at::kFloat) * (1 - static_cast<double>(lr) * weightDecay);
    const Tensor first = mRef.to(at::kFloat).lerp(gradient, 1 - static_cast<double>(beta1));
    const Tensor second =
        (vRef.to(at::kFloat) * beta2).addcmul_(gradient, gradient, 1 - static_cast<double>(beta2));
    Tensor scale = second;
    if (amsgrad) {
      scale = at::maximum(maxGradNormOptionalRef->to(at::kFloat), second);
      maxGradNormOptionalRef->copy_(scale);
    }
    const Tensor denominator = (scale.sqrt() / std::sqrt(correction2)).add_(eps);
    varRef.copy_(decayed.addcdiv(first, denominator, -static_cast<double>(lr) / correction1));
    mRef.copy_(first);
    vRef.copy_(second);
  };
}

// The step of a gradient scaler: halves (say) after an overflow, doubles after growthInterval steps
// without one.
Work AmpUpdateScale(
    Tensor currentScale, Tensor growthTracker, Tensor foundInf, double growthFactor,
    double backoffFactor, int64_t growthInterval, Tensor updatedScale,
    Tensor updatedGrowthTracker) {
  for (const Tensor* value :
       {&currentScale, &growthTracker, &foundInf, &updatedScale, &updatedGrowthTracker}) {
    if (value->numel() != 1) {
      refuse("all tensors must have one element");
    }
  }
  return [=] {
    const double scale = currentScale.item().to<double>();
    const int64_t good = growthTracker.item().to<int64_t>() + 1;
    if (foundInf.item().to<double>() != 0) {
      updatedScale.fill_(scale * backoffFactor);
      updatedGrowthTracker.fill_(0);
    } else if (good == growthInterval) {
      const auto grown = static_cast<float>(scale * growthFactor);
      updatedScale.fill_(std::isfinite(grown) ? static_cast<double>(grown) : scale);
      updatedGrowthTracker.fill_(0);
    } else {
      updatedScale.fill_(scale);
      updatedGrowthTracker.fill_(good);
    }
  };
}

}  // namespace npu_emulator::ops
