"""The emulator's C functions through ctypes, without torch: one process, or scripts in processes of their own."""

import contextlib
import ctypes
import os
import pathlib
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

MIB = 1 << 20
TIMEOUT = 60.0  # seconds for one script

HOST_TO_HOST, HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, DEFAULT = range(5)
TIME_LINE, IPC = 8, 64  # flags of events
CONTINUE_ON_FAILURE, STOP_ON_FAILURE = 0, 1

INVALID_PARAM, REPEAT_INITIALIZE = 100000, 100002
RT_PARAM_INVALID, INVALID_DEVICE, CONTEXT_NULL = 107000, 107001, 107002
TIMESTAMP_INVALID, INVALID_HANDLE, STREAM_ABORT = 107006, 107017, 107023
NOT_SUPPORTED, OUT_OF_MEMORY, NOT_REGISTERED = 207000, 207001, 507911
EVENT_NOT_COMPLETE, AICORE_EXCEPTION, STREAM_TIMEOUT = 507006, 507015, 507046

HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def library_path() -> pathlib.Path:
    """The emulator that the tests drive: TORCH_NPU_EMULATOR_PATH, else the one built into the tree."""
    folder = os.environ.get("TORCH_NPU_EMULATOR_PATH")
    root = pathlib.Path(__file__).parents[2]
    return (pathlib.Path(folder) if folder else root / "torch_npu" / "emulator") / "libnpu_emulator.so"


class AclError(RuntimeError):
    """A call of the emulator failed."""

    def __init__(self, call: str, code: int, message: str) -> None:
        super().__init__(f"{call} -> {code}: {message}")
        self.code = code
        self.message = message


class Physical(ctypes.Structure):
    """aclrtPhysicalMemProp."""

    _fields_ = [
        ("handle_type", ctypes.c_uint32),
        ("allocation_type", ctypes.c_uint32),
        ("memory", ctypes.c_uint32),
        ("device", ctypes.c_uint32),
        ("location", ctypes.c_uint32),
        ("reserve", ctypes.c_uint64),
    ]


class Acl:
    """Calls by name, each raising AclError for a code other than 0; and what most tests need of memory."""

    def __init__(self) -> None:
        self.lib = ctypes.CDLL(str(library_path()))
        self.lib.aclGetRecentErrMsg.restype = ctypes.c_char_p
        self.lib.aclrtGetSocName.restype = ctypes.c_char_p
        self.lib.aclGetCompileoptSize.restype = ctypes.c_size_t

    def message(self) -> str:
        text = self.lib.aclGetRecentErrMsg()
        return text.decode() if text else ""

    def code(self, name: str, *args: Any) -> int:
        return getattr(self.lib, name)(*args)

    def __call__(self, name: str, *args: Any) -> None:
        code = self.code(name, *args)
        if code != 0:
            raise AclError(name, code, self.message())

    def initialize(self, device: int = 0) -> None:
        code = self.code("aclInit", None)
        assert code in (0, REPEAT_INITIALIZE), self.message()
        self("aclrtSetDevice", device)

    def malloc(self, size: int) -> ctypes.c_void_p:
        pointer = ctypes.c_void_p()
        self("aclrtMalloc", ctypes.byref(pointer), ctypes.c_size_t(size), 0)
        return pointer

    def free(self, pointer: ctypes.c_void_p) -> None:
        self("aclrtFree", pointer)

    def memory(self) -> tuple[int, int]:
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self("aclrtGetMemInfo", 1, ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def write(self, pointer: ctypes.c_void_p | int, data: bytes) -> None:
        size = ctypes.c_size_t(len(data))
        self("aclrtMemcpy", as_pointer(pointer), size, data, size, HOST_TO_DEVICE)

    def read(self, pointer: ctypes.c_void_p | int, size: int) -> bytes:
        data = ctypes.create_string_buffer(size)
        count = ctypes.c_size_t(size)
        self("aclrtMemcpy", data, count, as_pointer(pointer), count, DEVICE_TO_HOST)
        return data.raw

    def fill_async(self, pointer: ctypes.c_void_p, value: int, size: int, stream: ctypes.c_void_p) -> None:
        count = ctypes.c_size_t(size)
        self("aclrtMemsetAsync", pointer, count, value, count, stream)

    def copy_async(
        self, dst: Any, src: Any, size: int, stream: ctypes.c_void_p | None, kind: int = DEFAULT
    ) -> None:
        count = ctypes.c_size_t(size)
        self("aclrtMemcpyAsync", dst, count, src, count, kind, stream)

    def create_stream(self) -> ctypes.c_void_p:
        stream = ctypes.c_void_p()
        self("aclrtCreateStream", ctypes.byref(stream))
        return stream

    def create_event(self, flags: int = 0) -> ctypes.c_void_p:
        event = ctypes.c_void_p()
        self("aclrtCreateEventExWithFlag", ctypes.byref(event), flags)
        return event

    def event_done(self, event: ctypes.c_void_p) -> bool:
        status = ctypes.c_int(-1)
        self("aclrtQueryEventStatus", event, ctypes.byref(status))
        return status.value == 1

    def stream_done(self, stream: ctypes.c_void_p) -> bool:
        status = ctypes.c_int(-1)
        self("aclrtStreamQuery", stream, ctypes.byref(status))
        return status.value == 0


def as_pointer(value: ctypes.c_void_p | int) -> ctypes.c_void_p:
    return value if isinstance(value, ctypes.c_void_p) else ctypes.c_void_p(value)


class HostFunction:
    """A Python function in a stream. Keep it until the stream has run it."""

    def __init__(self, function: Callable[[], None]) -> None:
        self.callback = HOST_FUNCTION(lambda _: function())

    def launch(self, acl: Acl, stream: ctypes.c_void_p | None) -> None:
        acl("aclrtLaunchHostFunc", stream, self.callback, None)


def run_script(body: str, *arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess:
    """Runs Python code with `acl = Acl()` and this module's names in a process of its own."""
    setup = "import ctypes, os, sys, threading\nfrom emulator_client import *\nacl = Acl()\n"
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "ASCEND_RT_VISIBLE_DEVICES")
        and (not name.startswith("TORCH_NPU_EMULATOR_") or name == "TORCH_NPU_EMULATOR_PATH")
    }
    return subprocess.run(
        [sys.executable, "-c", setup + textwrap.dedent(body), *arguments],
        cwd=pathlib.Path(__file__).parent,
        env=inherited | (environment or {}),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )


def script_output(body: str, *arguments: str, environment: dict[str, str] | None = None) -> str:
    done = run_script(body, *arguments, environment=environment)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout.strip()


@contextlib.contextmanager
def raises(code: int, *words: str) -> Iterator[None]:
    """The block fails with that code, and the message holds all the words."""
    try:
        yield
    except AclError as error:
        assert error.code == code, error
        for word in words:
            assert word in error.message, error
    else:
        raise AssertionError(f"no error where {code} was expected")
