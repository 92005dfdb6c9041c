"""What holds for all operators: out=, devices, dtypes, streams, errors that say what is wrong."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from torch_npu.npu.utils import cpu_fallback_counts

X = torch.linspace(-2, 2, 12).reshape(3, 4)


def test_out_of_wrong_size_is_resized() -> None:
    out = torch.empty(0, device="npu")
    result = torch.add(X.npu(), 1, out=out)
    assert result is out
    torch.testing.assert_close(out.cpu(), X + 1)


def test_out_strided_is_written_in_place() -> None:
    whole = torch.zeros(3, 8, device="npu")
    torch.mm(X.npu(), torch.eye(4, device="npu"), out=whole[:, ::2])
    expected = torch.zeros(3, 8)
    expected[:, ::2] = X
    torch.testing.assert_close(whole.cpu(), expected)


def test_out_of_other_dtype_is_converted_where_torch_allows_it() -> None:
    out = torch.empty(3, 4, device="npu", dtype=torch.float64)
    torch.add(X.npu(), X.npu(), out=out)
    torch.testing.assert_close(out.cpu(), (X + X).double())


@pytest.mark.parametrize(
    ("function", "dtype", "message"),
    [(torch.exp, torch.int64, "can't be cast"), (lambda x, out: torch.mm(x, x.t(), out=out), torch.float16, "dtype")],
    ids=["elementwise", "matrix"],
)
def test_out_of_impossible_dtype_raises(function, dtype: torch.dtype, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        function(X.npu(), out=torch.empty(3, 3, device="npu", dtype=dtype))


def test_several_outs_are_filled_and_returned() -> None:
    values, indices = torch.empty(0, device="npu"), torch.empty(0, dtype=torch.int64, device="npu")
    result = torch.max(X.npu(), 1, out=(values, indices))
    assert result.values is values and result.indices is indices
    expected = torch.max(X, 1)
    torch.testing.assert_close(values.cpu(), expected.values)
    torch.testing.assert_close(indices.cpu(), expected.indices)


@pytest.mark.parametrize(
    "operation",
    [
        lambda: torch.add(X.npu(), X),
        lambda: torch.add(X, X.npu()),
        lambda: X.npu() @ X.t(),
        lambda: torch.cat([X.npu(), X]),
        lambda: torch.nn.functional.layer_norm(X.npu(), (4,), torch.ones(4)),
        lambda: torch.add(X.npu("npu:0"), X.npu("npu:1")),
        lambda: X.npu("npu:0") @ X.t().npu("npu:1"),
    ],
    ids=["elementwise", "cpu_first", "matrix", "list", "layer", "elementwise_npus", "matrix_npus"],
)
def test_tensors_on_different_devices_raise(operation) -> None:
    with pytest.raises(RuntimeError, match="same device"):
        operation()


@pytest.mark.parametrize(
    ("function", "arguments"),
    [(torch.mm, 2), (torch.cumsum, 1), (torch.addmm, 3), (torch.sort, 1), (torch.cat, 0)],
    ids=["mm", "cumsum", "addmm", "sort", "cat"],
)
def test_out_that_is_an_input_is_written_after_it_is_read(function, arguments: int) -> None:
    def run(device: str) -> list[torch.Tensor]:
        square = torch.linspace(-1, 2, 9).reshape(3, 3).to(device)
        other = square.flip(0).t().contiguous()
        if function is torch.cat:
            return [torch.cat([square[:1], square[1:]], out=square)]
        if function is torch.sort:
            return list(torch.sort(square, 0, descending=True, out=(square, torch.empty(0, dtype=torch.int64, device=device))))
        if function is torch.cumsum:
            return [torch.cumsum(square, 0, out=square)]
        return [function(*([square, other, other][:arguments]), out=square)]

    def expect() -> list[torch.Tensor]:
        square = torch.linspace(-1, 2, 9).reshape(3, 3)
        other = square.flip(0).t().contiguous()
        if function is torch.cat:
            return [square]
        if function is torch.sort:
            return list(torch.sort(square, 0, descending=True))
        if function is torch.cumsum:
            return [torch.cumsum(square, 0)]
        return [function(*([square, other, other][:arguments]))]

    torch.testing.assert_close([t.cpu() for t in run("npu")], expect())


def test_out_with_overlapping_memory_raises() -> None:
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.mm(X.npu(), X.t().npu(), out=torch.zeros(1, 3, device="npu").expand(3, 3))


def test_launch_goes_to_the_device_of_the_tensor_not_the_current_one() -> None:
    assert torch.npu.current_device() == 0
    result = torch.exp(X.npu("npu:1"))
    assert result.device == torch.device("npu:1")
    assert torch.npu.current_device() == 0
    torch.testing.assert_close(result.cpu(), torch.exp(X))


def test_launch_goes_to_the_current_stream() -> None:
    stream = torch.npu.Stream()
    x = X.npu()
    stream.wait_stream(torch.npu.current_stream())
    with torch.npu.stream(stream):
        y = x
        for _ in range(10):
            y = y + 1
    stream.synchronize()
    torch.npu.current_stream().wait_stream(stream)
    torch.testing.assert_close(y.cpu(), X + 10)


def test_inplace_on_overlapping_memory_raises() -> None:
    x = torch.zeros(1, 4, device="npu").expand(3, 4)
    with pytest.raises(RuntimeError, match="single memory location"):
        x.add_(1)


def test_inplace_that_would_broadcast_self_raises() -> None:
    with pytest.raises(RuntimeError, match="shape"):
        torch.zeros(4, device="npu").add_(X.npu())


WRONG = [
    ("matmul", lambda x: x @ x, "mat1 and mat2 shapes cannot be multiplied"),
    ("matmul dtype", lambda x: x @ x.t().half(), "to have the same dtype"),
    ("addmm dtype", lambda x: torch.addmm(x[0].half(), x, x.t() @ x), "have the same dtype"),
    ("dot size", lambda x: torch.dot(x[0], x[:, 0]), "inconsistent tensor size"),
    ("broadcast", lambda x: x + torch.zeros(5, device="npu"), "must match the size"),
    ("cat", lambda x: torch.cat([x, x[:, :2]]), "Sizes of tensors must match"),
    ("dim", lambda x: x.sum(3), "Dimension out of range"),
    ("index rank", lambda x: x.index_select(0, torch.tensor([[0]], device="npu")), "supposed to be a vector"),
    ("index dtype", lambda x: x[x], "tensors used as indices must be"),
    ("too many indices", lambda x: x[[0], [0], [0]], "too many indices"),
    ("mask shape", lambda x: x[torch.ones(2, device="npu", dtype=torch.bool)], "shape of the mask"),
    ("put dtype", lambda x: x.index_put_((torch.tensor([0], device="npu"),), x[0].half()), "dtypes match"),
    ("gather dtype", lambda x: x.gather(0, x), "for index"),
    ("mask dtype", lambda x: x.masked_fill(x, 1.0), "boolean mask"),
    ("fill complex", lambda x: x.fill_(1j), "without overflow"),
    ("fill shape", lambda x: x.fill_(x[0]), "0-dim"),
    ("integers in place", lambda x: x.long().div_(2), "can't be cast"),
    ("negative of bool", lambda x: -(x > 0), "on a bool tensor is not supported"),
    ("bits of floats", lambda x: x & x, "not implemented for"),
    ("softmax of integers", lambda x: x.long().softmax(0), "not implemented for"),
    ("maximum of complex", lambda x: torch.complex(x, x).max(), "not implemented for"),
    ("layer norm weight", lambda x: torch.nn.functional.layer_norm(x, (4,), x[0, :3]), "same shape as normalized_shape"),
    ("gelu", lambda x: torch.nn.functional.gelu(x, approximate="exact"), "either none or tanh"),
    ("kthvalue", lambda x: x.kthvalue(9), "out of range"),
    ("roll", lambda x: x.roll((1, 2), (0,)), "must align"),
    ("pad", lambda x: torch.nn.functional.pad(x, (-9, 1)), "negative output size"),
    ("arange step", lambda x: torch.arange(0, 5, 0, device="npu"), "step must be nonzero"),
    ("arange sign", lambda x: torch.arange(0, 5, -1, device="npu"), "inconsistent with step sign"),
    ("arange fraction", lambda x: torch.arange(0, 5, 0.5, out=torch.empty(0, dtype=torch.int64, device="npu")),
     "step must be nonzero"),
    ("eye", lambda x: torch.eye(-1, device="npu"), "greater or equal to 0"),
    ("empty maximum", lambda x: x[:0].max(), "numel\\(\\) == 0"),
]


@pytest.mark.parametrize(("operation", "message"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_wrong_arguments_raise_at_once_and_leave_the_device_usable(operation, message: str) -> None:
    x = X.npu()
    with pytest.raises((RuntimeError, IndexError, ValueError, NotImplementedError), match=message):
        operation(x)
    torch.npu.synchronize()
    torch.testing.assert_close((X.npu() + 1).cpu(), X + 1)


def test_failing_aclnn_call_names_the_function_and_its_arguments() -> None:
    with pytest.raises(RuntimeError, match=r"aclnnGroupNormGetWorkspaceSize[\s\S]*\(float32\[3, 4\], null, null, 2, 3,"):
        torch.ops.aten.native_group_norm(X.npu(), None, None, 2, 3, 7, 1, 1e-5)


@pytest.mark.ranks
@pytest.mark.parametrize("blocking", ["0", "1"])
def test_failing_kernel_is_raised_by_its_own_call_when_launches_block(blocking: str) -> None:
    program = """
