"""Processes that drive the emulator's HCCL through ctypes, without torch: one rank each."""

import ctypes
import faulthandler
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy

TIMEOUT = 60.0  # seconds for one function on all ranks
ROOT_INFO_BYTES = 4108
CONFIG_BYTES = 2240
CONFIG_MAGIC = 0xF0F0F0F0

DATA_TYPES = {
    "int8": 0, "int16": 1, "int32": 2, "float16": 3, "float32": 4, "int64": 5, "uint64": 6, "uint8": 7,
    "uint16": 8, "uint32": 9, "float64": 10, "bfloat16": 11, "int128": 12, "hif8": 14, "fp8e4m3": 15,
    "fp8e5m2": 16, "fp8e8m0": 17,
}  # fmt: skip
REDUCE_OPS = {"sum": 0, "prod": 1, "max": 2, "min": 3}
PARA, PTR, NOT_SUPPORT, TIMED_OUT, REMOTE, SUSPENDING = 1, 2, 5, 9, 21, 22


def library_path() -> pathlib.Path:
    """The emulator that the tests drive: TORCH_NPU_EMULATOR_PATH, else the one built into the tree."""
    folder = os.environ.get("TORCH_NPU_EMULATOR_PATH")
    root = pathlib.Path(__file__).parents[2]
    return (pathlib.Path(folder) if folder else root / "torch_npu" / "emulator") / "libnpu_emulator.so"


class SendRecvItem(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_uint32),
        ("buf", ctypes.c_void_p),
        ("count", ctypes.c_uint64),
        ("data_type", ctypes.c_uint32),
        ("remote_rank", ctypes.c_uint32),
    ]


class HcclError(RuntimeError):
    """A call of the emulator failed."""

    def __init__(self, call: str, code: int, message: str) -> None:
        super().__init__(f"{call} -> {code}: {message}")
        self.code = code
        self.message = message


class Emulator:
    """The C functions that the tests use, each raising HcclError for a code other than 0."""

    def __init__(self) -> None:
        self.lib = ctypes.CDLL(str(library_path()))
        self.lib.aclGetRecentErrMsg.restype = ctypes.c_char_p

    def message(self) -> str:
        text = self.lib.aclGetRecentErrMsg()
        return text.decode() if text else ""

    def __call__(self, name: str, *args: Any) -> None:
        code = getattr(self.lib, name)(*args)
        if code != 0:
            raise HcclError(name, code, self.message())


class Stream:
    def __init__(self, acl: Emulator) -> None:
        self.acl = acl
        self.handle = ctypes.c_void_p()
        acl("aclrtCreateStream", ctypes.byref(self.handle))

    def synchronize(self) -> None:
        self.acl("aclrtSynchronizeStream", self.handle)

    def close(self) -> None:
        self.acl("aclrtDestroyStream", self.handle)


class Buffer:
    """Device memory of `nbytes` bytes."""

    def __init__(self, acl: Emulator, nbytes: int) -> None:
        self.acl = acl
        self.nbytes = nbytes
        self.pointer = ctypes.c_void_p()
        acl("aclrtMalloc", ctypes.byref(self.pointer), ctypes.c_size_t(max(nbytes, 1)), 0)

    def at(self, offset: int) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.pointer.value + offset)

    def write(self, array: numpy.ndarray) -> "Buffer":
        data = numpy.ascontiguousarray(array)
        assert data.nbytes <= self.nbytes
        if data.nbytes:
            size = ctypes.c_size_t(data.nbytes)
            self.acl("aclrtMemcpy", self.pointer, size, ctypes.c_void_p(data.ctypes.data), size, 1)
        return self

    def read(self, dtype: Any, count: int) -> numpy.ndarray:
        array = numpy.empty(count, dtype)
        if array.nbytes:
            size = ctypes.c_size_t(array.nbytes)
            self.acl("aclrtMemcpy", ctypes.c_void_p(array.ctypes.data), size, self.pointer, size, 2)
        return array

    def close(self) -> None:
        self.acl("aclrtFree", self.pointer)


