"""The caching allocator seen from Python: statistics, reuse, streams, limits, errors."""

import gc
import itertools
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from torch_npu._C import _testing

KIB, MIB = 1 << 10, 1 << 20


@pytest.fixture(autouse=True)
def clean_cache() -> Iterator[None]:
    gc.collect()
    torch.npu.synchronize()
    torch.npu.empty_cache()
    yield


def buffer(size: int, device: str = "npu") -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device=device)


def test_memory_allocated_counts_rounded_bytes_of_live_tensors() -> None:
    before = torch.npu.memory_allocated()
    first = buffer(1)
    assert torch.npu.memory_allocated() - before == 512
    second = buffer(3 * MIB + 1)
    assert torch.npu.memory_allocated() - before == 512 + 3 * MIB + 512
    del first
    assert torch.npu.memory_allocated() - before == 3 * MIB + 512
    del second
    assert torch.npu.memory_allocated() == before


def test_memory_statistics_tell_pools_requests_and_totals() -> None:
    torch.npu.reset_accumulated_memory_stats()
    torch.npu.reset_peak_memory_stats()
    old = torch.npu.memory_stats()
    tensors = [buffer(100), buffer(5 * MIB)]
    new = torch.npu.memory_stats()
    change = {name: new[name] - old[name] for name in new}
    assert change["allocation.all.current"] == 2
    assert change["allocation.small_pool.current"] == 1
    assert change["allocation.large_pool.current"] == 1
    assert change["requested_bytes.all.current"] == 100 + 5 * MIB
    assert change["allocated_bytes.small_pool.current"] == 512
    assert change["allocated_bytes.large_pool.current"] == 5 * MIB
    assert change["allocation.all.allocated"] == 2
    assert new["reserved_bytes.all.current"] >= new["allocated_bytes.all.current"]
    nested = torch.npu.memory_stats_as_nested_dict()
    assert nested["allocation"]["all"]["current"] == new["allocation.all.current"]
    del tensors
    assert torch.npu.memory_stats()["allocation.all.freed"] - old["allocation.all.freed"] == 2


def test_peak_statistics_survive_frees_until_reset() -> None:
    base = torch.npu.memory_allocated()
    torch.npu.reset_peak_memory_stats()
    large = buffer(8 * MIB)
    del large
    assert torch.npu.max_memory_allocated() == base + 8 * MIB
    assert torch.npu.max_memory_reserved() >= 8 * MIB
    torch.npu.reset_peak_memory_stats()
    assert torch.npu.max_memory_allocated() == base


def test_freed_memory_is_reused_by_the_same_stream_without_waiting(gate: _testing.Gate) -> None:
    stream = torch.npu.Stream()
    with torch.npu.stream(stream):
        gate.block(stream)
        first = buffer(4 * MIB)
        address = first.data_ptr()
        del first
        second = buffer(4 * MIB)
        assert second.data_ptr() == address
    assert not stream.query()


def test_freed_memory_is_not_handed_to_another_stream() -> None:
    first, second = torch.npu.Stream(), torch.npu.Stream()
    with torch.npu.stream(first):
        tensor = buffer(4 * MIB)
        address = tensor.data_ptr()
        del tensor
    with torch.npu.stream(second):
        other = buffer(4 * MIB)
    assert other.data_ptr() != address


def test_record_stream_keeps_memory_until_the_other_stream_is_done(gate: _testing.Gate) -> None:
    side = torch.npu.Stream()
    tensor = buffer(4 * MIB)
    address = tensor.data_ptr()
    gate.block(side)
    tensor.record_stream(side)
    allocated = torch.npu.memory_allocated()
    del tensor
    assert torch.npu.memory_allocated() == allocated - 4 * MIB
    assert torch.npu.memory_stats()["active_bytes.all.current"] >= 4 * MIB
    while_used = buffer(4 * MIB)
    assert while_used.data_ptr() != address
    gate.open()
    side.synchronize()
    after = buffer(4 * MIB)
    assert after.data_ptr() == address


def test_record_stream_of_the_own_stream_delays_nothing(gate: _testing.Gate) -> None:
    stream = torch.npu.Stream()
    with torch.npu.stream(stream):
        gate.block(stream)
        tensor = buffer(4 * MIB)
        address = tensor.data_ptr()
        tensor.record_stream(stream)
        del tensor
        assert buffer(4 * MIB).data_ptr() == address


def test_memory_freed_by_another_thread_is_reused() -> None:
    held = [buffer(6 * MIB)]
    address = held[0].data_ptr()
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert buffer(6 * MIB).data_ptr() == address


def test_concurrent_allocations_never_overlap() -> None:
    ranges: list[list[tuple[int, int]]] = [[] for _ in range(4)]
    kept: list[list[torch.Tensor]] = [[] for _ in range(4)]

    def work(index: int) -> None:
        for step in range(100):
            size = 1 + (step * 7919 + index * 104729) % (3 * MIB)
            tensor = buffer(size)
            if step % 3 == 0:
                kept[index].append(tensor)
                ranges[index].append((tensor.data_ptr(), size))

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    flat = sorted(entry for part in ranges for entry in part)
    assert len(flat) == 4 * 34
    for (start, size), (following, _) in itertools.pairwise(flat):
        assert start + size <= following


