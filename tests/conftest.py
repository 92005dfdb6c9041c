"""Fixtures that every folder of tests may use, and the check that a run leaves nothing behind."""

import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from torch_npu.testing import World

# Every process of this run carries the mark, however deep it was started.
MARK = "TORCH_NPU_TEST_RUN"


@pytest.fixture(scope="module")
def worlds() -> Iterator[Callable[..., World]]:
    """``worlds(size, **options)``: the module's world of that size and options, closed and checked at its end."""
    made: dict[tuple, World] = {}

    def get(size: int, **options: object) -> World:
        key = (size, repr(sorted(options.items())))
        if key not in made:
            made[key] = World(size, **options)
        return made[key]

    yield get
    for world in made.values():
        world.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of several processes share one xdist worker: side by side they would starve each other on few cores."""
    for item in items:
        if "worlds" in getattr(item, "fixturenames", ()) or item.get_closest_marker("ranks"):
            item.add_marker(pytest.mark.xdist_group("ranks"))


def shared_memory() -> set[str]:
    """Names in /dev/shm that are PyTorch's or ours."""
    try:
        return {name for name in os.listdir("/dev/shm") if "torch" in name or "npu" in name}
    except FileNotFoundError:
        return set()


def marked_processes(mark: str) -> dict[int, str]:
    """Processes of the run ``mark`` but this one: id -> command line."""
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes().split(b"\0"):
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:  # it ended meanwhile, or is another user's
            continue
    return found


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # the controller, or a run without xdist
        os.environ[MARK] = uuid.uuid4().hex
        config._shared_memory_before = shared_memory()
        # The tests' own folders stay where pytest keeps them; whatever else is temporary must be gone at the end.
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
        config._temporary = tempfile.mkdtemp(prefix="torch_npu_tests_")
        os.environ["TMPDIR"] = tempfile.tempdir = config._temporary


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails the run if a process, a shared memory file or a temporary file of it outlives its tests."""
    if not hasattr(session.config, "_shared_memory_before"):
        return
    _end_fork_server()
    deadline = time.monotonic() + 20
    while (left := marked_processes(os.environ[MARK])) and time.monotonic() < deadline:
        time.sleep(0.1)
    files = shared_memory() - session.config._shared_memory_before
    # Not ours: sockets of multiprocessing's fork servers, whose finalizers xdist's workers do not run, and the
    # compiler cache that PyTorch keeps between runs on purpose.
    temporary = [
        name for name in os.listdir(session.config._temporary) if not name.startswith(("pymp-", "torchinductor_"))
    ]
    shutil.rmtree(session.config._temporary)
    if left or files or temporary:
        print(f"\nleft behind by this run: processes {left}, /dev/shm {sorted(files)}, temporary {temporary}")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _end_fork_server() -> None:
    """The fork server of ``worlds`` otherwise lives as long as this process, and so does its resource tracker."""
    from multiprocessing import forkserver, resource_tracker

    forkserver._forkserver._stop()
    resource_tracker._resource_tracker._stop()
