// torch.autocast("npu"): which operators run in the lower precision, which in float32, which in the
// widest type of their arguments. PyTorch keeps these lists for all its own accelerators in one
// place and offers them to others; so that a model casts on an npu where it does elsewhere, they
// are taken as they are.
//
// The one file that includes ATen as a whole: ATen/autocast_mode.h does.
#include <ATen/autocast_mode.h>

namespace torch_npu::aten {
namespace {

using at::IntArrayRef;
using at::Scalar;
using at::ScalarType;
using at::Tensor;

Tensor bannedBinaryCrossEntropy(
    const Tensor&, const Tensor&, const std::optional<Tensor>&, int64_t) {
  TORCH_CHECK(
      false,
      "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast: near "
      "0 and 1 their input and gradient leave the range of float16. Use "
      "binary_cross_entropy_with_logits or BCEWithLogitsLoss on the values before the sigmoid, or call "
      "it in torch.autocast('npu', enabled=False) with float32 inputs.");
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define NPU_LOWER_PRECISION(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
  AT_FORALL_LOWER_PRECISION_FP(NPU_LOWER_PRECISION)
#undef NPU_LOWER_PRECISION

#define NPU_FLOAT32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
  AT_FORALL_FP32(NPU_FLOAT32)
#undef NPU_FLOAT32

#define NPU_FLOAT32_RESULT(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
  AT_FORALL_FP32_SET_OPT_DTYPE(NPU_FLOAT32_RESULT)
#undef NPU_FLOAT32_RESULT

  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)

#define NPU_WIDEST(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_PROMOTE(NPU_WIDEST)
#undef NPU_WIDEST

  m.impl("binary_cross_entropy", &bannedBinaryCrossEntropy);
}

}  // namespace
}  // namespace torch_npu::aten
