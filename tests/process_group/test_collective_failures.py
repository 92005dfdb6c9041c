"""What users see when ranks disagree, when one does not come, and when nobody waits for the failure."""

import re
from collections.abc import Callable

import pytest
from rank_programs import Outcome

pytestmark = pytest.mark.ranks

RunProgram = Callable[..., list[Outcome]]

HEADER = """
import datetime, os, sys, time
import torch
import torch.distributed as dist
import torch_npu

rank = int(os.environ["RANK"])
torch.npu.set_device(rank)
dist.init_process_group("hccl", timeout=datetime.timedelta(seconds=10))
dist.barrier()
started = time.monotonic()
"""
END = """
torch.npu.synchronize()
dist.destroy_process_group()
print("REACHED THE END")
"""


def check_all_failed(outcomes: list[Outcome], *needed: str, within: float) -> None:
    for rank, outcome in enumerate(outcomes):
        assert outcome.code != 0, f"rank {rank} ended as if all were well:\n{outcome.output}"
        assert outcome.code != -11, f"rank {rank} crashed:\n{outcome.output}"
        assert "REACHED THE END" not in outcome.output
        for text in needed:
            assert re.search(text, outcome.output), f"rank {rank} does not say {text!r}:\n{outcome.output}"
        # The interpreter's own start is not the subject.
        assert outcome.seconds < within, f"rank {rank} took {outcome.seconds:.0f} s:\n{outcome.output}"


