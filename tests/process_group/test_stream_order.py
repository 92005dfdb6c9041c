"""Collectives are asynchronous, ordered against the caller's stream, and keep their tensors' memory."""

from collections.abc import Callable

import torch
import torch.distributed as dist

from torch_npu import _C
from torch_npu.testing import World

Worlds = Callable[..., World]
COUNT = 1 << 16


def closed_gate(stream: torch.Stream) -> "_C._testing.Gate":
    """Holds the stream up until it is opened."""
    gate = _C._testing.Gate()
    gate.block(stream)
    return gate


def waits_for_the_callers_stream() -> None:
    x = torch.zeros(COUNT, device="npu")
    gate = closed_gate(torch.npu.current_stream())
    x.fill_(dist.get_rank() + 1.0)
    work = dist.all_reduce(x, async_op=True)
    assert not work.is_completed()
    gate.open()
    work.wait()
    assert x.eq(3.0).all().item()
    assert work.is_completed()


def test_all_reduce_waits_for_earlier_work_of_the_stream(worlds: Worlds) -> None:
    worlds(2).run(waits_for_the_callers_stream)


def on_a_side_stream() -> None:
    side = torch.npu.Stream()
    x = torch.zeros(COUNT, device="npu")
    side.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(side):
        gate = closed_gate(side)
        x.fill_(dist.get_rank() + 1.0)
        work = dist.all_reduce(x, async_op=True)
        work.wait()
        x.mul_(2)
    # The default stream was not held up, and nothing has happened on the other.
    assert torch.ones(3, device="npu").sum().item() == 3
    assert not side.query()
    gate.open()
    torch.npu.current_stream().wait_stream(side)
    assert x.eq(6.0).all().item()


def test_all_reduce_on_a_side_stream_leaves_the_default_stream_alone(worlds: Worlds) -> None:
    worlds(2).run(on_a_side_stream)


def memory_in_flight() -> None:
    x = torch.ones(COUNT, device="npu")
    torch.npu.synchronize()
    address = x.data_ptr()
    gate = closed_gate(torch.npu.current_stream())
    work = dist.all_reduce(x, async_op=True)
    del x, work
    other = torch.empty(COUNT, device="npu")
    reused_early = other.data_ptr() == address
    gate.open()
    torch.npu.synchronize()
    assert not reused_early

    x = torch.ones(COUNT, device="npu")
    address = x.data_ptr()
    dist.all_reduce(x)
    del x
    # The stream is ordered behind the collective, so its memory can be had again at once.
    assert torch.empty(COUNT, device="npu").data_ptr() == address


def test_memory_of_a_dropped_collective_is_kept_until_it_is_done(worlds: Worlds) -> None:
    worlds(2).run(memory_in_flight)


def futures() -> None:
    x = torch.full((COUNT,), dist.get_rank() + 1.0, device="npu")
    future = dist.all_reduce(x, async_op=True).get_future()
    doubled = future.then(lambda done: done.value()[0] * 2)
    assert doubled.wait().eq(6.0).all().item()


def test_future_of_a_collective_runs_callbacks_after_it(worlds: Worlds) -> None:
    worlds(2).run(futures)


def barrier_blocks_the_host() -> None:
    done = torch.npu.Event()
    gate = closed_gate(torch.npu.current_stream())
    x = torch.ones(COUNT, device="npu")
    done.record()
    gate.open()
    dist.barrier(group=dist.new_group(backend="hccl"))
    assert done.query()
    assert x.numel() == COUNT


def test_barrier_returns_after_the_streams_work(worlds: Worlds) -> None:
    worlds(2).run(barrier_blocks_the_host)


def timed() -> float:
    group = dist.new_group(backend="hccl")
    group._enable_collectives_timing()
    work = dist.all_reduce(torch.ones(COUNT, device="npu"), group=group, async_op=True)
    work.wait()
    torch.npu.synchronize()
    return work._get_duration()


def test_duration_of_a_collective_is_measured_when_asked(worlds: Worlds) -> None:
    assert all(0 < milliseconds < 60_000 for milliseconds in worlds(2).run(timed))
