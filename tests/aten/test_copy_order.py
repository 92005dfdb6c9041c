"""When copies happen: relative to streams, to the host, and to what the host does with its buffers."""

import threading

import pytest
import torch

import torch_npu
from torch_npu import _C

N = 1024

def filled(value: float, device: str = "npu:0") -> torch.Tensor:
    """N times ``value`` on the device, with nothing left to do there (and by copies only: the subject)."""
    return torch.full((N,), value).to(device)


needs_two = pytest.mark.skipif("torch.npu.device_count() < 2")


@pytest.fixture
def gate():
    """Stops streams with ``gate.block(stream)`` until ``gate.open()``; always opened at the end."""
    gate = _C._testing.Gate()
    yield gate
    gate.open()
    torch.npu.synchronize()


def test_copy_up_from_pageable_memory_non_blocking_reads_before_return(gate) -> None:
    for count in (16, N, 5 << 20):  # the last is beyond what is staged: it may wait, but must be right
        host = torch.full((count,), 1.0)
        torch.npu.synchronize()
        if count <= N:
            gate.block(torch.npu.current_stream())
        device = host.to("npu", non_blocking=True)
        host.fill_(2.0)
        gate.open()
        assert torch.equal(device.cpu(), torch.full((count,), 1.0))
        gate = _C._testing.Gate()


def test_copy_up_from_pinned_memory_non_blocking_returns_before_copying(gate) -> None:
    host = torch.full((N,), 1.0).pin_memory()
    device = torch.empty(N, device="npu")
    gate.block(torch.npu.current_stream())
    device.copy_(host, non_blocking=True)
    host.fill_(2.0)  # the copy has not read it yet: that is the caller's fault, and proves it is late
    gate.open()
    assert torch.equal(device.cpu(), torch.full((N,), 2.0))


def test_copy_up_with_conversion_from_pinned_memory_is_asynchronous(gate) -> None:
    host = torch.full((N,), 1.0).pin_memory()
    device = torch.empty(N, dtype=torch.float16, device="npu")
    gate.block(torch.npu.current_stream())
    device.copy_(host, non_blocking=True)
    assert not torch.npu.current_stream().query()
    gate.open()
    assert torch.equal(device.cpu(), torch.full((N,), 1.0).half())


def test_copy_up_keeps_pinned_block_until_it_was_read(gate) -> None:
    host = torch.full((N,), 1.0).pin_memory()
    address = host.data_ptr()
    gate.block(torch.npu.current_stream())
    device = host.to("npu", non_blocking=True)
    del host
    others = [torch.full((N,), 2.0).pin_memory() for _ in range(4)]
    assert address not in [other.data_ptr() for other in others]
    gate.open()
    assert torch.equal(device.cpu(), torch.full((N,), 1.0))
    for other in others:  # they kept their own values too
        assert torch.equal(other, torch.full((N,), 2.0))


def test_copy_down_into_pinned_memory_non_blocking_returns_before_copying(gate) -> None:
    device = filled(1.0)
    host = torch.zeros(N).pin_memory()
    gate.block(torch.npu.current_stream())
    host.copy_(device, non_blocking=True)
    assert torch.equal(host, torch.zeros(N))
    gate.open()
    torch.npu.current_stream().synchronize()
    assert torch.equal(host, torch.full((N,), 1.0))


def test_copy_down_to_cpu_non_blocking_is_pinned_and_asynchronous(gate) -> None:
    device = filled(1.0)
    gate.block(torch.npu.current_stream())
    host = device.to("cpu", non_blocking=True)
    assert host.is_pinned()
    gate.open()
    torch.npu.synchronize()
    assert torch.equal(host, torch.full((N,), 1.0))


def in_thread(function):
    """Starts function() and returns (thread, list that gets its result)."""
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    return thread, results


@pytest.mark.parametrize("non_blocking", [False, True])
def test_copy_down_into_pageable_memory_waits(gate, non_blocking: bool) -> None:
    device = filled(0.0)
    ones = filled(1.0)
    gate.block(torch.npu.current_stream())
    device.copy_(ones)
    host = torch.zeros(N)

    def copy():
        host.copy_(device, non_blocking=non_blocking)
        return host.clone()

    thread, results = in_thread(copy)
    gate.wait_reached()
    assert not results
    gate.open()
    thread.join()
    assert torch.equal(results[0], torch.full((N,), 1.0))


def test_copy_up_blocking_waits_for_work_that_uses_the_destination(gate) -> None:
    device = filled(0.0)
    gate.block(torch.npu.current_stream())
    before = device.clone()  # must still see zeros
    thread, _ = in_thread(lambda: device.copy_(torch.full((N,), 5.0)))
    gate.wait_reached()
    gate.open()
    thread.join()
    assert torch.equal(before.cpu(), torch.zeros(N))
    assert torch.equal(device.cpu(), torch.full((N,), 5.0))


def test_copy_orders_with_the_current_stream_only(gate) -> None:
    other = torch.npu.Stream()
    gate.block(other)
    device = filled(1.0)
    assert torch.equal(device.cpu(), torch.full((N,), 1.0))  # would hang if it waited for `other`
    assert not other.query()


@needs_two
def test_copy_between_devices_waits_for_the_source(gate) -> None:
    source = filled(0.0)
    fives = filled(5.0)
    target = filled(0.0, "npu:1")
    gate.block(torch.npu.current_stream(0))
    source.copy_(fives)
    target.copy_(source)
    assert not torch.npu.current_stream(1).query()
    gate.open()
    assert torch.equal(target.cpu(), torch.full((N,), 5.0))


@needs_two
def test_copy_between_devices_waits_for_readers_of_the_destination(gate) -> None:
    source = filled(5.0)
    target = filled(2.0, "npu:1")
    gate.block(torch.npu.current_stream(1))
    before = target.clone()
    target.copy_(source)
    assert not torch.npu.current_stream(0).query()
    gate.open()
    assert torch.equal(before.cpu(), torch.full((N,), 2.0))
    assert torch.equal(target.cpu(), torch.full((N,), 5.0))


@needs_two
def test_copy_between_devices_any_layout_and_dtype_gives_values() -> None:
    values = torch.arange(24.0).reshape(4, 6)
    for source in (values.to("npu:0"), values.t().contiguous().to("npu:0").t(), values.repeat(1, 2).to("npu:0")[:, :6]):
        for target in (
            torch.zeros(4, 6, device="npu:1"),
            torch.zeros(6, 4, device="npu:1").t(),
            torch.zeros(4, 12, device="npu:1")[:, ::2],
            torch.zeros(4, 6, dtype=torch.int32, device="npu:1"),
            torch.zeros(3, 4, 6, dtype=torch.float64, device="npu:1"),
        ):
            assert torch.npu.current_device() == 0
            target.copy_(source)
            expected = values.expand(target.shape).to(target.dtype)
            assert torch.equal(target.cpu(), expected)
    assert torch.equal(values.to("npu:1").to("npu:0").cpu(), values)
    assert torch.npu.current_device() == 0


def test_copy_record_stream_keeps_memory_from_reuse(gate) -> None:
    side = torch.npu.Stream()
    device = filled(1.0)
    address = device.data_ptr()
    gate.block(side)
    with torch.npu.stream(side):
        seen = device.clone()
    device.record_stream(side)
    del device
    others = [filled(9.0) for _ in range(8)]
    assert address not in [other.data_ptr() for other in others]
    gate.open()
    side.synchronize()
    assert torch.equal(seen.cpu(), torch.full((N,), 1.0))
