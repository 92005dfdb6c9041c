"""``torch.npu`` as PyTorch's own Python code uses it (the attributes that torch 2.13 asks of a device module)."""

import io
import threading
from typing import Any

import pytest
import torch


def test_device_module_is_registered_once_under_both_names() -> None:
    import importlib

    assert torch.get_device_module("npu") is torch.npu
    assert torch.get_device_module() is torch.npu
    for name in ("amp", "memory", "random", "streams", "utils"):
        assert importlib.import_module(f"torch.npu.{name}") is importlib.import_module(f"torch_npu.npu.{name}")


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        ("is_available()", bool),
        ("is_initialized()", bool),
        ("_initialized", bool),
        ("_is_in_bad_fork()", bool),
        ("device_count()", int),
        ("current_device()", int),
        ("get_amp_supported_dtype()", list),
        ("get_rng_state(0)", torch.Tensor),
        ("get_rng_state('npu')", torch.Tensor),
        ("current_stream()", torch.Stream),
        ("current_stream(torch.device('npu:1'))", torch.Stream),
        ("default_generators", tuple),
        ("_get_generator(torch.device('npu', 0))", torch.Generator),
        ("get_device_name()", str),
        ("memory_allocated()", int),
        ("memory_reserved()", int),
        ("memory_stats()", dict),
        ("memory_summary()", str),
        ("mem_get_info()", tuple),
        ("is_bf16_supported()", bool),
        ("_utils._get_device_index('npu:1', True)", int),
    ],
)
def test_attribute_that_pytorch_asks_has_the_expected_type(call: str, kind: type) -> None:
    value = eval(f"torch.npu.{call}", {"torch": torch})
    assert isinstance(value, kind)


def test_every_public_name_exists_and_every_kept_name_of_the_vendor_has_its_parameters() -> None:
    import csv
    import inspect
    from pathlib import Path

    for name in torch.npu.__all__:
        assert hasattr(torch.npu, name), name
    table = Path(__file__).resolve().parents[2] / "csrc" / "cann" / "facts" / "python_api.tsv"
    checked = 0
    with table.open() as file:
        for row in csv.DictReader(file, delimiter="\t"):
            if row["exported_as"] != "torch.npu" or row["kind"] != "function" or not hasattr(torch.npu, row["name"]):
                continue
            expected = [part.split("=")[0].split(":")[0].strip() for part in row["signature"].strip("()").split(",")]
            actual = list(inspect.signature(getattr(torch.npu, row["name"])).parameters)
            assert actual == [name for name in expected if name], row["name"]
            checked += 1
    assert checked > 40


def test_current_device_is_an_int_and_per_thread() -> None:
    torch.npu.set_device("npu:1")
    assert torch.npu.current_device() == 1
    assert torch.empty(1, device="npu").device.index == 1
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(torch.npu.current_device()))
    thread.start()
    thread.join()
    assert seen == [0]


@pytest.mark.parametrize("given", [1, "npu:1", torch.device("npu:1"), torch.device("npu", 1)])
def test_device_context_switches_and_restores(given: Any) -> None:
    with torch.npu.device(given):
        assert torch.npu.current_device() == 1
        with torch.npu.device(None), torch.npu.device(-1):
            assert torch.npu.current_device() == 1
    assert torch.npu.current_device() == 0


def test_device_of_follows_the_object() -> None:
    with torch.npu.device_of(torch.empty(1, device="npu:1")):
        assert torch.npu.current_device() == 1
        with torch.npu.device_of(torch.empty(1)):
            assert torch.npu.current_device() == 1
    with torch.npu.device_of(torch.empty(1, device="npu:1").untyped_storage()):
        assert torch.npu.current_device() == 1
    assert torch.npu.current_device() == 0


@pytest.mark.parametrize("call", ["set_device({})", "synchronize({})", "mem_get_info({})", "get_device_name({})"])
def test_device_that_does_not_exist_raises_with_the_number_of_devices(call: str) -> None:
    count = torch.npu.device_count()
    with pytest.raises(ValueError, match=rf"{count}"):
        eval("torch.npu." + call.format(count), {"torch": torch})
    with pytest.raises((ValueError, RuntimeError), match=rf"{count}"):
        torch.empty(1, device=f"npu:{count}")
    assert torch.npu.current_device() == 0


