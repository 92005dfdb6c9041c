"""Programs on several ranks, for what a user would see of failures: exit codes and messages."""

import os
import subprocess
import sys
import tempfile
import textwrap
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
import torch.distributed as dist


@dataclass(frozen=True)
class Outcome:
    """How a rank's process ended."""

    code: int
    output: str
    seconds: float


def run_program(folder: Path, source: str, size: int, *, seconds: float = 120, **environment: str) -> list[Outcome]:
    """Runs ``source`` as ``size`` ranks and returns the outcome of each, by rank.

    Every rank runs to its own end: a launcher would end the others when the first one fails.

    Args:
        folder: where the script is written and run.
        seconds: the test fails if a rank is not done by then.
        environment: variables for all ranks.
    """
    script = folder / "program.py"
    script.write_text(textwrap.dedent(source))
    # The test holds the store, on a port that the system chose.
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False, timeout=timedelta(minutes=5))
    processes = []
    started = time.monotonic()
    for rank in range(size):
        variables = {
            "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": str(size),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True",
            "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        output = tempfile.TemporaryFile("w+")
        process = subprocess.Popen(
            [sys.executable, str(script)], env=os.environ | variables | environment,
            stdout=output, stderr=subprocess.STDOUT, cwd=folder,
        )  # fmt: skip
        processes.append((process, output))
    late = False
    outcomes = []
    for process, output in processes:
        try:
            process.wait(max(0.1, started + seconds - time.monotonic()))
        except subprocess.TimeoutExpired:
            late = True
            process.kill()
            process.wait()
        output.seek(0)
        outcomes.append(Outcome(process.returncode, output.read(), time.monotonic() - started))
        output.close()
    if late:
        said = "".join(f"\n--- rank {rank}, exit code {o.code} ---\n{o.output}" for rank, o in enumerate(outcomes))
        pytest.fail(f"not done within {seconds} s:{said}")
    return outcomes
