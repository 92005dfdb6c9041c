"""What the CPU fallback promises, shown with operators of our own that exist on the CPU only."""

import os
import subprocess
import sys
import warnings

import pytest
import torch

import torch_npu  # noqa: F401
from torch_npu.npu.utils import cpu_fallback_counts

LIBRARY = torch.library.Library("npu_fallback_test", "DEF")
OPS = torch.ops.npu_fallback_test


def define(schema: str, function) -> None:
    LIBRARY.define(schema)
    LIBRARY.impl(schema.split("(")[0], function, "CPU")


def append(lists, outs):
    for out, tensor in zip(outs, lists):
        out.add_(tensor)


def grow(x, out):
    out.resize_(2, x.numel()).copy_(x.flatten().expand(2, -1))
    return out


define("scale(Tensor x, float f) -> Tensor", lambda x, f: x * f)
define("scale_(Tensor(a!) x, float f) -> Tensor(a!)", lambda x, f: x.mul_(f))
define("both(Tensor x, Tensor? y) -> (Tensor, Tensor?)", lambda x, y: (x + 1, None if y is None else y + 2))
define("spread(Tensor x, int n) -> Tensor[]", lambda x, n: [x + i for i in range(n)])
define("accumulate_(Tensor[] xs, Tensor(a!)[] outs) -> ()", append)
define("grow.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)", grow)
define("alias_first(Tensor(a) x) -> Tensor(a)", lambda x: x[:1])
define("add_to_both_(Tensor(a!) x, Tensor(b!) y) -> ()", lambda x, y: (x.add_(1), y.add_(1), None)[2])
define("sum_all(Tensor[] xs) -> float", lambda xs: float(sum(x.sum() for x in xs)))
define("transposed(Tensor x) -> Tensor", lambda x: x.t().clone(memory_format=torch.preserve_format))
LIBRARY.define("no_cpu(Tensor x) -> Tensor")


def npu(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32).npu()


def test_fallback_result_is_on_device_and_right() -> None:
    result = OPS.scale(npu(1, 2), 3.0)
    assert result.device == torch.device("npu:0")
    assert result.tolist() == [3, 6]


def test_fallback_counts_every_call_and_warns_once(capfd: pytest.CaptureFixture[str]) -> None:
    define("counted(Tensor x) -> Tensor", lambda x: x + 1)
    name = "npu_fallback_test::counted"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for calls in (1, 2, 3):
            OPS.counted(npu(1))
            assert cpu_fallback_counts()[name] == calls
    # torch.ops calls outside of the scope that turns C++ warnings into Python's: those go to stderr
    texts = [str(w.message) for w in caught if name in str(w.message)]
    texts += [line for line in capfd.readouterr().err.splitlines() if name in line]
    assert len(texts) == 1
    assert "cpu_fallback_counts()" in texts[0]
    assert "TORCH_NPU_FALLBACK_CPU_DISABLE=1" in texts[0]
    torch_npu._C.reset_cpu_fallback_counts()
    assert name not in cpu_fallback_counts()


def test_fallback_in_place_returns_the_argument_itself() -> None:
    x = npu(1, 2)
    view = x[1:]
    result = OPS.scale_(x, 5.0)
    assert result is x
    assert x.tolist() == [5, 10]
    assert view.tolist() == [10]


def test_fallback_in_place_on_strided_view_writes_only_its_elements() -> None:
    x = npu(1, 2, 3, 4)
    OPS.scale_(x[::2], 10.0)
    assert x.tolist() == [10, 2, 30, 4]


def test_fallback_in_place_on_expanded_tensor_raises() -> None:
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        OPS.scale_(npu(1).expand(3), 2.0)


@pytest.mark.parametrize("start", [(0,), (7,), (2, 3)])
def test_fallback_out_argument_is_resized(start: tuple[int, ...]) -> None:
    out = torch.zeros(start).npu()
    result = OPS.grow.out(npu(1, 2, 3), out=out)
    assert result is out
    assert out.tolist() == [[1, 2, 3], [1, 2, 3]]


def test_fallback_optional_and_several_results() -> None:
    first, second = OPS.both(npu(1), None)
    assert first.tolist() == [2]
    assert second is None or not second.numel()
    first, second = OPS.both(npu(1), npu(5))
    assert (first.device.type, second.device.type, second.tolist()) == ("npu", "npu", [7])


def test_fallback_list_results_are_moved() -> None:
    results = OPS.spread(npu(1, 2), 3)
    assert [r.tolist() for r in results] == [[1, 2], [2, 3], [3, 4]]
    assert {r.device.type for r in results} == {"npu"}


