"""What importing does, in processes of their own: nothing is opened, and a broken install breaks nothing else."""

import subprocess
from collections.abc import Callable

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

LOADED = "any('npu_emulator' in line or 'ascendcl' in line for line in open('/proc/self/maps'))"


def check(result: subprocess.CompletedProcess[str], out: str) -> None:
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == out


def test_import_opens_no_cann_until_the_first_use(run_python: Run) -> None:
    program = f"""
import torch
torch.manual_seed(5)          # reaches the generators of devices that are not opened
torch.npu._is_in_bad_fork(), torch.npu.is_initialized(), torch.npu.memory_stats
assert not {LOADED}
threads = len(__import__("os").listdir("/proc/self/task"))
assert torch.npu.is_available() and torch.npu.device_count() > 0
assert not torch.npu.is_initialized()
assert len(__import__("os").listdir("/proc/self/task")) == threads
torch.empty(1, device="npu")
assert torch.npu.is_initialized()
print(torch.npu.initial_seed())
"""
    check(run_python(program), "5")


def test_import_of_the_package_before_torch_works(run_python: Run) -> None:
    program = "import torch_npu, torch; print(torch.npu is torch_npu.npu, torch.ones(2, device='npu').sum().item())"
    check(run_python(program), "True 2.0")


def test_import_without_autoload_leaves_torch_alone_until_asked(run_python: Run) -> None:
    program = """
import torch
print(hasattr(torch, "npu"), end=" ")
import torch_npu
print(torch.zeros(1, device="npu").device)
"""
    check(run_python(program, {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}), "False npu:0")


@pytest.mark.parametrize(
    ("broken", "reason"),
    [("None", "torch_npu._C"), ("types.SimpleNamespace(built_for_torch='2.12.1+cpu')", "built for torch 2.12.1")],
)
def test_broken_extension_leaves_torch_usable_and_is_told_at_first_use(
    run_python: Run, broken: str, reason: str
) -> None:
    program = f"""
import sys, types
sys.modules["torch_npu._C"] = {broken}
import torch
assert torch.ones(3).sum().item() == 3
torch.manual_seed(1)
assert not torch.npu.is_available() and torch.npu.device_count() == 0 and not torch.npu.is_initialized()
try:
    torch.empty(1, device="npu")
except RuntimeError as error:
    print({reason!r} in str(error))
try:
    torch.npu.current_device()
except RuntimeError as error:
    print({reason!r} in str(error))
"""
    check(run_python(program), "True\nTrue")


def test_cann_that_cannot_be_loaded_is_no_device_and_says_why(run_python: Run, tmp_path) -> None:
    program = """
import torch
print(torch.npu.is_available(), torch.npu.device_count())
try:
    torch.empty(1, device="npu")
except RuntimeError as error:
    print(error)
"""
    result = run_python(program, {"TORCH_NPU_EMULATOR_PATH": str(tmp_path), "TORCH_NPU_CANN": "emulator"})
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("False 0\n")
    assert str(tmp_path) in result.stdout


def test_failed_registration_does_not_break_torch(run_python: Run) -> None:
    program = """
import torch
torch.utils.rename_privateuse1_backend("other")
import torch_npu
try:
    torch_npu.distributed
except AttributeError as error:
    print("other" in str(error) or "npu" in str(error))
"""
    result = run_python(program, {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    check(result, "True")
    assert "torch_npu: disabled" in result.stderr


def test_emulator_is_announced_once_for_a_tree_of_processes(run_python: Run) -> None:
    program = """
import subprocess, sys, torch
child = "import torch; torch.ones(1, device='npu'); print(torch.npu.get_device_name())"
torch.ones(1, device="npu")
import os
for env in (None, dict(os.environ)):
    subprocess.run([sys.executable, "-P", "-c", child], check=True, env=env)
"""
    result = run_python(program)
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("torch_npu: no CANN found, using the emulator") == 1
    assert result.stdout.count("emulated") == 2


def test_program_that_only_uses_the_cpu_is_told_of_no_emulator(run_python: Run) -> None:
    program = """
import torch
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
model(torch.ones(2, 4)).sum().backward()  # autograd asks every device type for its number of devices
torch.optim.SGD(model.parameters(), lr=0.1).step()
print(torch.npu.is_available())
"""
    result = run_python(program)
    check(result, "True")
    assert result.stderr == ""


def test_forked_child_of_a_process_with_devices_is_told_to_spawn(run_python: Run) -> None:
    program = """
import os, sys, torch
x = torch.ones(1 << 20, device="npu")
y = torch.ones(8).pin_memory()
pid = os.fork()
if pid == 0:
    del y
    del x  # the child's copies go quietly
    assert torch.npu._is_in_bad_fork() and not torch.npu.is_initialized()
    torch.manual_seed(0)
    try:
        torch.ones(1 << 20, device="npu")
        os._exit(1)
    except RuntimeError as error:
        os._exit(0 if "spawn" in str(error) else 2)
status = os.waitpid(pid, 0)[1]
print(os.waitstatus_to_exitcode(status), x.sum().item())
"""
    check(run_python(program), "0 1048576.0")


def test_forked_child_of_a_process_without_devices_may_use_them(run_python: Run) -> None:
    program = """
import os, torch
assert torch.npu.device_count() > 0
pid = os.fork()
if pid == 0:
    os._exit(int(torch.ones(3, device="npu").sum().item()))
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    check(run_python(program), "3")


def test_exit_waits_for_autograds_threads(run_python: Run) -> None:
    # Left alone, one of them aborts the process now and then: csrc/python/Exit.cpp, "Autograd threads at exit".
    program = """
import atexit, os

def autograd_threads():
    names = [open(f"/proc/self/task/{task}/comm").read() for task in os.listdir("/proc/self/task")]
    return sum(name.startswith("pt_autograd") for name in names)

# Functions registered earlier run later: after the hook that importing torch registers.
atexit.register(lambda: print("at exit", autograd_threads()))
import torch
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)).npu()
model(torch.ones(4, 8, device="npu")).sum().backward()
print("running", autograd_threads() > 0)
"""
    check(run_python(program), "running True\nat exit 0")


def test_work_in_flight_at_exit_ends_without_noise(run_python: Run) -> None:
    program = """
import torch
x = torch.ones(1 << 18, device="npu")
stream = torch.npu.Stream()
with torch.npu.stream(stream):
    for _ in range(50):
        x = x * 1.5 - 0.5
y = x.to("cpu", non_blocking=True)
held = torch.empty(100, pin_memory=True)
"""
    result = run_python(program, {"TORCH_NPU_EMULATOR_ANNOUNCED": "1"})
    check(result, "")
    assert result.stderr == ""
