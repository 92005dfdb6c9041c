"""The allocator and the end of the process when a stream fails, hangs, or another thread holds the memory."""

import subprocess
from collections.abc import Callable

import pytest

MIB = 1 << 20

FAILED_STREAM = """
import torch
MIB = 1 << 20

def buffer(size):
    return torch.empty(size, dtype=torch.uint8, device="npu")

x, y = buffer(4 * MIB), buffer(4 * MIB)
address = x.data_ptr()
side = torch.npu.Stream()
with torch.npu.stream(side):
    x.copy_(y)  # the task that fails

def wait_for_failure():
    try:
        side.synchronize()
        raise SystemExit("the stream did not fail")
    except RuntimeError as error:
        assert "fault injected" in str(error), error

wait_for_failure()
"""

FAULT = {"TORCH_NPU_EMULATOR_FAULTS": "task/aclrtMemcpyAsync:*:1:error"}


def printed(result: subprocess.CompletedProcess[str]) -> str:
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_failed_stream_costs_its_memory_and_allocations_go_on(run_python: Callable) -> None:
    program = """
for tensor in (x, y):
    tensor.record_stream(side)
del x, y, tensor  # their events are recorded on the failed stream
wait_for_failure()
kept = [buffer(4 * MIB) for _ in range(10)]
assert address not in [tensor.data_ptr() for tensor in kept], "the failed stream may still write there"
del kept
torch.npu.set_stream(torch.npu.Stream())
buffer(64 * MIB).fill_(1)
torch.npu.current_stream().synchronize()
print("went on")
"""
    result = run_python(FAILED_STREAM + program, FAULT)
    assert printed(result) == "went on"
    assert result.stderr.count("kept out of use") == 1, result.stderr


def test_failed_stream_does_not_stop_the_release_of_other_streams_memory(run_python: Callable) -> None:
    program = """
big = buffer(160 * MIB)
del big  # cached, and in the way of the next
other = torch.npu.Stream()
with torch.npu.stream(other):
    big = buffer(200 * MIB).fill_(1)
other.synchronize()
print("went on")
"""
    result = run_python(FAILED_STREAM + program, FAULT | {"TORCH_NPU_EMULATOR_MEMORY": "256MiB"})
    assert printed(result) == "went on"


def test_empty_cache_after_a_failure_reports_it_and_frees_what_it_can(run_python: Callable) -> None:
    program = """
big = buffer(64 * MIB)
del big
reserved = torch.npu.memory_reserved()
try:
    torch.npu.empty_cache()
    raise SystemExit("no error")
except RuntimeError as error:
    assert "fault injected" in str(error), error
print(reserved - torch.npu.memory_reserved() >= 64 * MIB)
"""
    assert printed(run_python(FAILED_STREAM + program, FAULT)) == "True"


@pytest.mark.parametrize("release", ["buffer(100 * MIB)", "torch.npu.empty_cache()"])
def test_memory_on_its_way_back_to_the_device_is_waited_for(run_python: Callable, release: str) -> None:
    # The first thread has taken the cache out of the pool and waits for the device before it can free it; the second
    # then finds neither cache nor free memory.
    program = f"""
import threading, time
from concurrent.futures import ThreadPoolExecutor
import torch
from torch_npu._C import _testing
MIB = 1 << 20

def buffer(size):
    return torch.empty(size, dtype=torch.uint8, device="npu")

def until(condition):
    while not condition():
        time.sleep(0.001)

gate = _testing.Gate()
side = torch.npu.Stream()
cache = [buffer(80 * MIB) for _ in range(3)]
del cache
gate.block(side)
pool = ThreadPoolExecutor(2)
first = pool.submit(lambda: {release})
until(lambda: torch.npu.memory_reserved() == 0)
retries = torch.npu.memory_stats()["num_alloc_retries"]
second = pool.submit(buffer, 100 * MIB)
until(lambda: torch.npu.memory_stats()["num_alloc_retries"] > retries)
try:  # gives it the time to fail; opening the gate too early could only hide that
    second.exception(timeout=0.3)
except TimeoutError:
    pass
gate.open()
first.result()
print(second.result().numel())
"""
    assert printed(run_python(program, {"TORCH_NPU_EMULATOR_MEMORY": "256MiB"})) == str(100 * MIB)


@pytest.mark.parametrize("request_bytes", [24 * MIB + MIB // 2, 25 * MIB - 512, 5 * MIB, 25 * MIB, 40 * MIB + 1])
def test_request_near_the_split_limit_uses_its_new_segment(run_python: Callable, request_bytes: int) -> None:
    program = f"""
import torch
addresses = set()
for _ in range(3):
    x = torch.empty({request_bytes}, dtype=torch.uint8, device="npu")
    addresses.add(x.data_ptr())
    del x
stats = torch.npu.memory_stats()
print(stats["num_device_alloc"], stats["num_ooms"], len(addresses))
"""
    assert printed(run_python(program, {"PYTORCH_NPU_ALLOC_CONF": "max_split_size_mb:25"})) == "1 0 1"


def test_process_whose_device_hangs_ends_after_the_drain_gave_up(run_python: Callable) -> None:
    program = """
import ctypes
import torch
from torch_npu._C import _testing
gate = _testing.Gate()
ctypes.pythonapi.Py_IncRef(ctypes.py_object(gate))  # never destroyed, thus never opened
x = torch.ones(4, device="npu")
gate.block(torch.npu.Stream())
gate.wait_reached()
print("leaving", flush=True)
"""
    result = run_python(program, {"ACL_DEVICE_SYNC_TIMEOUT": "0.5"}, timeout=30)
    assert printed(result) == "leaving"
    assert "at exit" in result.stderr
