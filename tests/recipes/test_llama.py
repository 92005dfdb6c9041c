"""The recipe: parity with one CPU process, determinism, resuming, bad checkpoints."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.ranks

TRAIN = Path(__file__).resolve().parents[2] / "recipes" / "llama" / "train.py"


def launch(*arguments: str, ranks: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    """The recipe under npurun, or as one plain process where ``ranks`` is 0."""
    # As from a fresh shell: this process may have used the emulator and said so already.
    kept = {k: v for k, v in os.environ.items() if k not in {"OMP_NUM_THREADS", "TORCH_NPU_EMULATOR_ANNOUNCED"}}
    start = [sys.executable] + (["-m", "torch_npu.launcher.npurun", "--nproc", str(ranks)] if ranks else [])
    return subprocess.run(
        [*start, str(TRAIN), *arguments], capture_output=True, text=True, timeout=300, env=kept | environment
    )


def losses(out: Path) -> list[float]:
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == list(range(len(rows)))
    for row in rows:
        assert row["tokens_per_s"] > 0 and row["step_ms"] > 0
    return [row["loss"] for row in rows]


SMALL = ("--width", "64", "--layers", "2", "--global-batch", "8", "--sequence", "64")


def test_recipe_eight_ranks_on_npu_match_one_process_on_cpu(tmp_path: Path) -> None:
    npu = launch("--steps", "20", "--out", str(tmp_path / "npu"), ranks=8)
    assert npu.returncode == 0, npu.stderr
    cpu = launch("--steps", "20", "--out", str(tmp_path / "cpu"), "--device", "cpu")
    assert cpu.returncode == 0, cpu.stderr
    expected, found = losses(tmp_path / "cpu"), losses(tmp_path / "npu")
    assert found == pytest.approx(expected, rel=1e-4)
    assert found[-1] < 0.7 * found[0]
    assert "fall" not in npu.stderr, "an operator of the recipe ran on the CPU"
    for name in ("metrics.jsonl", "loss.png", "checkpoint.pt"):
        assert (tmp_path / "npu" / name).stat().st_size > 0
        assert name in npu.stdout
    assert npu.stderr.count("using the emulator") == 1
    assert "tokens_per_s" in npu.stderr and "emulated" in npu.stdout


def test_recipe_resumed_run_equals_an_unbroken_one(tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert launch(*SMALL, "--steps", "12", "--out", str(whole), ranks=2).returncode == 0
    first = launch(*SMALL, "--steps", "12", "--save-every", "6", "--out", str(broken), ranks=2)
    assert first.returncode == 0
    # Seed, schedule and data are the same: the same command gives the same numbers, to the last bit.
    assert losses(broken) == losses(whole)
    resumed = launch(*SMALL, "--steps", "16", "--resume", "--out", str(broken), ranks=2)
    assert resumed.returncode == 0, resumed.stderr
    assert losses(broken)[:12] == losses(whole)
    assert len(losses(broken)) == 16
    assert losses(broken)[12] == pytest.approx(losses(whole)[-1], rel=0.25)


def test_recipe_killed_run_goes_on_where_its_checkpoint_was(tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    arguments = (*SMALL, "--steps", "40", "--save-every", "4")
    assert launch(*arguments, "--out", str(whole), "--device", "cpu").returncode == 0
    command = [sys.executable, str(TRAIN), *arguments, "--out", str(broken)]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    metrics = broken / "metrics.jsonl"
    while not metrics.is_file() or metrics.read_text().count("\n") < 6:
        assert running.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    running.kill()
    running.wait()
    resumed = launch(*arguments, "--resume", "--out", str(broken))
    assert resumed.returncode == 0, resumed.stderr
    assert losses(broken) == pytest.approx(losses(whole), rel=1e-3)
    assert sorted(path.name for path in broken.iterdir()) == ["checkpoint.pt", "loss.png", "metrics.jsonl"]


def test_recipe_bf16_autocast_trains(tmp_path: Path) -> None:
    result = launch(*SMALL, "--steps", "10", "--bf16", "--out", str(tmp_path))
    assert result.returncode == 0, result.stderr
    assert losses(tmp_path)[-1] < losses(tmp_path)[0]


def test_recipe_corrupt_checkpoint_is_refused_and_kept(tmp_path: Path) -> None:
    damaged = b"PK\x03\x04 not a checkpoint"
    (tmp_path / "checkpoint.pt").write_bytes(damaged)
    result = launch(*SMALL, "--steps", "2", "--resume", "--out", str(tmp_path), ranks=2)
    assert result.returncode != 0
    assert result.stderr.count("cannot be read") == 1
    assert "Traceback" not in result.stderr.split("npurun:")[0]
    assert (tmp_path / "checkpoint.pt").read_bytes() == damaged
    assert not (tmp_path / "metrics.jsonl").exists()


def test_recipe_resume_without_checkpoint_says_what_to_do(tmp_path: Path) -> None:
    result = launch(*SMALL, "--resume", "--out", str(tmp_path), "--device", "cpu")
    assert result.returncode == 2
    assert "without --resume" in result.stderr
