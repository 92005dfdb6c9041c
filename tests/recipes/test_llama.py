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


def test_recipe_killed_run_resumes_to_the_same_losses_bit_for_bit(tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    arguments = (*SMALL, "--steps", "24", "--save-every", "4")
    assert launch(*arguments, "--out", str(whole), ranks=2).returncode == 0
    command = [sys.executable, "-m", "torch_npu.launcher.npurun", "--nproc", "2", str(TRAIN), *arguments]
    running = subprocess.Popen([*command, "--out", str(broken)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    metrics = broken / "metrics.jsonl"
    while not metrics.is_file() or metrics.read_text().count("\n") < 6:
        assert running.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    running.kill()
    running.wait()
    assert metrics.read_text().count("\n") < 24, "it ended before it could be killed"
    resumed = launch(*arguments, "--resume", "--out", str(broken), ranks=2)
    assert resumed.returncode == 0, resumed.stderr
    # Weights, optimizer state, schedule and data go on as if nothing had been: equal, not close.
    assert losses(broken) == losses(whole)
    assert sorted(path.name for path in broken.iterdir() if not path.name.endswith(".partial")) == [
        "checkpoint.pt", "loss.png", "metrics.jsonl",
    ]  # fmt: skip


def test_recipe_resume_of_a_finished_run_trains_on(tmp_path: Path) -> None:
    arguments = (*SMALL, "--device", "cpu", "--out", str(tmp_path))
    assert launch(*arguments, "--steps", "12").returncode == 0
    assert launch(*arguments, "--steps", "16", "--resume").returncode == 0
    assert len(losses(tmp_path)) == 16
    assert losses(tmp_path)[12] == pytest.approx(losses(tmp_path)[11], rel=0.25)


def test_recipe_bf16_autocast_trains(tmp_path: Path) -> None:
    result = launch(*SMALL, "--steps", "10", "--bf16", "--out", str(tmp_path))
    assert result.returncode == 0, result.stderr
    assert losses(tmp_path)[-1] < losses(tmp_path)[0]


def test_recipe_corrupt_checkpoint_is_refused_and_kept(tmp_path: Path) -> None:
    damaged = b"PK\x03\x04 not a checkpoint"
    (tmp_path / "checkpoint.pt").write_bytes(damaged)
    result = launch(*SMALL, "--steps", "2", "--resume", "--out", str(tmp_path), ranks=2)
    assert result.returncode != 0
    assert result.stderr.count(f"train.py: checkpoint {tmp_path / 'checkpoint.pt'} cannot be read") == 1
    assert "Traceback (most recent call last)" not in result.stderr
    assert (tmp_path / "checkpoint.pt").read_bytes() == damaged
    assert not (tmp_path / "metrics.jsonl").exists()


def test_recipe_resume_without_checkpoint_says_what_to_do(tmp_path: Path) -> None:
    result = launch(*SMALL, "--resume", "--out", str(tmp_path), "--device", "cpu")
    assert result.returncode == 2
    assert "without --resume" in result.stderr


def test_recipe_output_folder_that_cannot_be_made_is_one_clear_message(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    result = launch(*SMALL, "--steps", "1", "--device", "cpu", "--out", str(tmp_path / "file" / "out"))
    assert result.returncode == 2
    assert "train.py:" in result.stderr and str(tmp_path / "file") in result.stderr
    assert "Traceback" not in result.stderr
