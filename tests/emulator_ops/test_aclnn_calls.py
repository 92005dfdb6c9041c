"""Both phases of aclnn calls: what is refused, who owns what, what reaches a kernel."""

import ctypes
import subprocess
import sys
import threading

import pytest
import torch
from aclnn_driver import (
    AICORE_EXCEPTION,
    FORMAT_FRACTAL_NZ,
    PARAM_INVALID,
    PARAM_NULL,
    AclError,
    DeviceTensor,
    Driver,
    Handle,
)
from torch.utils._python_dispatch import TorchDispatchMode


class Gate:
    """Work in the stream that waits until the test lets it go on."""

    CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

    def __init__(self, npu: Driver) -> None:
        self.npu = npu
        self.event = threading.Event()
        self.function = self.CALLBACK(lambda _: self.event.wait(30) and None)

    def __enter__(self) -> "Gate":
        self.npu.call("aclrtLaunchHostFunc", self.npu.stream, self.function, None)
        return self

    def __exit__(self, *_: object) -> None:
        self.event.set()
        self.npu.synchronize()


def test_add_of_strided_and_broadcast_tensors_matches_cpu(npu: Driver) -> None:
    a, b = torch.randn(6, 8)[::2].t(), torch.randn(3)
    out = npu.tensor(torch.full((3, 8), 77.0).t())
    npu.run("aclnnAdd", npu.tensor(a), npu.tensor(b), 2.0, out)
    torch.testing.assert_close(out.cpu(), a + 2 * b)


def test_view_with_an_offset_writes_nothing_outside_itself(npu: Driver) -> None:
    whole = torch.zeros(10)
    target = npu.tensor(whole[3:7])
    npu.run("aclnnInplaceFillScalar", target, 5.0)
    target.shape, target.strides, target.offset = (10,), (1,), 0
    assert target.cpu().tolist() == [0, 0, 0, 5, 5, 5, 5, 0, 0, 0]


@pytest.mark.parametrize(
    ("operator", "dtype"), [("aclnnCeil", torch.bool), ("aclnnErfc", torch.complex64), ("aclnnAbs", torch.bool)]
)
def test_type_that_no_kernel_computes_with_is_refused_before_it_reaches_the_stream(
    npu: Driver, operator: str, dtype: torch.dtype
) -> None:
    for _ in range(2):  # what was refused once is not taken for known
        with pytest.raises(AclError, match="not implemented for") as error:
            npu.run(operator, npu.empty(2, dtype=dtype), npu.empty(2, dtype=dtype))
        assert error.value.code == PARAM_INVALID
    npu.synchronize()


def test_trying_a_type_changes_neither_operands_nor_random_numbers(npu: Driver) -> None:
    x = npu.tensor(torch.full((3,), 2, dtype=torch.int16))
    npu.run("aclnnInplaceMuls", x, 3)
    assert x.cpu().tolist() == [6, 6, 6]
    state = torch.get_rng_state()
    for dtype in (torch.float64, torch.float16):
        npu.run("aclnnInplaceNormal", npu.empty(4, dtype=dtype), 0.0, 1.0, 7, 0)
    npu.synchronize()
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("operator", ["aclnnAdds", "aclnnSubs", "aclnnMuls", "aclnnDivs"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.complex64])
def test_result_of_a_tensor_and_a_number_is_converted_to_the_type_of_out(
    npu: Driver, operator: str, dtype: torch.dtype
) -> None:
    x, out = torch.tensor([0.5, 1.0, 4.0]), npu.empty(3, dtype=dtype)
    alpha = [1.0] if operator in ("aclnnAdds", "aclnnSubs") else []
    npu.run(operator, npu.tensor(x), 2.0, *alpha, out)
    function = {"aclnnAdds": torch.add, "aclnnSubs": torch.sub, "aclnnMuls": torch.mul, "aclnnDivs": torch.div}[operator]
    assert torch.equal(out.cpu(), function(x, 2.0).to(dtype))