def test_empty_cache_gives_idle_memory_back() -> None:
    free_before, total = torch.npu.mem_get_info()
    tensor = buffer(64 * MIB)
    assert torch.npu.mem_get_info()[0] <= free_before - 64 * MIB
    reserved = torch.npu.memory_reserved()
    del tensor
    assert torch.npu.memory_reserved() == reserved
    torch.npu.empty_cache()
    assert torch.npu.memory_reserved() == reserved - 64 * MIB
    assert torch.npu.mem_get_info() == (free_before, total)


def test_memory_fraction_limits_and_error_tells_sizes() -> None:
    total = torch.npu.mem_get_info()[1]
    room = torch.npu.memory_reserved() + 64 * MIB
    torch.npu.set_per_process_memory_fraction(room / total)
    try:
        assert torch.npu.get_per_process_memory_fraction() == pytest.approx(room / total)
        ooms = torch.npu.memory_stats()["num_ooms"]
        with pytest.raises(torch.OutOfMemoryError) as caught:
            buffer(80 * MIB)
        text = str(caught.value)
        assert "80.00 MiB" in text
        assert "npu:0" in text
        assert "set_per_process_memory_fraction" in text
        assert torch.npu.memory_stats()["num_ooms"] == ooms + 1
        assert buffer(32 * MIB).numel() == 32 * MIB  # it goes on
    finally:
        torch.npu.set_per_process_memory_fraction(1.0)
    assert buffer(80 * MIB).numel() == 80 * MIB


def test_full_limit_is_relieved_by_releasing_the_cache() -> None:
    total = torch.npu.mem_get_info()[1]
    torch.npu.set_per_process_memory_fraction((torch.npu.memory_reserved() + 70 * MIB) / total)
    try:
        retries = torch.npu.memory_stats()["num_alloc_retries"]
        first = buffer(40 * MIB)
        del first  # cached: 40 of 70 MiB
        second = buffer(60 * MIB)  # fits only when the cache goes
        assert second.numel() == 60 * MIB
        assert torch.npu.memory_stats()["num_alloc_retries"] == retries + 1
    finally:
        torch.npu.set_per_process_memory_fraction(1.0)


def test_full_limit_waits_for_memory_that_other_streams_use(gate: _testing.Gate) -> None:
    side = torch.npu.Stream()
    total = torch.npu.mem_get_info()[1]
    torch.npu.set_per_process_memory_fraction((torch.npu.memory_reserved() + 70 * MIB) / total)
    try:
        tensor = buffer(60 * MIB)
        gate.block(side)
        tensor.record_stream(side)
        del tensor

        def reach_and_open() -> None:
            gate.wait_reached()
            gate.open()

        opener = threading.Thread(target=reach_and_open)
        opener.start()
        assert buffer(60 * MIB).numel() == 60 * MIB
        opener.join()
    finally:
        torch.npu.set_per_process_memory_fraction(1.0)


@pytest.mark.parametrize("fraction", [-0.1, 1.5, float("nan")])
def test_memory_fraction_outside_its_range_raises(fraction: float) -> None:
    with pytest.raises(ValueError, match="0 and 1"):
        torch.npu.set_per_process_memory_fraction(fraction)


def test_capacity_of_a_device_is_enforced_and_work_goes_on(run_python: Callable) -> None:
    program = """
import torch
MIB = 1 << 20
free, total = torch.npu.mem_get_info()
assert total == 256 * MIB, total
kept = torch.ones(64 * MIB, dtype=torch.uint8, device="npu")
try:
    torch.empty(300 * MIB, dtype=torch.uint8, device="npu")
    raise SystemExit("no error")
except torch.OutOfMemoryError as error:
    text = str(error)
for part in ("300.00 MiB", "256.00 MiB", "64.00 MiB", "npu:0"):
    assert part in text, text
other = torch.ones(200 * MIB, dtype=torch.uint8, device="npu:1")
assert int(kept[-1]) == 1 and int(other[-1]) == 1
del kept
again = torch.ones(200 * MIB, dtype=torch.uint8, device="npu")
assert int(again[0]) == 1
print("went on")
"""
    result = run_python(program, {"TORCH_NPU_EMULATOR_MEMORY": "256MiB"})
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "went on"


def test_no_caching_gives_memory_back_at_once(run_python: Callable) -> None:
    program = """
import torch
x = torch.ones(3, device="npu")
y = torch.ones(5 << 20, dtype=torch.uint8, device="npu")
assert torch.npu.memory_reserved() == torch.npu.memory_allocated() == 512 + (5 << 20)
del y
assert torch.npu.memory_reserved() == 512
print(x.cpu().tolist())
"""
    result = run_python(program, {"PYTORCH_NO_NPU_MEMORY_CACHING": "1"})
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "[1.0, 1.0, 1.0]"


