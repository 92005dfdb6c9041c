"""Worlds of ranks: results, failures, restarts and what they leave behind."""

import os
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import torch
import torch.distributed as dist

from torch_npu.testing import RankError, World

Worlds = Callable[..., World]


def sum_of_ranks() -> float:
    x = torch.full((4,), float(dist.get_rank() + 1), device="npu")
    dist.all_reduce(x)
    return x.sum().item()


def rank_and_pid() -> tuple[int, int]:
    return dist.get_rank(), os.getpid()


def fail_on(rank: int) -> None:
    if dist.get_rank() == rank:
        raise ValueError("as planned")


def die_on(rank: int) -> None:
    if dist.get_rank() == rank:
        os.kill(os.getpid(), 9)


def hang_on(rank: int) -> None:
    while dist.get_rank() == rank:
        time.sleep(1)


def die_later() -> None:
    threading.Timer(0.2, os.kill, (os.getpid(), 9)).start()


def start_a_process_and_hang(path: str) -> None:
    with open(path, "w") as file:
        file.write(str(subprocess.Popen(["sleep", "600"]).pid))
    while True:
        time.sleep(1)


def leave_a_process_behind() -> int:
    return subprocess.Popen(["sleep", "600"]).pid


@pytest.mark.parametrize("size", [1, 2, 4])
def test_world_run_returns_results_by_rank(worlds: Worlds, size: int) -> None:
    assert worlds(size).run(sum_of_ranks) == [4.0 * sum(range(1, size + 1))] * size


def test_world_run_twice_uses_the_same_processes(worlds: Worlds) -> None:
    assert worlds(2).run(rank_and_pid) == worlds(2).run(rank_and_pid)


@pytest.mark.parametrize(
    ("function", "said"), [(fail_on, "ValueError: as planned"), (die_on, "SIGKILL"), (hang_on, "hang_on")]
)
def test_world_failure_names_the_rank_and_the_next_run_is_clean(
    worlds: Worlds, function: Callable[[int], None], said: str
) -> None:
    world = worlds(2)
    with pytest.raises(RankError, match="rank 1 of 2") as caught:
        world.run(function, 1, timeout=5)
    assert said in str(caught.value)
    assert world.run(sum_of_ranks) == [12.0, 12.0]


def wait_until_gone(pid: int) -> None:
    """Waits for a process that is not our child; a zombie that init has not read yet is gone."""
    deadline = time.monotonic() + 10
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, f"process {pid} lives"
        time.sleep(0.05)


def test_world_rank_that_died_between_runs_is_replaced(worlds: Worlds) -> None:
    world = worlds(2)
    world.run(die_later)
    for rank in world._ranks:
        assert rank.ended(within=20)
    assert world.run(sum_of_ranks) == [12.0, 12.0]


def test_world_failure_ends_the_children_of_a_hanging_rank_too(tmp_path: Path) -> None:
    with World(1) as world, pytest.raises(RankError, match="no answer within"):
        world.run(start_a_process_and_hang, str(tmp_path / "pid"), timeout=3)
    wait_until_gone(int((tmp_path / "pid").read_text()))


def test_world_close_reports_a_process_left_behind_and_ends_it() -> None:
    world = World(1)
    (pid,) = world.run(leave_a_process_behind)
    with pytest.raises(RankError, match=f"process {pid} of rank 0"):
        world.close()
    wait_until_gone(pid)


def test_world_close_leaves_no_process() -> None:
    world = World(2)
    pids = [pid for _, pid in world.run(rank_and_pid)]
    world.close()
    assert not [pid for pid in pids if os.path.exists(f"/proc/{pid}")]
