"""PyTorch's device-neutral API, ``torch.accelerator``, over npu."""

import pytest
import torch


def test_accelerator_is_npu() -> None:
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator() == torch.device("npu")
    assert torch.accelerator.device_count() == torch.npu.device_count()


def test_accelerator_device_index_follows_torch_npu() -> None:
    torch.accelerator.set_device_index(1)
    assert torch.npu.current_device() == 1
    torch.npu.set_device(0)
    assert torch.accelerator.current_device_index() == 0
    with torch.accelerator.device_index(1):
        assert torch.npu.current_device() == 1
    assert torch.npu.current_device() == 0


def test_accelerator_stream_follows_torch_npu() -> None:
    stream = torch.npu.Stream()
    torch.accelerator.set_stream(stream)
    assert torch.npu.current_stream() == stream
    assert torch.accelerator.current_stream() == stream
    torch.accelerator.set_stream(torch.npu.default_stream())
    torch.accelerator.synchronize()
    assert torch.npu.current_stream() == torch.npu.default_stream()


def test_accelerator_memory_agrees_with_torch_npu() -> None:
    torch.npu.empty_cache()
    torch.accelerator.reset_peak_memory_stats()
    tensor = torch.empty(4 << 20, dtype=torch.uint8, device="npu")
    assert torch.accelerator.memory_allocated() == torch.npu.memory_allocated() >= tensor.numel()
    assert torch.accelerator.max_memory_allocated() == torch.npu.max_memory_allocated()
    assert torch.accelerator.memory_reserved() == torch.npu.memory_reserved()
    assert torch.accelerator.max_memory_reserved() == torch.npu.max_memory_reserved()
    assert torch.accelerator.get_memory_info() == torch.npu.mem_get_info()
    reserved = torch.accelerator.memory_reserved()
    del tensor
    torch.accelerator.empty_cache()
    assert torch.accelerator.memory_reserved() < reserved


def test_accelerator_bad_device_index_raises() -> None:
    count = torch.npu.device_count()
    with pytest.raises((ValueError, RuntimeError), match=str(count)):
        torch.accelerator.set_device_index(count)
    assert torch.accelerator.current_device_index() == 0


def test_accelerator_capability_names_the_types_that_kernels_take() -> None:
    capability = torch.accelerator.get_device_capability()
    assert {torch.float32, torch.float16, torch.bfloat16, torch.int64} <= set(capability["supported_dtypes"])
