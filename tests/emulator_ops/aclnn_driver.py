"""Drives the emulator's aclnn operators through ctypes, as a program in C would."""

import csv
import ctypes
import functools
import os
import pathlib
from collections.abc import Sequence
from typing import Any

import torch  # first: libnpu_emulator_ops.so finds libtorch among the loaded libraries

ROOT = pathlib.Path(__file__).parents[2]
PARAM_NULL, PARAM_INVALID = 161001, 161002
AICORE_EXCEPTION = 507015
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
FORMAT_ND, FORMAT_FRACTAL_NZ = 2, 29

DATA_TYPES = {
    torch.float32: 0, torch.float16: 1, torch.int8: 2, torch.int32: 3, torch.uint8: 4, torch.int16: 6,
    torch.int64: 9, torch.float64: 11, torch.bool: 12, torch.complex64: 16, torch.complex128: 17,
    torch.bfloat16: 27,
}  # fmt: skip


def library(name: str) -> ctypes.CDLL:
    """A library of the emulator: from TORCH_NPU_EMULATOR_PATH, else the one built into the tree."""
    folder = os.environ.get("TORCH_NPU_EMULATOR_PATH") or ROOT / "torch_npu" / "emulator"
    return ctypes.CDLL(str(pathlib.Path(folder) / name))