class Communicator:
    """A handle with the calls that the tests make; buffers are pointers, types are names."""

    def __init__(self, acl: Emulator, handle: ctypes.c_void_p, rank: int, size: int) -> None:
        self.acl, self.handle, self.rank, self.size = acl, handle, rank, size

    def call(self, name: str, *args: Any) -> None:
        self.acl(name, *args)

    def all_reduce(self, send, recv, count, dtype, stream, op="sum") -> None:
        self.call(
            "HcclAllReduce", send, recv, ctypes.c_uint64(count), DATA_TYPES[dtype], REDUCE_OPS[op], self.handle,
            stream.handle,
        )  # fmt: skip

    def broadcast(self, buf, count, dtype, root, stream) -> None:
        self.call("HcclBroadcast", buf, ctypes.c_uint64(count), DATA_TYPES[dtype], root, self.handle, stream.handle)

    def send(self, buf, count, dtype, peer, stream) -> None:
        self.call("HcclSend", buf, ctypes.c_uint64(count), DATA_TYPES[dtype], peer, self.handle, stream.handle)

    def recv(self, buf, count, dtype, peer, stream) -> None:
        self.call("HcclRecv", buf, ctypes.c_uint64(count), DATA_TYPES[dtype], peer, self.handle, stream.handle)

    def async_error(self) -> tuple[int, str]:
        code = ctypes.c_uint32()
        self.call("HcclGetCommAsyncError", self.handle, ctypes.byref(code))
        return code.value, self.acl.message() if code.value else ""

    def wait_for_error(self, seconds: float = 20.0) -> tuple[int, str]:
        """The asynchronous error once there is one."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            code, text = self.async_error()
            if code:
                return code, text
            time.sleep(0.005)
        raise AssertionError(f"no asynchronous error within {seconds} s")

    def destroy(self) -> None:
        self.call("HcclCommDestroy", self.handle)


def config_bytes(name: str = "", exec_timeout: int = -1, size: int = CONFIG_BYTES) -> ctypes.Array:
    """An HcclCommConfig as HcclCommConfigInit leaves it, with a name and a time limit in seconds."""
    raw = bytearray(CONFIG_BYTES)
    raw[0:8] = size.to_bytes(8, "little")
    raw[8:12] = CONFIG_MAGIC.to_bytes(4, "little")
    raw[12:16] = (10).to_bytes(4, "little")
    raw[24:28] = (200).to_bytes(4, "little")
    raw[32 : 32 + len(name)] = name.encode()
    raw[316:320] = exec_timeout.to_bytes(4, "little", signed=True)
    return (ctypes.c_char * CONFIG_BYTES).from_buffer(raw)


class Rank:
    """What a function that runs on a rank gets: the emulator, a device, a communicator, its peers."""

    def __init__(self, rank: int, size: int, pipe: Any) -> None:
        self.rank, self.size, self.pipe = rank, size, pipe
        self.acl = Emulator()
        self.comm: Communicator

    def start(self) -> None:
        self.acl("aclInit", None)
        self.acl("aclrtSetDevice", self.rank)
        self.comm = self.new_communicator("world")

    def share(self, value: Any) -> list[Any]:
        """Every rank's value, on every rank; also a barrier between processes."""
        self.pipe.send(("share", value))
        return self.pipe.recv()

    def root_info(self) -> ctypes.Array:
        info = (ctypes.c_char * ROOT_INFO_BYTES)()
        if self.rank == 0:
            self.acl("HcclGetRootInfo", info)
        return (ctypes.c_char * ROOT_INFO_BYTES).from_buffer_copy(self.share(bytes(info))[0])

    def new_communicator(self, name: str = "", exec_timeout: int = -1, rank: int | None = None) -> Communicator:
        handle = ctypes.c_void_p()
        info = self.root_info()
        own = self.rank if rank is None else rank
        config = config_bytes(name, exec_timeout)
        self.acl("HcclCommInitRootInfoConfig", self.size, info, own, config, ctypes.byref(handle))
        return Communicator(self.acl, handle, own, self.size)

    def stream(self) -> Stream:
        return Stream(self.acl)

    def buffer(self, data: numpy.ndarray | int) -> Buffer:
        if isinstance(data, int):
            return Buffer(self.acl, data)
        return Buffer(self.acl, data.nbytes).write(data)