def test_fallback_written_lists_are_copied_back() -> None:
    outs = [npu(1), npu(10, 20)]
    OPS.accumulate_([npu(5), npu(1, 2)], outs)
    assert [out.tolist() for out in outs] == [[6], [11, 22]]


def test_fallback_tensor_given_twice_stays_one_tensor() -> None:
    x = npu(1)
    OPS.add_to_both_(x, x)
    assert x.tolist() == [3]


def test_fallback_scalar_result_is_passed_on() -> None:
    assert OPS.sum_all([npu(1, 2), npu(3)]) == 6.0


def test_fallback_result_strides_are_kept() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    assert OPS.transposed(x.npu()).stride() == OPS.transposed(x).stride()
    assert torch.equal(OPS.transposed(x.npu()).cpu(), x.t())


def test_fallback_error_of_cpu_kernel_leaves_argument_and_device_alone() -> None:
    def fail(x):
        x.zero_()
        raise IndexError("no such element")

    define("fail_(Tensor(a!) x) -> ()", fail)
    x = npu(1, 2)
    with pytest.raises(IndexError, match="no such element"):
        OPS.fail_(x)
    assert x.tolist() == [1, 2]
    assert OPS.scale(x, 2.0).tolist() == [2, 4]


def test_fallback_of_view_operator_raises_instead_of_copying() -> None:
    with pytest.raises(NotImplementedError, match="returns a view"):
        OPS.alias_first(npu(1, 2))


def test_fallback_without_cpu_kernel_names_the_operator() -> None:
    with pytest.raises(NotImplementedError, match="npu_fallback_test::no_cpu has neither an npu kernel nor a CPU kernel"):
        OPS.no_cpu(npu(1))


def test_fallback_device_argument_decides_where_result_is() -> None:
    for index in range(torch.npu.device_count()):
        result = torch.tril_indices(3, 2, device=f"npu:{index}")
        assert result.device == torch.device(f"npu:{index}")
        assert torch.equal(result.cpu(), torch.tril_indices(3, 2))
    assert torch.tril_indices(3, 2, device="npu").device.index == torch.npu.current_device()
    with pytest.raises(ValueError, match="device"):
        torch.tril_indices(3, 2, device="npu:77")


@pytest.mark.skipif("torch.npu.device_count() < 2")
def test_fallback_runs_on_the_device_of_its_arguments() -> None:
    result = OPS.scale(torch.ones(2).to("npu:1"), 2.0)
    assert result.device == torch.device("npu:1")
    assert torch.npu.current_device() == 0
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        OPS.both(torch.ones(2).to("npu:1"), npu(1, 2))


def test_fallback_device_mismatch_raises() -> None:
    message = "Expected all tensors to be on the same device, but found at least two devices, npu:0 and cpu!"
    with pytest.raises(RuntimeError, match=message):
        OPS.both(npu(1, 2), torch.ones(2))
    with pytest.raises(RuntimeError, match=message):
        OPS.both(torch.ones(2), npu(1, 2))
    with pytest.raises(RuntimeError, match=message):
        OPS.accumulate_([npu(1)], [torch.ones(())])  # a number, but written to
    first, second = OPS.both(npu(1, 2), torch.tensor(3.0))  # a number
    assert second.item() == 5.0


def test_fallback_cpu_autocast_does_not_reach_its_kernels() -> None:
    seen = []

    def multiply(x, y):
        seen.append((x @ y).dtype)
        return x @ y

    define("multiply(Tensor x, Tensor y) -> Tensor", multiply)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = OPS.multiply(torch.eye(2).npu(), torch.eye(2).npu())
    assert result.dtype == torch.float32
    assert seen == [torch.float32]


@pytest.mark.ranks
def test_fallback_disabled_raises_and_names_the_variable() -> None:
    code = """
import torch, torch_npu
x = torch.ones(2, 2).npu()
assert torch.equal(x.t().contiguous().cpu(), torch.ones(2, 2))
try:
    torch.ops.aten.lgamma(x)
except NotImplementedError as error:
    assert "aten::lgamma.out has no npu kernel" in str(error), error
    assert "TORCH_NPU_FALLBACK_CPU_DISABLE=1" in str(error), error
else:
    raise AssertionError("ran on the CPU")
assert torch_npu.npu.utils.cpu_fallback_counts() == {}
"""
    environment = {**os.environ, "TORCH_NPU_FALLBACK_CPU_DISABLE": "1"}
    done = subprocess.run([sys.executable, "-P", "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