# Scenario, lines of the program, what every rank must say. The sizes are what the emulator calls counts.
MISMATCHES = {
    "S01 sizes": ("dist.all_reduce(torch.ones(10 if rank == 0 else 9, device='npu'))", ("10", r"\b9\b", "(?i)all_?reduce")),
    "S03 dtypes": (
        "dist.all_reduce(torch.ones(4, device='npu', dtype=torch.float32 if rank == 0 else torch.float64))",
        ("(?i)fp32|float32", "(?i)fp64|float64"),
    ),
    "S04 operations": (
        "x = torch.ones(4, device='npu'); dist.all_reduce(x) if rank == 0 else dist.broadcast(x, src=0)",
        ("(?i)all_?reduce", "(?i)broadcast"),
    ),
    "S11 buffers": (
        "sizes = [128, 256] if rank == 0 else [256, 128]\n"
        "for size in sizes: dist.broadcast(torch.ones(size, device='npu'), src=0)",
        ("128", "256"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("scenario", MISMATCHES)
def test_mismatch_is_an_error_on_every_rank_naming_both_sides(run_program: RunProgram, scenario: str) -> None:
    lines, needed = MISMATCHES[scenario]
    outcomes = run_program(HEADER + lines + END, 2)
    check_all_failed(outcomes, *needed, "rank 0", "rank 1", within=60)


def test_mismatch_that_nobody_waits_for_still_ends_the_process(run_program: RunProgram) -> None:
    """Neither a wait nor a read nor an orderly end: the watchdog must see to the exit code."""
    program = HEADER + "dist.all_reduce(torch.ones(10 if rank == 0 else 9, device='npu'), async_op=True)\n"
    check_all_failed(run_program(program, 2), "10", r"\b9\b", within=60)


# Rank 1 waits for the store, in which rank 0 says that it has seen its error.
ABSENT = """
store = dist.distributed_c10d._get_default_store()
if rank == 0:
    try:
        {call}
    except dist.DistBackendError as error:
        print("SAW", error)
        print("TOOK", time.monotonic() - started)
    store.set("seen", "1")
else:
    store.wait(["seen"], datetime.timedelta(seconds=100))
os._exit(0)
"""


def test_timeout_names_the_operation_and_aborts_the_wait(run_program: RunProgram) -> None:
    call = "dist.all_reduce(torch.ones(5, 3, device='npu'), async_op=True).wait(datetime.timedelta(seconds=2))"
    outcomes = run_program(HEADER + ABSENT.format(call=call), 2)
    said = outcomes[0].output
    assert "SAW" in said, said
    for text in ("all_reduce, sequence number 2", "float32 [5, 3]", "rank 0 of 2", "npu:0", "group '"):
        assert text in said, f"{text!r} is not in:\n{said}"
    assert float(re.search(r"TOOK ([\d.]+)", said).group(1)) < 8, said


def test_blocking_wait_raises_after_the_groups_timeout(run_program: RunProgram) -> None:
    call = "dist.all_reduce(torch.ones(5, 3, device='npu'))"
    program = (HEADER + ABSENT.format(call=call)).replace("seconds=10", "seconds=3")
    outcomes = run_program(program, 2, TORCH_HCCL_BLOCKING_WAIT="1", TORCH_HCCL_ASYNC_ERROR_HANDLING="0")
    assert "SAW" in outcomes[0].output, outcomes[0].output
    assert "timeout 3 s" in outcomes[0].output


@pytest.mark.parametrize("handling", ["0", "3"])
def test_timeout_ends_a_read_that_waits_on_the_device(run_program: RunProgram, handling: str) -> None:
    """No work is waited for on the host: only the stream stands behind the collective."""
    call = "x = torch.ones(5, device='npu'); dist.all_reduce(x); print('READ', x[0].item())"
    program = (HEADER + ABSENT.format(call=call)).replace("seconds=10", "seconds=2")
    program = program.replace("except dist.DistBackendError", "except Exception")
    said = run_program(program, 2, seconds=40, TORCH_HCCL_ASYNC_ERROR_HANDLING=handling)[0].output
    assert "SAW" in said and "READ" not in said, said
    assert "did not finish in time" in said, said
    assert float(re.search(r"TOOK ([\d.]+)", said).group(1)) < 8, said


def test_first_collective_without_a_rank_names_the_rank(run_program: RunProgram) -> None:
    program = (HEADER + ABSENT.format(call="dist.all_reduce(torch.ones(5, device='npu'))")).replace(
        "dist.barrier()", ""
    ).replace("seconds=10", "seconds=3")
    said = run_program(program, 2)[0].output
    assert "SAW" in said, said
    for text in ("all_reduce, sequence number 1", "did not come within 3 s: rank 1", "group '"):
        assert text in said, f"{text!r} is not in:\n{said}"


def test_group_after_a_failure_refuses_further_collectives_and_a_new_one_works(run_program: RunProgram) -> None:
    program = HEADER + """
group = dist.new_group(backend="hccl")
x = torch.ones(4, device="npu")
dist.all_reduce(x, group=group)
side = torch.npu.Stream()
try:
    with torch.npu.stream(side):
        work = dist.all_reduce(torch.ones(10 if rank == 0 else 9, device="npu"), group=group, async_op=True)
        work.wait(datetime.timedelta(seconds=8))
except dist.DistBackendError as error:
    print("FIRST", error)
try:
    dist.all_reduce(x, group=group)
except dist.DistBackendError as error:
    print("AGAIN", error)
again = dist.new_group(backend="hccl")
dist.all_reduce(x, group=again)
print("SUM", x.sum().item())
os._exit(0)
"""
    for outcome in run_program(program, 2, TORCH_HCCL_ASYNC_ERROR_HANDLING="2"):
        assert "FIRST" in outcome.output and "AGAIN" in outcome.output, outcome.output
        assert "SUM 16.0" in outcome.output, outcome.output


def test_death_of_a_rank_is_noticed_by_the_others_at_once(run_program: RunProgram) -> None:
    program = HEADER + """
x = torch.ones(4, device="npu")
dist.all_reduce(x)
torch.npu.synchronize()
if rank == 1:
    os.kill(os.getpid(), 9)
try:
    dist.all_reduce(x, async_op=True).wait(datetime.timedelta(seconds=9))
    print("NOTHING NOTICED")
except dist.DistBackendError as error:
    print("SAW", error)
    print("TOOK", time.monotonic() - started)
os._exit(0)
"""
    survivor, victim = run_program(program, 2)
    assert victim.code == -9
    assert "rank 1" in survivor.output and "died" in survivor.output, survivor.output
    assert "all_reduce, sequence number 3" in survivor.output, survivor.output
    assert float(re.search(r"TOOK ([\d.]+)", survivor.output).group(1)) < 4, survivor.output


def test_abort_returns_with_work_outstanding_and_fails_it(run_program: RunProgram) -> None:
    program = HEADER + """
store = dist.distributed_c10d._get_default_store()
if rank == 0:
    with torch.npu.stream(torch.npu.Stream()):
        work = dist.all_reduce(torch.ones(4, device="npu"), async_op=True)
        started = time.monotonic()
        dist.distributed_c10d._abort_process_group()
        print("TOOK", time.monotonic() - started)
        try:
            work.wait(datetime.timedelta(seconds=9))
        except dist.DistBackendError as error:
            print("SAW", error)
    store.set("done", "1")
else:
    store.wait(["done"], datetime.timedelta(seconds=100))
os._exit(0)
"""
    said = run_program(program, 2)[0].output
    assert "SAW" in said and "aborted by this process" in said, said
    assert float(re.search(r"TOOK ([\d.]+)", said).group(1)) < 5, said


def test_program_that_ends_without_destroying_the_group_ends_well(run_program: RunProgram) -> None:
    program = HEADER + """
x = torch.ones(1000, device="npu", requires_grad=True)
(x * 2).sum().backward()
for _ in range(5):
    dist.all_reduce(x.grad)
"""
    for outcome in run_program(program, 2):
        assert outcome.code == 0, outcome.output
        assert "rror" not in outcome.output, outcome.output