@pytest.mark.parametrize("missing", [0, 1, 3])
def test_null_argument_is_refused_by_name(npu: Driver, missing: int) -> None:
    arguments = [npu.empty(2), npu.empty(2), 1.0, npu.empty(2)]
    arguments[missing] = None
    with pytest.raises(AclError) as error:
        npu.run("aclnnAdd", *arguments)
    assert error.value.code == PARAM_NULL
    assert ["self", "other", "", "out"][missing] + " is a null pointer" in error.value.message


def test_output_of_a_wrong_shape_is_refused_with_both_shapes(npu: Driver) -> None:
    with pytest.raises(AclError) as error:
        npu.run("aclnnMm", npu.empty(2, 3), npu.empty(3, 4), npu.empty(2, 5), 1)
    assert error.value.code == PARAM_INVALID
    assert "aclnnMm" in error.value.message
    assert "[2, 5]" in error.value.message and "[2, 4]" in error.value.message


def test_inputs_that_do_not_broadcast_are_refused_with_both_shapes(npu: Driver) -> None:
    with pytest.raises(AclError) as error:
        npu.run("aclnnMul", npu.empty(2, 3), npu.empty(4), npu.empty(2, 3))
    assert error.value.code == PARAM_INVALID
    assert "[2, 3]" in error.value.message and "[4]" in error.value.message


def test_view_that_leaves_its_storage_is_refused(npu: Driver) -> None:
    tensor = npu.empty(4)
    tensor.offset = 1
    with pytest.raises(AclError) as error:
        npu.run("aclnnInplaceZero", tensor)
    assert error.value.code == PARAM_INVALID
    assert "storage of 4 elements" in error.value.message


def test_private_format_is_refused(npu: Driver) -> None:
    tensor = npu.empty(4, 4)
    tensor.format = FORMAT_FRACTAL_NZ
    with pytest.raises(AclError, match="private format") as error:
        npu.run("aclnnInplaceZero", tensor)
    assert error.value.code == PARAM_INVALID


def test_executor_of_another_operator_is_refused(npu: Driver) -> None:
    executor, handles = npu.plan("aclnnInplaceZero", npu.empty(2))
    code = npu.operators.aclnnInplaceOne(None, ctypes.c_uint64(0), executor, npu.stream)
    npu.destroy(handles)
    assert code == PARAM_INVALID
    assert "aclnnInplaceZero" in npu.message()


def test_executor_may_be_destroyed_without_being_run(npu: Driver) -> None:
    target = npu.tensor(torch.ones(2))
    executor, handles = npu.plan("aclnnInplaceZero", target)
    npu.call("aclDestroyAclOpExecutor", executor)
    npu.destroy(handles)
    assert target.cpu().tolist() == [1, 1]


def test_null_workspace_size_is_refused(npu: Driver) -> None:
    descriptor = npu.empty(2).descriptor()
    executor = ctypes.c_void_p()
    code = npu.operators.aclnnInplaceZeroGetWorkspaceSize(
        ctypes.c_void_p(descriptor), None, ctypes.byref(executor)
    )
    npu.destroy([(descriptor, "aclDestroyTensor")])
    assert code == PARAM_NULL


def test_arguments_destroyed_before_the_work_runs_are_not_needed_any_more(npu: Driver) -> None:
    inputs = [torch.randn(3, 2), torch.randn(3, 5)]
    out = npu.empty(3, 7)
    scaled = npu.empty(3, 7)
    with Gate(npu):
        npu.run("aclnnCat", [npu.tensor(t) for t in inputs], 1, out)
        npu.run("aclnnMuls", out, 3.0, scaled)
    torch.testing.assert_close(scaled.cpu(), torch.cat(inputs, 1) * 3)


def test_index_out_of_range_fails_the_stream_and_names_the_operator(npu: Driver) -> None:
    npu.run("aclnnIndexSelect", npu.empty(3, 2), 0, npu.tensor(torch.tensor([7])), npu.empty(1, 2))
    with pytest.raises(AclError) as error:
        npu.synchronize()
    npu.new_stream()
    assert error.value.code == AICORE_EXCEPTION
    assert "aclnnIndexSelect" in error.value.message


