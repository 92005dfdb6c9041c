"""Page-locked host memory."""

import pytest
import torch

from torch_npu._C import _testing


def test_pin_memory_gives_a_pinned_copy() -> None:
    plain = torch.arange(100)
    assert not plain.is_pinned()
    pinned = plain.pin_memory()
    assert pinned.is_pinned()
    assert pinned.data_ptr() != plain.data_ptr()
    assert torch.equal(pinned, plain)


def test_views_into_pinned_memory_are_pinned() -> None:
    pinned = torch.empty(1000, pin_memory=True)
    assert pinned[500:].is_pinned()
    end = pinned.data_ptr() + pinned.untyped_storage().nbytes()
    assert _testing.is_pinned_address(end - 1)


def test_pinned_memory_is_reused_after_its_release() -> None:
    pinned = torch.empty(5000, dtype=torch.uint8, pin_memory=True)
    address = pinned.data_ptr()
    del pinned
    assert torch.empty(5000, dtype=torch.uint8, pin_memory=True).data_ptr() == address


def test_pinned_memory_is_kept_while_a_copy_from_it_is_queued(gate: _testing.Gate) -> None:
    stream = torch.npu.Stream()
    pinned = torch.full((1 << 16,), 5.0).pin_memory()
    address = pinned.data_ptr()
    with torch.npu.stream(stream):
        gate.block(stream)
        moved = pinned.to("npu", non_blocking=True)
    assert not stream.query(), "a copy from pinned memory must not wait"
    del pinned
    overwritten = torch.empty(1 << 16, pin_memory=True)
    assert overwritten.data_ptr() != address
    overwritten.fill_(-1)
    gate.open()
    stream.synchronize()
    assert moved.cpu().sum().item() == 5.0 * (1 << 16)


def test_host_memory_statistics_follow_allocations() -> None:
    torch.npu.host_empty_cache()
    before = torch.npu.host_memory_stats()
    pinned = torch.empty(1 << 20, dtype=torch.uint8, pin_memory=True)
    during = torch.npu.host_memory_stats()
    assert during["active_bytes.current"] - before["active_bytes.current"] == 1 << 20
    assert during["allocated_bytes.current"] - before["allocated_bytes.current"] == 1 << 20
    del pinned
    cached = torch.npu.host_memory_stats()
    assert cached["active_bytes.current"] == before["active_bytes.current"]
    assert cached["allocated_bytes.current"] == during["allocated_bytes.current"]
    torch.npu.host_empty_cache()
    assert torch.npu.host_memory_stats()["allocated_bytes.current"] == before["allocated_bytes.current"]
    assert torch.npu.host_memory_stats_as_nested_dict()["num_host_free"] > 0


def test_device_tensor_cannot_be_pinned() -> None:
    with pytest.raises(RuntimeError, match="pin"):
        torch.ones(3, device="npu").pin_memory()


def test_data_loader_pins_its_batches() -> None:
    dataset = torch.utils.data.TensorDataset(torch.arange(12.0))
    loader = torch.utils.data.DataLoader(dataset, batch_size=4, pin_memory=True)
    batches = [batch for (batch,) in loader]
    assert all(batch.is_pinned() for batch in batches)
    assert torch.cat([batch.to("npu", non_blocking=True).cpu() for batch in batches]).tolist() == list(range(12))
