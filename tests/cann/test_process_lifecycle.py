"""Lazy devices, forks, threads and the end of a process, each in a program of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

# By a process that uses one device.
CALLED_ONCE = ("aclInit", "aclrtSetDevice", "aclrtResetDevice", "aclFinalize")


def output(program: str, **variables: object) -> str:
    environment = {
        n: v for n, v in os.environ.items() if not n.startswith(("TORCH_NPU_", "ASCEND_"))
    }
    environment |= {"TORCH_NPU_EMULATOR_DEVICES": "2", "TORCH_NPU_EMULATOR_ANNOUNCED": "1"}
    environment |= {name: str(value) for name, value in variables.items()}
    result = subprocess.run(
        [sys.executable, "-P", "-c", "import os, threading, torch\nimport torch_npu._C as C\n" + program],
        env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout.strip()


def test_device_that_is_only_chosen_gets_no_context() -> None:
    printed = output(
        "torch.npu.set_device(1)\n"
        "print(C.has_primary_context(0), C.has_primary_context(1))\n"
        "x = torch.ones(4, device='npu', requires_grad=True)\n"
        "(x * x).sum().backward()\n"
        "print(x.grad.device, C.has_primary_context(0), C.has_primary_context(1))"
    )
    assert printed.split() == ["False", "False", "npu:1", "False", "True"]


def test_work_on_another_device_leaves_the_current_one_current() -> None:
    printed = output(
        "a = torch.ones(4, device='npu:1')\n"
        "event = torch.Event('npu:1'); event.record(torch.npu.current_stream(1))\n"
        "torch.npu.synchronize(1)\n"
        "print(torch.npu.current_device(), C.has_primary_context(0), torch.ones(1, device='npu').device)"
    )
    assert printed.split() == ["0", "False", "npu:0"]


def test_every_thread_starts_on_the_default_device_and_default_stream() -> None:
    printed = output(
        "seen = []\n"
        "def look():\n"
        "    seen.append((torch.npu.current_device(), torch.npu.current_stream().stream_id))\n"
        "torch.npu.set_device(0)\n"
        "with torch.Stream('npu:0'):\n"
        "    thread = threading.Thread(target=look); thread.start(); thread.join()\n"
        "print(*seen)",
        TORCH_NPU_DEFAULT_DEVICE=1,
    )
    assert printed == "(1, 0)"


def test_default_device_that_does_not_exist_is_ignored() -> None:
    assert output("print(torch.npu.current_device())", TORCH_NPU_DEFAULT_DEVICE=5) == "0"


def test_device_index_out_of_range_says_which_exist() -> None:
    printed = output(
        "try:\n    torch.npu.set_device(2)\nexcept ValueError as error:\n    print(error)\n"
        "try:\n    torch.empty(1, device='npu:7')\nexcept ValueError as error:\n    print(error)"
    )
    first, second = printed.splitlines()
    assert first == "NPU device index 2 is out of range: this process sees 2 (npu:0 to npu:1)."
    assert second.startswith("NPU device index 7 is out of range")


FORK = """
def use():
    try:
        return str((torch.ones(3, device="npu") + 1).sum().item())
    except RuntimeError as error:
        return "spawn" if "'spawn'" in str(error) else repr(error)

{before}
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    os.write(writer, f"{{use()}} {{torch.npu.is_initialized()}} {{C.is_in_bad_fork()}}".encode())
    os._exit(0)
os.close(writer)
assert os.waitpid(child, 0)[1] == 0
print(os.read(reader, 100).decode(), use(), torch.npu.is_initialized(), C.is_in_bad_fork())
"""


def test_fork_of_a_process_that_used_the_device_must_not_use_it() -> None:
    printed = output(FORK.format(before="use()"))
    assert printed.split() == ["spawn", "False", "True", "6.0", "True", "False"]


def test_fork_before_the_first_use_of_a_device_works_in_both_processes() -> None:
    printed = output(FORK.format(before="torch.npu.device_count()"))
    assert printed.split() == ["6.0", "True", "False", "6.0", "True", "False"]


def test_forked_child_that_holds_tensors_exits_cleanly() -> None:
    printed = output(
        "x = torch.ones(3, device='npu'); event = torch.Event('npu'); event.record()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    del x, event\n"
        "    raise SystemExit(7)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), x.sum().item())"
    )
    assert printed.split() == ["7", "3.0"]


@pytest.mark.parametrize(
    "program",
    [
        "x = torch.ones(300, 300, device='npu')\nfor _ in range(50): x = x @ x / 300",
        "x = torch.ones(8, device='npu', requires_grad=True); (x * 2).sum().backward()",
        "x = torch.ones(8, device='npu')\nwith torch.Stream('npu'): y = (x + 1).to('cpu', non_blocking=True)",
        "keep = [torch.Event('npu') for _ in range(3)]\nfor e in keep: e.record()\nimport builtins; builtins.k = keep",
    ],
)
def test_process_that_ends_with_work_outstanding_exits_without_a_word(program: str) -> None:
    for _ in range(2):  # an abort at exit is a matter of chance
        assert output(program) == ""


def test_error_that_nobody_asked_for_is_reported_at_exit() -> None:
    result = subprocess.run(
        [sys.executable, "-P",
            "-P",
            "-c",
         "import torch\nx = torch.ones(4, device='npu')\ntorch.npu.synchronize()\ny = x + 1"],
        env=os.environ | {"TORCH_NPU_EMULATOR_ANNOUNCED": "1",
                          "TORCH_NPU_EMULATOR_FAULTS": "aclrtSynchronizeDeviceWithTimeout:*:1:error"},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert "torch_npu: at exit: aclrtSynchronizeDevice failed with" in result.stderr


def test_first_use_by_many_threads_at_once_starts_runtime_and_context_once(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    printed = output(
        "start = threading.Barrier(8); results = []\n"
        "def use():\n"
        "    start.wait()\n"
        "    results.append((torch.ones(3, device='npu') + 1).sum().item())\n"
        "threads = [threading.Thread(target=use) for _ in range(8)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "print(results)",
        TORCH_NPU_EMULATOR_TRACE=trace,
    )
    assert printed == str([6.0] * 8)
    calls = "".join(path.read_text() for path in tmp_path.iterdir())
    assert [len(re.findall(rf"\b{name}\b", calls)) for name in CALLED_ONCE] == [1] * len(CALLED_ONCE)
