"""npurun: torchrun's contract, devices, bad input, and that nothing outlives it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.ranks

SHOW = """
import os, torch
import torch.distributed as dist
assert torch.accelerator.current_device_index() == int(os.environ["LOCAL_RANK"])
x = torch.ones(1, device="npu")
assert x.device.index == int(os.environ["LOCAL_RANK"]), x.device
dist.init_process_group("hccl")
dist.all_reduce(x)
print(f"rank {dist.get_rank()} of {dist.get_world_size()} sum {x.item():.0f} threads {os.environ['OMP_NUM_THREADS']}", flush=True)
dist.destroy_process_group()
"""


def npurun(*arguments: str, cwd: Path, timeout: float = 120, **environment: str) -> subprocess.CompletedProcess[str]:
    # As from a fresh shell: this process may have used the emulator and said so already.
    ours = {"OMP_NUM_THREADS", "ASCEND_RT_VISIBLE_DEVICES", "TORCH_NPU_EMULATOR_ANNOUNCED"}
    kept = {k: v for k, v in os.environ.items() if k not in ours}
    return subprocess.run(
        [sys.executable, "-m", "torch_npu.launcher.npurun", *arguments], cwd=cwd, timeout=timeout,
        capture_output=True, text=True, env=kept | environment,
    )  # fmt: skip


@pytest.fixture
def show(tmp_path: Path) -> Path:
    script = tmp_path / "show.py"
    script.write_text(SHOW)
    return script


def test_npurun_two_ranks_each_gets_its_device(show: Path, tmp_path: Path) -> None:
    result = npurun("--nproc", "2", str(show), cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    threads = max(1, len(os.sched_getaffinity(0)) // 2)
    assert sorted(result.stdout.splitlines()) == [f"rank {r} of 2 sum 2 threads {threads}" for r in (0, 1)]
    assert result.stderr.count("emulator") == 1, "the banner is printed once a job"
    assert "npurun: 2 ranks on npu:0-1 (emulated)" in result.stderr


def test_npurun_leaves_no_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("print('ran')")
    (tmp_path / "temporary").mkdir()
    result = npurun("--nproc", "1", "script.py", cwd=tmp_path, TMPDIR=str(tmp_path / "temporary"))
    assert result.returncode == 0, result.stderr
    assert not list((tmp_path / "temporary").iterdir())


def test_npurun_nproc_npu_starts_one_rank_per_device(show: Path, tmp_path: Path) -> None:
    result = npurun("--nproc", "npu", str(show), cwd=tmp_path, TORCH_NPU_EMULATOR_DEVICES="3")
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) == 3


def test_npurun_module_and_arguments_reach_the_worker(tmp_path: Path) -> None:
    (tmp_path / "worker_module.py").write_text("import sys; print(sys.argv[1:])")
    result = npurun("--nproc", "1", "-m", "worker_module", "--nproc", "7", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "['--nproc', '7']"


@pytest.mark.parametrize(
    ("arguments", "environment", "said"),
    [
        (["--nproc", "2", "missing.py"], {}, "missing.py"),
        (["--nproc", "many", "script.py"], {}, "'npu', 'auto'"),
        (["--nproc", "0", "script.py"], {}, "at least one worker"),
        (["--nproc", "5", "script.py"], {"TORCH_NPU_EMULATOR_DEVICES": "4"}, "4 visible NPUs"),
        (["--nproc", "2", "script.py"], {"ASCEND_RT_VISIBLE_DEVICES": "0,zero"}, "separated by commas"),
        (["--nproc", "2", "script.py"], {"ASCEND_RT_VISIBLE_DEVICES": "1,1"}, "twice"),
    ],
)  # fmt: skip
def test_npurun_bad_request_says_one_clear_thing(
    arguments: list[str], environment: dict[str, str], said: str, tmp_path: Path
) -> None:
    (tmp_path / "script.py").write_text("print('ran')")
    result = npurun(*arguments, cwd=tmp_path, **environment)
    assert result.returncode == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert "ran" not in result.stdout


def test_npurun_mask_naming_a_missing_device_lists_those_that_exist(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("print('ran')")
    result = npurun(
        "--nproc", "4", "script.py", cwd=tmp_path, TORCH_NPU_EMULATOR_DEVICES="4", ASCEND_RT_VISIBLE_DEVICES="0,1,3,4"
    )
    assert result.returncode == 2
    assert "device 4" in result.stderr and "0 to 3" in result.stderr


def test_npurun_bad_device_index_in_worker_fails_with_a_clear_message(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import torch; torch.npu.set_device(9)")
    result = npurun("--nproc", "1", "script.py", cwd=tmp_path, TORCH_NPU_EMULATOR_DEVICES="2")
    assert result.returncode == 1
    sentence = "NPU device index 9 is out of range: this process sees 2 (npu:0 to npu:1)"
    assert result.stderr.count(sentence) == 1, result.stderr


def stop_launcher(number: signal.Signals, folder: Path) -> subprocess.CompletedProcess[str]:
    """npurun with two workers that have used their devices, ended by a signal; checks that no worker is left."""
    (folder / "sleep.py").write_text(
        "import torch, os, time\nx = torch.ones(1, device='npu').item()\n"
        "open(f'started.{os.getpid()}', 'w').close()\ntime.sleep(600)"
    )
    temporary = folder / "temporary"
    temporary.mkdir()
    with (folder / "stderr").open("w") as stderr:
        launcher = subprocess.Popen(
            [sys.executable, "-m", "torch_npu.launcher.npurun", "--nproc", "2", "sleep.py"], cwd=folder,
            stdout=subprocess.DEVNULL, stderr=stderr, env=os.environ | {"TMPDIR": str(temporary)},
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 90
        while len(workers := list(folder.glob("started.*"))) < 2:
            assert time.monotonic() < deadline and launcher.poll() is None
            time.sleep(0.1)
        launcher.send_signal(number)
        launcher.wait(60)
    finally:
        launcher.kill()
        launcher.wait()
    pids = [int(path.suffix[1:]) for path in workers]
    gone, alive = psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=20)
    assert not alive
    deadline = time.monotonic() + 20
    while left := list(temporary.iterdir()):
        assert time.monotonic() < deadline, f"temporary files left behind: {left}"
        time.sleep(0.1)
    return subprocess.CompletedProcess(launcher.args, launcher.returncode, "", (folder / "stderr").read_text())


def test_npurun_killed_leaves_no_worker(tmp_path: Path) -> None:
    assert stop_launcher(signal.SIGKILL, tmp_path).returncode == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_npurun_stopped_by_a_signal_says_so_and_leaves_no_worker(number: signal.Signals, tmp_path: Path) -> None:
    result = stop_launcher(number, tmp_path)
    assert result.returncode == 128 + number
    assert f"npurun: stopped by {number.name}" in result.stderr
    assert "SignalException" not in result.stderr, "the launcher's own traceback buries what the workers say"
