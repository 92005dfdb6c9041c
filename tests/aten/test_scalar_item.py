"""Reading single values from the device."""

import threading

import pytest
import torch

import torch_npu  # noqa: F401
from torch_npu import _C


@pytest.mark.parametrize(
    "value,dtype",
    [
        (1.5, torch.float32), (1.5, torch.float64), (-0.5, torch.float16), (2.0, torch.bfloat16),
        (-(2**62), torch.int64), (2**31 - 1, torch.int32), (-5, torch.int8), (255, torch.uint8),
        (True, torch.bool), (1 - 2j, torch.complex64), (1 - 2j, torch.complex128),
    ],
)  # fmt: skip
def test_scalar_item_of_any_dtype_is_exact(value: object, dtype: torch.dtype) -> None:
    tensor = torch.tensor(value, dtype=dtype, device="npu")
    assert tensor.item() == value
    assert type(tensor.item()) is type(value)
    assert tensor.expand(1, 1).item() == value


def test_scalar_item_of_view_reads_its_element() -> None:
    tensor = torch.arange(12.0, device="npu").reshape(3, 4)
    assert tensor[2, 1].item() == 9.0
    assert tensor.t()[3, 0].item() == 3.0
    assert [tensor[1].tolist(), bool(tensor[0, 1]), int(tensor[1, 1]), float(tensor[2, 2])] == [[4, 5, 6, 7], True, 5, 10.0]
    assert torch.tensor(1 + 2j, device="npu").conj().item() == 1 - 2j


def test_scalar_item_of_several_elements_raises() -> None:
    with pytest.raises(RuntimeError, match="2 elements"):
        torch.zeros(2, device="npu").item()


def test_scalar_item_waits_for_current_stream() -> None:
    gate = _C._testing.Gate()
    tensor = torch.tensor(0.0).npu()
    three = torch.tensor(3.0).npu()
    gate.block(torch.npu.current_stream())
    tensor.copy_(three)
    results: list[float] = []
    thread = threading.Thread(target=lambda: results.append(tensor.item()))
    thread.start()
    gate.wait_reached()
    assert results == []
    gate.open()
    thread.join()
    assert results == [3.0]


def test_scalar_item_leaves_other_streams_alone() -> None:
    gate = _C._testing.Gate()
    side = torch.npu.Stream()
    gate.block(side)
    assert torch.tensor(1.0).npu().item() == 1.0
    assert not side.query()
    gate.open()
    side.synchronize()
