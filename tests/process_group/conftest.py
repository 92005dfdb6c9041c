"""Fixtures of the process group's tests."""

import functools
from collections.abc import Callable
from pathlib import Path

import pytest
import rank_programs


@pytest.fixture
def run_program(tmp_path: Path) -> Callable[..., list[rank_programs.Outcome]]:
    """``run_program(source, size, seconds=, **environment)``: the outcome of each rank, by rank."""
    return functools.partial(rank_programs.run_program, tmp_path)