@functools.cache
def facts() -> dict[str, list[str]]:
    """Operator -> C types of the parameters of its first phase, without the last two."""
    with (ROOT / "csrc" / "cann" / "facts" / "aclnn_functions.tsv").open(newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return {
        row["op"]: [p.strip().removeprefix("const ").rpartition(" ")[0]
                    for p in row["get_workspace_size_parameters"].split(";")][:-2]
        for row in rows
    }  # fmt: skip


class AclError(RuntimeError):
    """A call returned a code other than 0."""

    def __init__(self, call: str, code: int, message: str) -> None:
        super().__init__(f"{call} -> {code}: {message}")
        self.code = code
        self.message = message


class DeviceTensor:
    """Device memory and a view of it. The descriptor is made for each call, as callers do."""

    def __init__(self, driver: "Driver", host: torch.Tensor) -> None:
        self.driver = driver
        self.dtype, self.shape, self.strides = host.dtype, tuple(host.shape), tuple(host.stride())
        self.offset = host.storage_offset()
        self.elements = host.untyped_storage().nbytes() // host.element_size()
        self.bytes = host.untyped_storage().nbytes()
        self.pointer = driver.malloc(max(self.bytes, 1))
        driver.copy(self.pointer, host.untyped_storage().data_ptr(), self.bytes, HOST_TO_DEVICE)
        self.format = FORMAT_ND

    def descriptor(self) -> int:
        array = ctypes.c_int64 * len(self.shape)
        return self.driver.create(
            "aclCreateTensor", array(*self.shape), ctypes.c_uint64(len(self.shape)),
            ctypes.c_int(DATA_TYPES[self.dtype]), array(*self.strides), ctypes.c_int64(self.offset),
            ctypes.c_int(self.format), (ctypes.c_int64 * 1)(self.elements), ctypes.c_uint64(1),
            ctypes.c_void_p(self.pointer),
        )  # fmt: skip

    def cpu(self) -> torch.Tensor:
        """What the device holds, after the stream has done its work."""
        self.driver.synchronize()
        flat = torch.empty(self.elements, dtype=self.dtype)
        self.driver.copy(flat.data_ptr(), self.pointer, self.bytes, DEVICE_TO_HOST)
        return flat.as_strided(self.shape, self.strides, self.offset)


class Driver:
    """One device, one stream."""

    def __init__(self) -> None:
        self.runtime = library("libnpu_emulator.so")
        self.operators = library("libnpu_emulator_ops.so")
        self.runtime.aclGetRecentErrMsg.restype = ctypes.c_char_p
        self.runtime.aclInit(None)
        self.call("aclrtSetDevice", ctypes.c_int(0))
        self.stream = ctypes.c_void_p()
        self.call("aclrtCreateStream", ctypes.byref(self.stream))
        self.allocations: list[int] = []

    def message(self) -> str:
        return (self.runtime.aclGetRecentErrMsg() or b"").decode()

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.runtime, name)(*arguments)
        if code != 0:
            raise AclError(name, code, self.message())

    def create(self, name: str, *arguments: Any) -> int:
        function = getattr(self.runtime, name)
        function.restype = ctypes.c_void_p
        handle = function(*arguments)
        if handle is None:
            raise AclError(name, -1, self.message())
        return int(handle)

    def malloc(self, size: int) -> int:
        pointer = ctypes.c_void_p()
        self.call("aclrtMalloc", ctypes.byref(pointer), ctypes.c_size_t(size), ctypes.c_int(0))
        assert pointer.value is not None
        self.allocations.append(pointer.value)
        return pointer.value

    def copy(self, target: int, source: int, size: int, kind: int) -> None:
        if size:
            self.call("aclrtMemcpy", ctypes.c_void_p(target), ctypes.c_size_t(size),
                      ctypes.c_void_p(source), ctypes.c_size_t(size), ctypes.c_int(kind))  # fmt: skip

    def synchronize(self) -> None:
        self.call("aclrtSynchronizeStream", self.stream)

    def new_stream(self) -> None:
        """Goes on with a stream that carries no error, and ends the old one: its error would be the device's too."""
        if self.stream:
            self.call("aclrtDestroyStreamForce", self.stream)
        self.stream = ctypes.c_void_p()
        self.call("aclrtCreateStream", ctypes.byref(self.stream))

    def free_all(self) -> None:
        """After a test; a failure that it left on the stream ends with the stream."""
        if self.runtime.aclrtSynchronizeStream(self.stream) != 0:
            self.new_stream()
        for pointer in self.allocations:
            self.call("aclrtFree", ctypes.c_void_p(pointer))
        self.allocations.clear()

    def tensor(self, host: torch.Tensor) -> DeviceTensor:
        return DeviceTensor(self, host)

    def empty(self, *shape: int, dtype: torch.dtype = torch.float32) -> DeviceTensor:
        return self.tensor(torch.full(shape, 77, dtype=dtype))

    def scalar(self, value: complex | float | bool) -> int:
        if isinstance(value, bool):
            return self.create("aclCreateScalar", ctypes.byref(ctypes.c_bool(value)), ctypes.c_int(12))
        if isinstance(value, int):
            return self.create("aclCreateScalar", ctypes.byref(ctypes.c_int64(value)), ctypes.c_int(9))
        if isinstance(value, complex):
            parts = (ctypes.c_double * 2)(value.real, value.imag)
            return self.create("aclCreateScalar", parts, ctypes.c_int(17))
        return self.create("aclCreateScalar", ctypes.byref(ctypes.c_double(value)), ctypes.c_int(11))

    def handle(self, c_type: str, value: Any) -> tuple[int, str]:
        """The handle of an argument and the function that destroys it."""
        if c_type == "aclTensor*":
            return value.descriptor(), "aclDestroyTensor"
        if c_type == "aclScalar*":
            return self.scalar(value), "aclDestroyScalar"
        if c_type == "aclTensorList*":
            members = (ctypes.c_void_p * len(value))(*[v and v.descriptor() for v in value])
            return self.create("aclCreateTensorList", members, ctypes.c_uint64(len(value))), "aclDestroyTensorList"
        if c_type == "aclScalarList*":
            members = (ctypes.c_void_p * len(value))(*[self.scalar(v) for v in value])
            return self.create("aclCreateScalarList", members, ctypes.c_uint64(len(value))), "aclDestroyScalarList"
        if c_type == "aclIntArray*":
            array = (ctypes.c_int64 * len(value))(*value)
            return self.create("aclCreateIntArray", array, ctypes.c_uint64(len(value))), "aclDestroyIntArray"
        assert c_type == "aclBoolArray*", c_type
        flags = (ctypes.c_bool * len(value))(*value)
        return self.create("aclCreateBoolArray", flags, ctypes.c_uint64(len(value))), "aclDestroyBoolArray"

    def destroy(self, handles: Sequence[tuple[int, str]]) -> None:
        for handle, function in handles:
            self.call(function, ctypes.c_void_p(handle))

    def arguments(self, types: list[str], values: Sequence[Any]) -> tuple[list[Any], list[tuple[int, str]]]:
        numbers = {
            "int64_t": ctypes.c_int64, "int32_t": ctypes.c_int32, "int": ctypes.c_int, "int8_t": ctypes.c_int8,
            "uint64_t": ctypes.c_uint64, "double": ctypes.c_double, "float": ctypes.c_float, "bool": ctypes.c_bool,
        }  # fmt: skip
        converted: list[Any] = []
        handles: list[tuple[int, str]] = []
        for c_type, value in zip(types, values, strict=True):
            if c_type in numbers:
                converted.append(numbers[c_type](value))
            elif c_type == "aclDataType":
                converted.append(ctypes.c_int(DATA_TYPES[value]))
            elif c_type == "char*":
                converted.append(None if value is None else value.encode())
            elif value is None:
                converted.append(None)
            elif isinstance(value, Handle):
                converted.append(ctypes.c_void_p(value.pointer))
            else:
                handles.append(self.handle(c_type, value))
                converted.append(ctypes.c_void_p(handles[-1][0]))
        return converted, handles

    def plan(self, op: str, *values: Any) -> tuple[ctypes.c_void_p, list[tuple[int, str]]]:
        """Phase 1: the executor, and the handles of its arguments, still to be destroyed."""
        arguments, handles = self.arguments(facts()[op], values)
        size, executor = ctypes.c_uint64(), ctypes.c_void_p()
        code = getattr(self.operators, op + "GetWorkspaceSize")(
            *arguments, ctypes.byref(size), ctypes.byref(executor)
        )
        if code != 0:
            message = self.message()
            self.destroy(handles)
            raise AclError(op, code, message)
        assert size.value == 0
        return executor, handles

    def run(self, op: str, *values: Any) -> None:
        """Both phases; descriptors are destroyed at once, before the work is known to have run."""
        executor, handles = self.plan(op, *values)
        code = getattr(self.operators, op)(None, ctypes.c_uint64(0), executor, self.stream)
        message = self.message() if code != 0 else ""
        self.destroy(handles)
        if code != 0:
            raise AclError(op, code, message)


class Handle:
    """A descriptor that the test keeps, to read its shape after the operator ran."""

    def __init__(self, tensor: DeviceTensor) -> None:
        self.driver = tensor.driver
        self.pointer = tensor.descriptor()

    def shape(self) -> tuple[int, ...]:
        dims, count = ctypes.POINTER(ctypes.c_int64)(), ctypes.c_uint64()
        self.driver.call("aclGetViewShape", ctypes.c_void_p(self.pointer), ctypes.byref(dims), ctypes.byref(count))
        shape = tuple(dims[i] for i in range(count.value))
        operator_delete_array(dims)
        return shape

    def destroy(self) -> None:
        self.driver.call("aclDestroyTensor", ctypes.c_void_p(self.pointer))


def operator_delete_array(pointer: Any) -> None:
    """delete[] of C++, with which callers free the arrays that CANN gives them."""
    function = ctypes.CDLL("libstdc++.so.6")["_ZdaPv"]
    function.restype = None
    function(pointer)
