"""Making tensors, and changing which memory they have."""

import pytest
import torch

import torch_npu  # noqa: F401


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64], ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3, 4)])
def test_factory_empty_has_shape_dtype_and_device(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    tensor = torch.empty(shape, dtype=dtype, device="npu")
    assert (tensor.shape, tensor.dtype, tensor.device) == (torch.Size(shape), dtype, torch.device("npu:0"))
    assert tensor.is_contiguous()
    assert tensor.untyped_storage().nbytes() == tensor.numel() * tensor.element_size()
    like = torch.empty_like(tensor.cpu(), device="npu")
    assert (like.shape, like.device.type) == (tensor.shape, "npu")
    assert torch.zeros(shape, dtype=dtype, device="npu").cpu().equal(torch.zeros(shape, dtype=dtype))


def test_factory_memory_formats_and_strides() -> None:
    tensor = torch.empty(2, 3, 4, 5, device="npu", memory_format=torch.channels_last)
    assert tensor.is_contiguous(memory_format=torch.channels_last)
    strided = torch.empty_strided((2, 3), (1, 4), device="npu")
    assert strided.stride() == (1, 4)
    assert strided.untyped_storage().nbytes() == (1 + 1 + 2 * 4) * 4


def test_factory_default_dtype_is_followed() -> None:
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.empty(1, device="npu").dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_factory_device_index_is_followed() -> None:
    for index in range(torch.npu.device_count()):
        tensor = torch.empty(3, device=f"npu:{index}")
        assert tensor.device.index == index
        assert torch.npu.current_device() == 0
    with torch.npu.device(torch.npu.device_count() - 1):
        assert torch.empty(3, device="npu").device.index == torch.npu.device_count() - 1
    with pytest.raises(ValueError, match="device"):
        torch.empty(3, device="npu:99")


def test_factory_pinned_or_sparse_device_tensors_raise() -> None:
    with pytest.raises(ValueError, match="pin"):
        torch.empty(3, device="npu", pin_memory=True)
    with pytest.raises((NotImplementedError, RuntimeError)):
        torch.empty(3, 3, device="npu", layout=torch.sparse_csc)


def test_factory_deterministic_mode_fills_new_memory() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(5, device="npu").isnan().all()
        assert (torch.empty(5, dtype=torch.int32, device="npu") == 2**31 - 1).all()
        grown = torch.ones(2, device="npu").resize_(5)
        assert grown[:2].tolist() == [1, 1]
        assert grown[2:].isnan().all()
    finally:
        torch.use_deterministic_algorithms(False)


def test_factory_resize_keeps_contents_and_grows_storage() -> None:
    tensor = torch.arange(6.0).npu()
    assert tensor.resize_(2, 2).tolist() == [[0, 1], [2, 3]]
    assert tensor.untyped_storage().nbytes() == 24
    tensor.resize_(3, 4)
    assert tensor.untyped_storage().nbytes() == 48
    assert tensor.flatten()[:6].tolist() == [0, 1, 2, 3, 4, 5]
    assert tensor.resize_(0).numel() == 0
    assert tensor.resize_as_(torch.empty(2, 2, device="npu")).shape == (2, 2)
    assert torch.empty(1, 2, 3, 4, device="npu").resize_(2, 2, 3, 4, memory_format=torch.channels_last).is_contiguous(
        memory_format=torch.channels_last
    )
    with pytest.raises(ValueError, match="memory format"):
        tensor.resize_(2, 2, memory_format=torch.preserve_format)


def test_factory_resize_grows_after_queued_writes() -> None:
    tensor = torch.arange(1024.0).npu()
    tensor.copy_(torch.arange(1024.0).flip(0).npu())
    tensor.resize_(4096)
    assert torch.equal(tensor[:1024].cpu(), torch.arange(1024.0).flip(0))


def test_factory_storage_resize_to_zero_and_back() -> None:
    tensor = torch.arange(6.0).npu()
    storage = tensor.untyped_storage()
    storage.resize_(0)
    assert storage.nbytes() == 0
    storage.resize_(24)
    tensor.copy_(torch.arange(6.0))
    assert tensor.tolist() == [0, 1, 2, 3, 4, 5]


def test_factory_set_shares_and_replaces_storage() -> None:
    base = torch.arange(12.0).npu()
    other = torch.empty(0, device="npu")
    other.set_(base.untyped_storage(), 2, (2, 3), (3, 1))
    assert other.tolist() == [[2, 3, 4], [5, 6, 7]]
    other[0, 0] = -1
    assert base[2].item() == -1
    assert torch.empty(0, device="npu").set_(base).is_set_to(base)
    assert torch.empty(0, device="npu").set_(base.untyped_storage()).shape == (12,)
    other.set_()
    assert other.shape == (0,)
    assert other.device.type == "npu"
    assert other.untyped_storage().nbytes() == 0
    with pytest.raises(RuntimeError, match="different device"):
        torch.empty(0, device="npu").set_(torch.zeros(3).untyped_storage())


def test_factory_set_beyond_storage_grows_it_as_on_cpu() -> None:
    for device in ("cpu", "npu"):
        base = torch.zeros(4, device=device)
        tensor = torch.empty(0, device=device).set_(base.untyped_storage(), 2, (6,), (1,))
        assert tensor.untyped_storage().nbytes() == 32
        assert base.untyped_storage().nbytes() == 32


def test_factory_ranges_and_constants_match_cpu() -> None:
    for call in (
        lambda d: torch.arange(2, 20, 3, device=d), lambda d: torch.linspace(0, 1, 7, device=d), lambda d: torch.eye(3, 4, device=d),
        lambda d: torch.full((2, 3), 7, device=d), lambda d: torch.ones(3, device=d), lambda d: torch.tril_indices(4, 3, device=d),
        lambda d: torch.triu_indices(4, 3, device=d), lambda d: torch.logspace(0, 2, 5, device=d), lambda d: torch.hann_window(8, device=d),
        lambda d: torch.tensor([[1, 2], [3, 4]], device=d), lambda d: torch.zeros(3, device=d).new_full((2,), 5),
    ):  # fmt: skip
        assert call("npu").device.type == "npu"
        torch.testing.assert_close(call("npu").cpu(), call("cpu"))


def test_factory_deepcopy_and_pickle_keep_values(tmp_path) -> None:
    import copy

    tensor = torch.arange(6.0).npu().reshape(2, 3).t()
    assert torch.equal(copy.deepcopy(tensor).cpu(), tensor.cpu())
    torch.save(tensor, tmp_path / "tensor.pt")
    loaded = torch.load(tmp_path / "tensor.pt")
    assert loaded.device == tensor.device
    assert torch.equal(loaded.cpu(), tensor.cpu())
    assert torch.load(tmp_path / "tensor.pt", map_location="cpu").device.type == "cpu"
