"""Persistent worlds of ranks: started once, used by many tests, checked for what they leave behind."""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import wait
from multiprocessing.reduction import DupFd
from types import TracebackType
from typing import Any, Self

import torch.distributed as dist

from .rank import serve


class RankError(AssertionError):
    """A rank raised, died or did not answer; the message holds its traceback and its output."""


class World:
    """``size`` ranks with an initialised default process group, each on NPU ``rank``.

    Ranks are forked from a server that has torch loaded (importing it once a rank takes seconds). A failure ends
    the world; the next :meth:`run` starts a new one, so that one broken test does not spoil its neighbours.

    Args:
        size: number of ranks.
        backend: what ``init_process_group`` gets.
        timeout: seconds that starting, one :meth:`run` and a collective may take.
        environment: variables for the ranks, set before a device is touched.

    Example:
        >>> with World(2) as world:
        ...     assert world.run(dist.get_world_size) == [2, 2]
    """

    def __init__(
        self, size: int, *, backend: str = "cpu:gloo,npu:hccl", timeout: float = 120,
        environment: dict[str, str] | None = None,
    ) -> None:  # fmt: skip
        if size < 1:
            raise ValueError(f"a world needs at least one rank, got {size}")
        self.size = size
        self.backend = backend
        self.timeout = timeout
        self.environment = {"TORCH_NPU_EMULATOR_DEVICES": str(max(8, size))} | (environment or {})
        self._ranks: list[_Rank] = []
        self._store: dist.TCPStore | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def run(self, function: Callable[..., Any], *args: Any, timeout: float | None = None) -> list[Any]:
        """Calls ``function(*args)`` on every rank at the same time.

        Args:
            function: importable by name (a function of a test module).
            args: anything that pickles.
            timeout: seconds, the world's own by default.

        Returns:
            What each rank returned, by rank. Tensors should be moved to the CPU and to numpy or lists.

        Raises:
            RankError: any rank failed; names the ranks, with traceback and output of each.
        """
        if any(rank.ended(within=0) for rank in self._ranks):
            # One died between two runs (the watchdog ends a rank after a failure that nobody collected).
            self._throw_away()
        self._start()
        for rank in self._ranks:
            # A rank that dies just now is reported as dead when its answer is collected.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                rank.requests.send((function, args))
        return self._collect(getattr(function, "__name__", str(function)), timeout or self.timeout)

    def close(self) -> None:
        """Ends the ranks and checks that nothing of theirs is left.

        Raises:
            RankError: a rank did not end by itself, or left a process behind.
        """
        ranks, self._ranks = self._ranks, []
        for rank in ranks:
            rank.requests.close()
        slow = [rank.index for rank in ranks if not rank.ended(within=30)]
        left = [f"process {pid} of rank {rank.index}" for rank in ranks for pid in rank.descendants()]
        left += [f"/dev/shm/{name}" for name in _shared_memory(ranks)]
        outputs = "".join(rank.describe_output() for rank in ranks if rank.index in slow)
        for rank in ranks:
            rank.kill()
        self._store = None
        if slow or left:
            raise RankError(f"ranks that did not end: {slow}; left behind: {left}{outputs}")

    def _throw_away(self) -> None:
        ranks, self._ranks = self._ranks, []
        for rank in ranks:
            rank.kill()
        self._store = None

    def _start(self) -> None:
        if self._ranks:
            return
        # Port 0: the store takes a free one and nobody else can come between.
        self._store = dist.TCPStore(
            "127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=self.timeout)
        )
        with _fork_server_context() as context:
            self._ranks = [_Rank(context, index, self._store.port, self) for index in range(self.size)]
        self._collect("starting the world", self.timeout)

    def _collect(self, what: str, timeout: float) -> list[Any]:
        deadline = time.monotonic() + timeout
        waiting = {rank.requests: rank for rank in self._ranks}
        results: dict[int, Any] = {}
        failures: dict[int, str] = {}
        while waiting:
            # Once one rank failed, the others get a moment to say what they saw, no more.
            limit = min(deadline, time.monotonic() + 10) if failures else deadline
            ready = wait(list(waiting), timeout=max(0.0, limit - time.monotonic()))
            if not ready:
                break
            for connection in ready:
                rank = waiting.pop(connection)
                try:
                    kind, value = connection.recv()
                except (EOFError, ConnectionResetError):
                    failures[rank.index] = rank.describe_death()
                    continue
                if kind == "error":
                    failures[rank.index] = value
                else:
                    results[rank.index] = value
        if not failures and not waiting:
            return [results[index] for index in range(self.size)]
        for rank in waiting.values():
            failures[rank.index] = f"no answer within {timeout:.0f} s\n" + rank.stacks()
        text = "".join(
            f"\n--- rank {index} of {self.size} ---\n{failures[index]}{self._ranks[index].describe_output()}"
            for index in sorted(failures)
        )
        self._throw_away()
        raise RankError(f"{what}: {len(failures)} of {self.size} ranks failed{text}")


class _Rank:
    """A rank's process, seen from the test."""

    def __init__(self, context: Any, index: int, port: int, world: World) -> None:
        self.index = index
        self.requests, theirs = context.Pipe()
        self._output = os.memfd_create(f"rank {index}", os.MFD_CLOEXEC)
        self._process = context.Process(
            target=serve,
            args=(
                index, world.size, port, world.backend, timedelta(seconds=world.timeout), world.environment,
                theirs, DupFd(self._output),
            ),
            daemon=True,
        )  # fmt: skip
        self._process.start()
        theirs.close()

    def ended(self, *, within: float) -> bool:
        self._process.join(within)
        return self._process.exitcode is not None

    def descendants(self) -> list[int]:
        """Processes of this rank's session that live on after it."""
        if self._process.exitcode is None:
            return []
        return [pid for pid in _processes() if pid != self._process.pid and _session(pid) == self._process.pid]

    @property
    def pid(self) -> int:
        return self._process.pid

    def describe_death(self) -> str:
        self._process.join(5)
        code = self._process.exitcode
        if code is not None and code < 0:
            return f"killed by {signal.Signals(-code).name}\n"
        return f"exited with code {code}\n"

    def stacks(self) -> str:
        """Python stacks of all its threads, which the rank writes to its output when asked."""
        before = os.fstat(self._output).st_size
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._process.pid, signal.SIGUSR1)
        deadline = time.monotonic() + 2
        while os.fstat(self._output).st_size == before and time.monotonic() < deadline:
            threading.Event().wait(0.05)
        return "its stacks are in the output:\n"

    def describe_output(self) -> str:
        size = os.fstat(self._output).st_size
        text = os.pread(self._output, 1 << 16, max(0, size - (1 << 16))).decode(errors="replace")
        return f"output:\n{text}\n" if text else ""

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        for pid in self.descendants():  # known once the rank itself has ended
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.close()
        self.requests.close()
        os.close(self._output)


@contextlib.contextmanager
def _fork_server_context() -> Any:
    """The fork server's context. The server itself starts at first use, with one OpenMP thread a rank."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch_npu.testing.rank"])
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        yield context
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def _shared_memory(ranks: list[_Rank]) -> list[str]:
    """Names in /dev/shm that carry a rank's process id."""
    try:
        names = os.listdir("/dev/shm")
    except FileNotFoundError:
        return []
    return [name for name in names for rank in ranks if str(rank.pid) in name]