def test_allocator_settings_are_read_and_bad_ones_name_the_key(run_python: Callable) -> None:
    program = """
import torch
x = torch.empty(40 << 20, dtype=torch.uint8, device="npu")
print(torch.npu.memory_stats()["max_split_size"])
"""
    good = run_python(program, {"PYTORCH_NPU_ALLOC_CONF": "max_split_size_mb:32"})
    assert good.returncode == 0, good.stderr
    assert good.stdout.strip() == str(32 * MIB)
    bad = run_python(program, {"PYTORCH_NPU_ALLOC_CONF": "max_splitt_size_mb:32"})
    assert bad.returncode != 0
    assert "max_splitt_size_mb" in bad.stderr


def test_raw_memory_is_counted_and_given_back() -> None:
    before = torch.npu.memory_allocated()
    address = torch.npu.caching_allocator_alloc(1000)
    assert torch.npu.memory_allocated() == before + 1024
    torch.npu.caching_allocator_delete(address)
    assert torch.npu.memory_allocated() == before
    with pytest.raises(ValueError, match="caching_allocator_alloc"):
        torch.npu.caching_allocator_delete(address)


def test_zero_bytes_carry_the_device_and_take_no_memory() -> None:
    before = torch.npu.memory_allocated(1)
    empty = torch.empty(0, device="npu:1")
    assert empty.device == torch.device("npu:1")
    assert empty.untyped_storage().device == torch.device("npu:1")
    assert torch.npu.memory_allocated(1) == before


def test_storage_resize_frees_and_restores_memory() -> None:
    tensor = torch.arange(1024, dtype=torch.float32, device="npu")
    before = torch.npu.memory_allocated()
    storage = tensor.untyped_storage()
    storage.resize_(0)
    assert torch.npu.memory_allocated() == before - 4096
    storage.resize_(4096)
    assert torch.npu.memory_allocated() == before
    tensor.fill_(2)
    assert tensor.cpu().sum().item() == 2048


def test_snapshot_agrees_with_the_statistics(tmp_path: Path) -> None:
    keep = [buffer(700), buffer(3 * MIB)]
    snapshot = torch.npu.memory._snapshot(0)
    stats = torch.npu.memory_stats()
    segments = snapshot["segments"]
    assert sum(s["total_size"] for s in segments) == stats["reserved_bytes.all.current"]
    assert sum(s["allocated_size"] for s in segments) == stats["allocated_bytes.all.current"]
    states = {block["address"]: block["state"] for segment in segments for block in segment["blocks"]}
    for tensor in keep:
        assert states[tensor.data_ptr()] == "active_allocated"
    file = tmp_path / "snapshot.pickle"
    torch.npu.memory._dump_snapshot(file)
    assert pickle.loads(file.read_bytes())["segments"] == torch.npu.memory_snapshot()


def test_snapshot_opens_in_torchs_visualiser() -> None:
    from torch.cuda import _memory_viz

    tensor = buffer(3 * MIB)
    snapshot = torch.npu.memory._snapshot()
    text = _memory_viz.segsum(snapshot)
    assert "MiB" in text
    assert tensor.numel() == 3 * MIB


def test_memory_summary_shows_the_allocated_size() -> None:
    tensor = buffer(5 * MIB)
    now = torch.npu.memory_allocated()
    summary = torch.npu.memory_summary()
    assert f"{now / MIB:.1f} MiB" in summary
    assert len(torch.npu.memory_summary(abbreviated=True).splitlines()) < len(summary.splitlines())
    assert tensor.numel() == 5 * MIB


def test_memory_of_devices_is_counted_apart() -> None:
    before = [torch.npu.memory_allocated(0), torch.npu.memory_allocated(1)]
    tensor = buffer(2 * MIB, "npu:1")
    assert torch.npu.memory_allocated(0) == before[0]
    assert torch.npu.memory_allocated(1) == before[1] + 2 * MIB
    assert torch.npu.current_device() == 0
    assert tensor.device.index == 1


def small_program(code: str, *, memory: str, before: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", f'{before} exec "$0" -c "$1"', sys.executable, code], capture_output=True, text=True, timeout=120,
        env=os.environ | {"TORCH_NPU_EMULATOR_MEMORY": memory},
    )  # fmt: skip


def test_device_smaller_than_a_segment_gives_what_it_has() -> None:
    result = small_program("import torch; print(torch.ones(4, device='npu').tolist())", memory="1MiB")
    assert result.stdout.strip() == "[1.0, 1.0, 1.0, 1.0]", result.stderr


def test_last_memory_of_a_device_goes_to_a_tensor_that_fits_alone() -> None:
    code = "import torch; x = torch.empty(17 << 20, dtype=torch.uint8, device='npu'); print(torch.npu.memory_reserved())"
    result = small_program(code, memory="18MiB")
    assert int(result.stdout) <= 18 * MIB, result.stderr


def test_memory_refused_for_another_reason_than_capacity_says_which() -> None:
    code = "import torch; torch.npu.init(); torch.ones(1, device='npu')"
    result = small_program(code, memory="32GiB", before="ulimit -v 20000000;")
    assert result.returncode == 1
    assert "address space" in result.stderr and "OutOfMemoryError" in result.stderr