import torch
x, beyond = torch.zeros(3, device="npu"), torch.tensor([7], device="npu")
try:
    x.index_select(0, beyond)
    print("returned")
    torch.npu.synchronize()
except RuntimeError as error:
    print(error)
"""
    result = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=120,
                            env={**os.environ, "ASCEND_LAUNCH_BLOCKING": blocking})
    if blocking == "0":
        assert result.stdout.startswith("returned\n"), result
    else:
        assert "aclnnIndexSelect(float32[3], 0, int64[1], float32[1])" in result.stdout, result
        assert "returned" not in result.stdout


def test_storage_without_memory_is_refused() -> None:
    x = X.npu()
    x.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="has no memory"):
        x + 1


def test_number_operands_copy_nothing_to_the_device() -> None:
    x = X.npu()
    torch.npu.synchronize()
    fallbacks = cpu_fallback_counts()
    result = (2 - (3 * (x + 1) / 2)).clamp(-1, 1) ** 2
    assert cpu_fallback_counts() == fallbacks
    torch.testing.assert_close(result.cpu(), (2 - (3 * (X + 1) / 2)).clamp(-1, 1) ** 2)


def test_complex_numbers_that_aclnn_has_no_function_for_are_right() -> None:
    z = torch.complex(X, X + 1)
    torch.testing.assert_close(torch.sgn(z.npu()).cpu(), torch.sgn(z))
    torch.testing.assert_close(torch.abs(z.npu()).cpu(), torch.abs(z))


def test_lazy_conjugates_and_negatives_are_computed_before_use() -> None:
    z = torch.complex(X, X + 1)
    for function in (lambda t: t @ t.mH, lambda t: torch.dot(t[0], t[1].conj()), lambda t: t.conj().imag + 1,
                     lambda t: torch.vdot(t[0], t[1]), lambda t: torch.linalg.vector_norm(t.conj())):
        torch.testing.assert_close(function(z.npu()).cpu(), function(z))


def test_fractional_correction_is_right() -> None:
    torch.testing.assert_close(X.npu().var(1, correction=0.5).cpu(), X.var(1, correction=0.5))


@pytest.mark.parametrize(
    "operation",
    [
        lambda d: torch.arange(3, dtype=torch.bool, device=d),
        lambda d: torch.ones(2, 2, dtype=torch.bool, device=d) @ torch.ones(2, 2, dtype=torch.bool, device=d),
        lambda d: torch.erfc(torch.ones(2, dtype=torch.complex64, device=d)),
        lambda d: torch.nn.functional.mish(torch.ones(2, dtype=torch.int64, device=d)),
        lambda d: torch.rsub(torch.ones(2, dtype=torch.bool, device=d), torch.ones(2, dtype=torch.bool, device=d)),
        lambda d: torch.nn.functional.hardtanh(torch.ones(2, dtype=torch.bool, device=d)),
        lambda d: torch.nn.functional.hardshrink(torch.ones(2, dtype=torch.int64, device=d)),
        lambda d: torch.nn.functional.rms_norm(torch.ones(2, dtype=torch.int64, device=d), (2,)),
        lambda d: torch.nansum(torch.ones(2, dtype=torch.complex64, device=d)),
        lambda d: torch.linspace(0, 300, 3, dtype=torch.uint8, device=d),
        lambda d: torch.nn.functional.threshold(torch.ones(2, dtype=torch.uint8, device=d), 300, 1),
        lambda d: torch.ones(2, dtype=torch.uint8, device=d).index_fill_(0, torch.tensor([0], device=d), 300),
    ],
    ids=["arange", "mm", "erfc", "mish", "rsub", "hardtanh", "hardshrink", "rms_norm", "nansum", "linspace",
         "threshold", "index_fill"],
)  # fmt: skip
def test_arguments_that_torch_refuses_raise_at_once_and_the_device_lives(operation) -> None:
    with pytest.raises(RuntimeError):
        operation("cpu")
    with pytest.raises(RuntimeError):
        operation("npu")
    torch.npu.synchronize()
    assert X.npu().sum().item() == pytest.approx(X.sum().item(), abs=1e-5)