@pytest.mark.parametrize("mode", ["inference", "autocast", "grad", "threads"])
def test_state_of_the_waiting_thread_does_not_reach_a_kernel(npu: Driver, mode: str) -> None:
    a, b = torch.randn(16, 16), torch.randn(16, 16)
    expected = a @ b
    out = npu.empty(16, 16)
    before = torch.get_num_threads()
    tensors = (npu.tensor(a), npu.tensor(b), out)
    if mode == "inference":
        with torch.inference_mode():
            npu.run("aclnnMm", *tensors, 1)
            npu.synchronize()
    elif mode == "autocast":
        with torch.autocast("cpu", torch.bfloat16):
            npu.run("aclnnMm", *tensors, 1)
            npu.synchronize()
            assert (a @ b).dtype == torch.bfloat16, "autocast of the thread goes on"
    elif mode == "grad":
        a.requires_grad_(True)
        npu.run("aclnnMm", *tensors, 1)
        npu.synchronize()
        assert torch.is_grad_enabled()
    else:
        torch.set_num_threads(before + 1)
        npu.run("aclnnMm", *tensors, 1)
        npu.synchronize()
        assert torch.get_num_threads() == before + 1
        torch.set_num_threads(before)
    assert torch.equal(out.cpu(), expected)


def test_dispatch_mode_of_the_waiting_thread_sees_no_kernel(npu: Driver) -> None:
    class Recorder(TorchDispatchMode):
        seen: list[str] = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen.append(str(func))
            return func(*args, **(kwargs or {}))

    a, out = torch.randn(4, 4), npu.empty(4, 4)
    tensors = (npu.tensor(a), npu.tensor(a), out)
    with Recorder() as recorder:
        npu.run("aclnnMm", *tensors, 1)
        npu.synchronize()
        assert recorder.seen == []
        torch.ones(1).add(1)
        assert recorder.seen, "the mode goes on afterwards"
    torch.testing.assert_close(out.cpu(), a @ a)