def _serve(rank: int, size: int, pipe: Any, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    faulthandler.enable()
    me = None
    while True:
        try:
            message = pipe.recv()
        except EOFError:
            return
        if message is None:
            return
        function, args = message
        faulthandler.dump_traceback_later(TIMEOUT - 5, exit=False)
        try:
            if me is None:
                me = Rank(rank, size, pipe)
                if environment.get("HCCL_RANKS_START", "1") == "1":
                    me.start()
            pipe.send(("result", function(me, *args)))
        except BaseException:
            pipe.send(("error", traceback.format_exc()))
        finally:
            faulthandler.cancel_dump_traceback_later()


def _start(_: Rank) -> None:
    """Creates the rank's communicator."""


class Ranks:
    """`size` processes, each with a device and the communicator "world"."""

    def __init__(self, size: int, start: bool = True, **environment: str) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["numpy", "hccl_ranks"])
        settings = {
            "TORCH_NPU_EMULATOR_MEMORY": "512MiB",
            "TORCH_NPU_EMULATOR_DEVICES": str(max(size, 2)),
            "HCCL_RANKS_START": "1" if start else "0",
            **environment,
        }
        self.size = size
        self.pipes = []
        self.processes = []
        for rank in range(size):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_serve, args=(rank, size, theirs, settings | {"RANK": str(rank)}), daemon=True
            )
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)
        self.usable = True
        self.run(_start)

    def run(
        self, function: Callable[..., Any], *args: Any, timeout: float = TIMEOUT, dead: frozenset[int] | set[int] = frozenset()
    ) -> list[Any]:
        """The results of function(rank, *args) on all ranks; ranks in `dead` are expected to die instead."""
        end = time.monotonic() + timeout
        for pipe in self.pipes:
            pipe.send((function, args))
        results: dict[int, tuple[str, Any]] = {}
        shared: dict[int, Any] = {}
        waiting = set(range(self.size)) - dead
        ended: set[int] = set()
        while waiting - results.keys():
            listened = [self.pipes[r] for r in set(range(self.size)) - ended - results.keys()]
            ready = multiprocessing.connection.wait(listened, max(0.0, end - time.monotonic()))
            if not ready:
                missing = sorted(waiting - results.keys())
                self.kill()
                if any(kind == "error" for kind, _ in results.values()):
                    break
                raise AssertionError(f"ranks {missing} did not finish {function.__name__} within {timeout} s")
            for pipe in ready:
                rank = self.pipes.index(pipe)
                try:
                    kind, value = pipe.recv()
                except EOFError:
                    ended.add(rank)
                    if rank in dead:
                        continue
                    kind, value = "error", f"rank {rank} ended"
                if kind == "share":
                    shared[rank] = value
                    if len(shared) == self.size:
                        for r in range(self.size):
                            self.pipes[r].send([shared[i] for i in range(self.size)])
                        shared = {}
                else:
                    results[rank] = (kind, value)
                    if kind == "error":  # the others may wait for this rank
                        end = min(end, time.monotonic() + 5)
        errors = [f"--- rank {r}\n{value}" for r, (kind, value) in sorted(results.items()) if kind == "error"]
        if errors:
            self.kill()
            raise AssertionError("\n".join(errors))
        return [results[r][1] if r in results else None for r in range(self.size)]

    def kill(self) -> None:
        self.usable = False
        for process in self.processes:
            process.kill()
        self._join()

    def close(self) -> None:
        """Ends the processes in order; they must end by themselves, with exit code 0."""
        for pipe, process in zip(self.pipes, self.processes, strict=True):
            if process.is_alive():
                pipe.send(None)
        codes = self._join()
        if self.usable:
            assert all(code == 0 for code in codes), f"exit codes {codes}"

    def _join(self) -> list[int | None]:
        for process in self.processes:
            process.join(20)
        codes = [process.exitcode for process in self.processes]
        for process, pipe in zip(self.processes, self.pipes, strict=True):
            if process.is_alive():
                process.kill()
                process.join()
            pipe.close()
        return codes

    def __enter__(self) -> "Ranks":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            self.close()
        else:
            self.kill()
