// Which implementations attention and Transformer layers take on npu tensors.
#include <ATen/Context.h>
#include <ATen/SDPBackend.h>
#include <ATen/native/transformers/attention.h>
#include <torch/library.h>

namespace torch_npu::aten {
namespace {

// PyTorch leaves it to the device to honour torch.nn.attention.sdpa_kernel. There is no fused
// kernel yet: the decomposition into matmul and softmax is the one choice, unless the user excluded
// it.
int64_t chooseAttention(
    const at::Tensor&, const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
    double, bool, std::optional<double>, bool) {
  TORCH_CHECK(
      at::globalContext().userEnabledMathSDP(),
      "scaled_dot_product_attention on npu is available as SDPBackend.MATH only, and that is "
      "disabled: add it to the list of torch.nn.attention.sdpa_kernel, or leave the choice to the "
      "device");
  return static_cast<int64_t>(at::SDPBackend::math);
}

// TransformerEncoder asks whether it may turn a padded batch into a nested tensor. There are none
// on npu, so the answer is no for every mask, and it computes with the padding.
bool fitsNestedTensor(const at::Tensor&, const at::Tensor&) { return false; }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_nested_tensor_from_mask_left_aligned", &fitsNestedTensor);
}

}  // namespace
}  // namespace torch_npu::aten

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &torch_npu::aten::chooseAttention)
}  // namespace at::native