@pytest.mark.parametrize(
    ("given", "error"), [("cpu", ValueError), (1.5, TypeError), (True, TypeError), ([0], TypeError)]
)
def test_what_is_no_npu_device_is_refused(given: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="npu"):
        torch.npu.set_device(given)


def test_device_properties_describe_the_device() -> None:
    properties = torch.npu.get_device_properties(0)
    assert properties.name == torch.npu.get_device_name(0)
    assert properties.total_memory == torch.npu.mem_get_info(0)[1] > 0
    assert properties.cube_core_num > 0
    assert properties.name in repr(properties)


def test_peer_access_is_told_for_pairs() -> None:
    assert torch.npu.can_device_access_peer(0, 1)
    with pytest.raises(ValueError, match=str(torch.npu.device_count())):
        torch.npu.can_device_access_peer(0, torch.npu.device_count())


def test_tensor_module_and_storage_methods_move_to_npu() -> None:
    tensor = torch.arange(6.0)
    moved = tensor.npu()
    assert moved.is_npu
    assert not tensor.is_npu
    assert tensor.npu(1).device == torch.device("npu:1")
    assert tensor.untyped_storage().npu().device.type == "npu"
    linear = torch.nn.Linear(3, 2)
    weight = linear.weight
    assert linear.npu().weight is weight, "optimizers made before the move must keep their parameters"
    assert weight.is_npu
    assert moved.cpu().tolist() == tensor.tolist()


def test_saved_tensor_loads_to_each_place() -> None:
    saved = io.BytesIO()
    original = torch.arange(10.0, device="npu:1")
    torch.save({"x": original}, saved)
    for place, device in ((None, "npu:1"), ("cpu", "cpu"), ("npu:0", "npu:0"), ({"npu:1": "npu:0"}, "npu:0")):
        saved.seek(0)
        loaded = torch.load(saved, map_location=place)["x"]
        assert loaded.device == torch.device(device)
        assert loaded.cpu().tolist() == original.cpu().tolist()


def test_autocast_switches_and_tells_the_type() -> None:
    assert torch.npu.get_amp_supported_dtype() == [torch.float16, torch.bfloat16]
    x = torch.randn(4, 4, device="npu")
    with torch.npu.amp.autocast(dtype=torch.bfloat16):
        assert torch.npu.is_autocast_enabled()
        assert torch.npu.get_autocast_dtype() == torch.bfloat16
        assert (x @ x).dtype == torch.bfloat16
    assert not torch.npu.is_autocast_enabled()
    with torch.autocast("npu"):
        assert (x @ x).dtype == torch.float16


def test_grad_scaler_skips_the_step_after_an_overflow() -> None:
    parameter = torch.nn.Parameter(torch.ones(4, device="npu"))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scaler = torch.npu.amp.GradScaler(init_scale=4.0)
    scaler.scale((parameter * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert parameter.detach().cpu().tolist() == [1.0] * 4
    assert scaler.get_scale() == 2.0
    optimizer.zero_grad()
    scaler.scale((parameter * 0.5).sum()).backward()
    scaler.step(optimizer)
    assert parameter.detach().cpu().tolist() == [0.5] * 4


def test_cpu_fallback_is_counted_by_operator() -> None:
    from torch_npu.npu.utils import cpu_fallback_counts

    before = sum(cpu_fallback_counts().values())
    values = torch.tensor([[4.0, 1.0], [1.0, 3.0]], device="npu")
    with pytest.warns(UserWarning, match="CPU") if before == 0 else _nothing():
        result = torch.linalg.cholesky(values)
    assert torch.allclose(result.cpu(), torch.linalg.cholesky(values.cpu()))
    counts = cpu_fallback_counts()
    assert sum(counts.values()) > before
    assert any("cholesky" in name for name in counts)


def _nothing() -> Any:
    import contextlib

    return contextlib.nullcontext()