def in_new_process(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    import os

    prelude = "import torch\nfrom aclnn_driver import *\nnpu = Driver()\n"
    return subprocess.run(
        [sys.executable, "-c", prelude + program], capture_output=True, text=True, timeout=120,
        env={**os.environ, "PYTHONPATH": os.path.dirname(__file__), **environment},
    )  # fmt: skip


USE_DOUBLE = """
for _ in range(3):
    out = npu.empty(2, 2, dtype=torch.float64)
    npu.run("aclnnMm", npu.tensor(torch.eye(2).double()), npu.tensor(torch.eye(2).double()), out, 1)
assert torch.equal(out.cpu(), torch.eye(2).double())
"""


def test_type_that_is_not_documented_is_computed_with_one_warning() -> None:
    result = in_new_process(USE_DOUBLE, TORCH_NPU_EMULATOR_STRICT_DTYPES="0")
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("aclnnMm") == 1
    assert "DOUBLE" in result.stderr


def test_type_that_is_not_documented_is_refused_in_strict_mode() -> None:
    result = in_new_process(USE_DOUBLE, TORCH_NPU_EMULATOR_STRICT_DTYPES="1")
    assert result.returncode != 0
    assert f"{PARAM_INVALID}" in result.stderr and "DOUBLE" in result.stderr


def test_host_memory_is_refused_in_strict_mode() -> None:
    program = """
tensor = npu.empty(4)
tensor.pointer = torch.zeros(4).data_ptr()
npu.run("aclnnInplaceZero", tensor)
"""
    result = in_new_process(program, TORCH_NPU_EMULATOR_STRICT_DTYPES="1")
    assert result.returncode != 0
    assert "not in device memory" in result.stderr


@pytest.mark.parametrize("value", [True, 7, -2.5, 1 + 2j])
def test_scalar_of_each_type_reaches_the_kernel(npu: Driver, value: complex) -> None:
    dtype = torch.complex64 if isinstance(value, complex) else torch.float32
    out = npu.empty(3, dtype=dtype)
    npu.run("aclnnInplaceFillScalar", out, value)
    assert torch.equal(out.cpu(), torch.full((3,), value, dtype=dtype))


class TestObjects:
    def test_list_destroys_its_members(self, npu: Driver) -> None:
        members = [npu.empty(2).descriptor() for _ in range(3)]
        array = (ctypes.c_void_p * 3)(*members)
        handle = npu.create("aclCreateTensorList", array, ctypes.c_uint64(3))
        npu.call("aclDestroyTensorList", ctypes.c_void_p(handle))

    def test_view_shape_is_that_of_creation(self, npu: Driver) -> None:
        handle = Handle(npu.empty(2, 0, 3))
        assert handle.shape() == (2, 0, 3)
        handle.destroy()

    @pytest.mark.parametrize("function", ["aclCreateIntArray", "aclCreateBoolArray", "aclCreateTensorList"])
    def test_null_array_with_a_size_is_refused(self, npu: Driver, function: str) -> None:
        with pytest.raises(AclError, match="null pointer"):
            npu.create(function, None, ctypes.c_uint64(2))

    def test_scalar_of_a_type_without_numbers_is_refused(self, npu: Driver) -> None:
        with pytest.raises(AclError, match="cannot be a scalar"):
            npu.create("aclCreateScalar", ctypes.byref(ctypes.c_int64(1)), ctypes.c_int(13))

    def test_null_handles_may_be_destroyed(self, npu: Driver) -> None:
        for function in ("aclDestroyTensor", "aclDestroyScalar", "aclDestroyIntArray", "aclDestroyTensorList"):
            npu.call(function, None)


def largest(npu: Driver, *shape: int, dtype: torch.dtype = torch.float32) -> tuple[DeviceTensor, Handle]:
    tensor = npu.empty(*shape, dtype=dtype)
    return tensor, Handle(tensor)


def shaped(tensor: DeviceTensor, handle: Handle) -> torch.Tensor:
    """The result, dense at the start of the memory that was given."""
    shape = handle.shape()
    handle.destroy()
    return tensor.cpu().flatten()[: torch.Size(shape).numel()].reshape(shape)


class TestShapesThatDependOnData:
    def test_masked_select_rewrites_the_view_shape(self, npu: Driver) -> None:
        x = torch.randn(5, 7)
        out, handle = largest(npu, 35)
        npu.run("aclnnMaskedSelect", npu.tensor(x), npu.tensor(x > 0), handle)
        npu.synchronize()
        assert torch.equal(shaped(out, handle), x[x > 0])

    def test_view_shape_is_still_the_largest_before_the_work_ran(self, npu: Driver) -> None:
        x = torch.tensor([0.0, 1.0, 0.0])
        out, handle = largest(npu, 3, 1, dtype=torch.int64)
        with Gate(npu):
            npu.run("aclnnNonzero", npu.tensor(x), handle)
            assert handle.shape() == (3, 1)
        assert shaped(out, handle).tolist() == [[1]]

    def test_handle_destroyed_before_the_work_ran_is_no_error(self, npu: Driver) -> None:
        out, handle = largest(npu, 3, 1, dtype=torch.int64)
        with Gate(npu):
            npu.run("aclnnNonzero", npu.tensor(torch.ones(3)), handle)
            handle.destroy()
        assert out.cpu().tolist() == [[0], [1], [2]]

    @pytest.mark.parametrize("operator", ["aclnnNonzero", "aclnnNonzeroV2"])
    def test_nonzero_of_a_matrix_gives_coordinates(self, npu: Driver, operator: str) -> None:
        x = torch.tensor([[0, 1, 2], [3, 0, 0]])
        rows = operator == "aclnnNonzero"
        out, handle = largest(npu, *((6, 2) if rows else (2, 6)), dtype=torch.int64)
        npu.run(operator, npu.tensor(x), handle)
        npu.synchronize()
        expected = x.nonzero()
        assert torch.equal(shaped(out, handle), expected if rows else expected.t())

    def test_nonzero_of_zeros_is_empty(self, npu: Driver) -> None:
        out, handle = largest(npu, 4, 1, dtype=torch.int64)
        npu.run("aclnnNonzero", npu.tensor(torch.zeros(4)), handle)
        npu.synchronize()
        assert shaped(out, handle).shape == (0, 1)

    def test_unique_gives_values_places_and_counts(self, npu: Driver) -> None:
        x = torch.tensor([3, 1, 3, 2, 1, 3])
        values, values_handle = largest(npu, 6, dtype=torch.int64)
        counts, counts_handle = largest(npu, 6, dtype=torch.int64)
        inverse = npu.empty(6, dtype=torch.int64)
        npu.run("aclnnUnique2", npu.tensor(x), True, True, True, values_handle, inverse, counts_handle)
        npu.synchronize()
        expected = torch.unique(x, return_inverse=True, return_counts=True)
        found = (shaped(values, values_handle), inverse.cpu(), shaped(counts, counts_handle))
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))

    def test_unique_writes_values_and_the_inverse_in_the_input_s_shape(self, npu: Driver) -> None:
        x = torch.tensor([[3, 1, 3], [2, 1, 3]])
        values, handle = largest(npu, 6, dtype=torch.int64)
        inverse = npu.empty(2, 3, dtype=torch.int64)
        npu.run("aclnnUnique", npu.tensor(x), True, True, handle, inverse)
        npu.synchronize()
        expected = torch.unique(x, return_inverse=True)
        assert torch.equal(shaped(values, handle), expected[0])
        assert torch.equal(inverse.cpu(), expected[1])

    @pytest.mark.parametrize("dim", [None, 0, 1])
    def test_unique_consecutive_writes_values_inverse_and_counts(self, npu: Driver, dim: int | None) -> None:
        x = torch.tensor([[3, 3, 1], [3, 3, 1], [3, 3, 2]])
        values, handle = largest(npu, 9, dtype=torch.int64)
        counts, counts_handle = largest(npu, 9 if dim is None else 3, dtype=torch.int64)
        inverse = npu.empty(*((3, 3) if dim is None else (3,)), dtype=torch.int64)
        number = (1 << 63) - 1 if dim is None else dim
        npu.run("aclnnUniqueConsecutive", npu.tensor(x), True, True, number, handle, inverse, counts_handle)
        npu.synchronize()
        expected = torch.unique_consecutive(x, return_inverse=True, return_counts=True, dim=dim)
        found = (shaped(values, handle), inverse.cpu(), shaped(counts, counts_handle))
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))

    @pytest.mark.parametrize("dim", [0, 1, -1])
    def test_unique_dim_writes_slices_inverse_and_counts(self, npu: Driver, dim: int) -> None:
        x = torch.tensor([[3, 1, 3], [2, 1, 2], [3, 1, 3]])
        values, handle = largest(npu, 9, dtype=torch.int64)
        counts, counts_handle = largest(npu, 3, dtype=torch.int64)
        inverse = npu.empty(3, dtype=torch.int64)
        npu.run("aclnnUniqueDim", npu.tensor(x), True, True, dim, handle, inverse, counts_handle)
        npu.synchronize()
        expected = torch.unique(x, return_inverse=True, return_counts=True, dim=dim)
        found = (shaped(values, handle), inverse.cpu(), shaped(counts, counts_handle))
        assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))

    def test_output_without_room_for_the_largest_result_is_refused(self, npu: Driver) -> None:
        with pytest.raises(AclError, match="room for 3") as error:
            npu.run("aclnnMaskedSelect", npu.empty(4), npu.tensor(torch.ones(4).bool()), npu.empty(3))
        assert error.value.code == PARAM_INVALID
