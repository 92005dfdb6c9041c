"""torch.autocast("npu"): precision of operators, and gradients through it."""

import pytest
import torch
from torch import nn

import torch_npu  # noqa: F401

pytestmark = pytest.mark.filterwarnings("ignore:.*has no npu kernel")


def ones(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(shape, dtype=dtype).npu()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_autocast_matrix_products_run_in_lower_precision(dtype: torch.dtype) -> None:
    x = ones(4, 4)
    with torch.autocast("npu", dtype=dtype):
        for result in (
            x @ x, torch.mm(x, x), torch.addmm(x, x, x), ones(2, 3, 3) @ ones(2, 3, 3), nn.functional.linear(x, x),
            torch.einsum("ij,jk->ik", x, x), nn.functional.scaled_dot_product_attention(ones(1, 1, 4, 4), ones(1, 1, 4, 4), ones(1, 1, 4, 4)),
            nn.functional.conv1d(ones(1, 2, 5), ones(3, 2, 2)),
        ):  # fmt: skip
            assert result.dtype == dtype


def test_autocast_default_dtype_is_float16() -> None:
    with torch.autocast("npu"):
        assert (ones(2, 2) @ ones(2, 2)).dtype == torch.float16
    assert torch.get_autocast_dtype("npu") == torch.float16


def test_autocast_sensitive_operators_run_in_float32() -> None:
    x = ones(4, 4, dtype=torch.bfloat16)
    with torch.autocast("npu", dtype=torch.bfloat16):
        for result in (
            x.exp(), x.log(), x.pow(2), x.softmax(-1), x.log_softmax(-1), x.sum(), x.sum(0), x.cumsum(0), x.norm(), x.norm(2, 0),
            nn.functional.layer_norm(x, (4,)), nn.functional.mse_loss(x, x),
            nn.functional.cross_entropy(x, torch.zeros(4, dtype=torch.int64).npu()),
        ):  # fmt: skip
            assert result.dtype == torch.float32
        assert (x + x).dtype == torch.bfloat16
        assert nn.functional.relu(x).dtype == torch.bfloat16


def test_autocast_mixed_arguments_take_the_widest_type() -> None:
    with torch.autocast("npu", dtype=torch.bfloat16):
        low, high = ones(3, dtype=torch.bfloat16), ones(3)
        assert torch.addcmul(high, low, low).dtype == torch.float32
        assert torch.dot(low, high).dtype == torch.float32


def test_autocast_binary_cross_entropy_is_refused() -> None:
    with torch.autocast("npu"), pytest.raises(RuntimeError, match="binary_cross_entropy_with_logits"):
        nn.functional.binary_cross_entropy(ones(2), ones(2))


def test_autocast_disabled_inside_and_other_devices_are_untouched() -> None:
    x = ones(2, 2)
    with torch.autocast("npu"):
        with torch.autocast("npu", enabled=False):
            assert (x @ x).dtype == torch.float32
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
        assert (x.double() @ x.double()).dtype == torch.float64
    with torch.autocast("cpu"):
        assert (x @ x).dtype == torch.float32


def test_autocast_operators_without_policy_work() -> None:
    with torch.autocast("npu"):
        x = ones(3)
        assert torch.lgamma(x).dtype == torch.float32
        assert torch.cat([x, x.half()]).dtype == torch.float32
        assert x.sort().values.dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_autocast_training_step_follows_float32(dtype: torch.dtype) -> None:
    def step(device: str, enabled: bool) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.SiLU(), nn.Linear(16, 4)).to(device)
        x, y = torch.randn(5, 8), torch.randint(0, 4, (5,))
        with torch.autocast(device, dtype=dtype, enabled=enabled):
            loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        assert loss.dtype == torch.float32
        loss.backward()
        return [loss.detach().cpu(), *(p.grad.cpu() for p in model.parameters())]

    for mixed, exact in zip(step("npu", True), step("cpu", False)):
        assert mixed.dtype == torch.float32
        torch.testing.assert_close(mixed, exact, rtol=0.05, atol=0.03)


def test_autocast_grad_scaler_scales_steps_and_skips_infinities() -> None:
    parameter = nn.Parameter(ones(3))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scaler = torch.amp.GradScaler("npu", init_scale=8.0)
    scaler.scale((parameter * 0.5).sum()).backward()
    assert parameter.grad.tolist() == [4, 4, 4]
    scaler.step(optimizer)
    scaler.update()
    assert parameter.tolist() == [0.5, 0.5, 0.5]
    optimizer.zero_grad()
    scaler.scale((parameter * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert parameter.tolist() == [0.5, 0.5, 0.5]
    assert scaler.get_scale() == 4.0
