"""DistributedDataParallel on npu against one process on the CPU."""

import copy
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from torch_npu.testing import World

Worlds = Callable[..., World]
STEPS = 4
BATCH = 8


class TwoWays(torch.nn.Module):
    """Uses only one of two branches in each step, so that a rank has parameters without gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(16, 32)
        self.branches = torch.nn.ModuleList(torch.nn.Linear(32, 4) for _ in range(2))

    def forward(self, x: torch.Tensor, step: int) -> torch.Tensor:
        return self.branches[step % 2](torch.tanh(self.first(x)))


def model() -> TwoWays:
    torch.manual_seed(0)
    return TwoWays()


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    return torch.randn(BATCH, 16, generator=generator), torch.randn(BATCH, 4, generator=generator)


def train(net: torch.nn.Module, device: str, rank: int, size: int) -> list[float]:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses = []
    for step in range(STEPS):
        x, y = (part.chunk(size)[rank].to(device) for part in batch(step))
        loss = torch.nn.functional.mse_loss(net(x, step), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def train_on_npu(hook: str | None, options: dict[str, bool]) -> tuple[list[float], list[list[float]]]:
    net = DistributedDataParallel(model().to("npu"), find_unused_parameters=True, **options)
    if hook is not None:
        net.register_comm_hook(None, getattr(default_hooks, hook))
    losses = train(net, "npu", dist.get_rank(), dist.get_world_size())
    return losses, [parameter.detach().cpu().flatten().tolist() for parameter in net.parameters()]


@pytest.mark.parametrize("backend", ["hccl", "cpu:gloo,npu:hccl"])
@pytest.mark.parametrize(
    ("hook", "options", "tolerance"),
    [
        (None, {}, 1e-5),
        (None, {"gradient_as_bucket_view": True}, 1e-5),
        ("allreduce_hook", {}, 1e-5),
        ("fp16_compress_hook", {}, 2e-3),
    ],
)
def test_ddp_equals_one_process_with_the_same_batch(
    worlds: Worlds, backend: str, hook: str | None, options: dict[str, bool], tolerance: float
) -> None:
    alone = copy.deepcopy(model())
    expected = train(alone, "cpu", 0, 1)
    results = worlds(2, backend=backend).run(train_on_npu, hook, options)
    losses = [sum(pair) / 2 for pair in zip(*(losses for losses, _ in results), strict=True)]
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected), rtol=tolerance, atol=tolerance)
    assert results[0][1] == results[1][1], "the ranks' parameters drifted apart"
    for got, parameter in zip(results[0][1], alone.parameters(), strict=True):
        torch.testing.assert_close(
            torch.tensor(got), parameter.detach().flatten(), rtol=tolerance, atol=tolerance
        )


def logged_times() -> dict[str, float]:
    net = DistributedDataParallel(torch.nn.Linear(64, 64).to("npu"), device_ids=None)
    net._set_ddp_runtime_logging_sample_rate(1)
    for _ in range(3):
        net(torch.ones(4, 64, device="npu")).sum().backward()
    data = net._get_ddp_logging_data()
    return {name: data[name] for name in ("avg_forward_compute_time", "avg_backward_compute_time")}


def test_ddp_timer_measures_on_the_device(worlds: Worlds) -> None:
    for times in worlds(2, backend="hccl").run(logged_times):
        assert all(nanoseconds > 0 for nanoseconds in times.values()), times
