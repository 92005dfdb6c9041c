"""scaled_dot_product_attention on npu."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import torch_npu  # noqa: F401

pytestmark = pytest.mark.filterwarnings("ignore:.*has no npu kernel")


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}, {"enable_gqa": True}, {"mask": "bool"}, {"mask": "float"}], ids=str)
def test_attention_matches_cpu_with_gradients(options: dict) -> None:
    torch.manual_seed(0)
    options = dict(options)
    kind = options.pop("mask", None)
    heads = 2 if options.get("enable_gqa") else 4
    host = [torch.randn(2, h, 5, 8) for h in (4, heads, heads)]
    mask = {None: None, "bool": torch.rand(5, 5) > 0.3, "float": torch.randn(5, 5)}[kind]
    if kind == "bool":
        mask |= torch.eye(5, dtype=torch.bool)
    results = []
    for device in ("npu", "cpu"):
        q, k, v = (t.to(device).requires_grad_() for t in host)
        out = scaled_dot_product_attention(q, k, v, attn_mask=None if mask is None else mask.to(device), **options)
        (out * torch.arange(8.0).to(device)).sum().backward()
        results.append([out.detach().cpu(), q.grad.cpu(), k.grad.cpu(), v.grad.cpu()])
    for a, b in zip(*results):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_attention_user_choice_is_honoured() -> None:
    q = torch.ones(1, 1, 2, 4).npu()
    with sdpa_kernel(SDPBackend.MATH):
        assert scaled_dot_product_attention(q, q, q).shape == q.shape
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION]), pytest.raises(RuntimeError, match="SDPBackend.MATH"):
        scaled_dot_product_attention(q, q, q)
