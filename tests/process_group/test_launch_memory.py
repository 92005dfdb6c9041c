"""Streams of communicators, and memory that the communication stream uses behind the caller's back."""

import threading
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from rank_programs import Outcome

RunProgram = Callable[..., list[Outcome]]

HEADER = """
import datetime, os
import torch
import torch.distributed as dist
import torch_npu
from torch_npu import _C

rank = int(os.environ["RANK"])
torch.npu.set_device(rank)
dist.init_process_group("hccl", timeout=datetime.timedelta(seconds=10))
dist.barrier()
backend = dist.group.WORLD._get_backend(torch.device("npu"))

def closed_gate(stream):
    gate = _C._testing.Gate()
    gate.block(stream)
    return gate

def ones(count=4):
    return torch.ones(count, device="npu")

def is_handed_out(addresses):
    # More blocks than the cache has holes of this size.
    fresh = [ones(1) for _ in range(200)]
    return any(tensor.data_ptr() in addresses for tensor in fresh)
"""


def said(run_program: RunProgram, lines: str, size: int = 1, **environment: str) -> list[str]:
    outcomes = run_program(HEADER + lines + "\nos._exit(0)\n", size, **environment)
    for outcome in outcomes:
        assert outcome.code == 0, outcome.output
    return [outcome.output for outcome in outcomes]


PREMULTIPLIED = {
    "all_reduce": "backend.allreduce([x], with_op(dist.AllreduceOptions()))",
    "all_reduce_coalesced": "backend.allreduce_coalesced([x], with_op(dist.AllreduceCoalescedOptions()))",
    "reduce": "backend.reduce([x], with_op(dist.ReduceOptions()))",
    "reduce_scatter": "backend.reduce_scatter([y], [[x]], with_op(dist.ReduceScatterOptions()))",
    "reduce_scatter_tensor": "backend._reduce_scatter_base(y, x, with_op(dist.ReduceScatterOptions()))",
}


@pytest.mark.ranks
def test_factor_of_premul_sum_is_kept_until_it_is_read(run_program: RunProgram) -> None:
    program = """
def with_op(options):
    options.reduceOp = op
    return options

x, y = ones(), ones()
"""
    for name, call in PREMULTIPLIED.items():
        program += f"""
factor = torch.full((1,), 3.0, device="npu")
torch.npu.synchronize()
address = factor.data_ptr()
op = dist._make_nccl_premul_sum(factor)
gate = closed_gate(torch.npu.current_stream())
work = {call}
del op, factor
print("{name}", "LOST" if is_handed_out([address]) else "KEPT")
gate.open()
work.wait()
torch.npu.synchronize()
del work
"""
    (output,) = said(run_program, program)
    for name in PREMULTIPLIED:
        assert f"{name} KEPT" in output, output


@pytest.mark.ranks
def test_launch_that_fails_half_way_keeps_the_memory_of_its_tensors(run_program: RunProgram) -> None:
    program = """
tensors = [ones(1), ones(1)]
torch.npu.synchronize()
addresses = [tensor.data_ptr() for tensor in tensors]
gate = closed_gate(torch.npu.current_stream())
try:
    backend.allreduce_coalesced(tensors)
except dist.DistBackendError as error:
    print("SAW", error)
del tensors
print("LOST" if is_handed_out(addresses) else "KEPT")
gate.open()
"""
    # The barrier is the first use, the first tensor the second.
    (output,) = said(run_program, program, TORCH_NPU_EMULATOR_FAULTS="HcclAllReduce:0:3:error")
    assert "SAW all_reduce_coalesced" in output and "KEPT" in output, output


@pytest.mark.ranks
def test_collective_does_not_wait_for_a_stream_of_the_user(run_program: RunProgram) -> None:
    program = """
gates = [closed_gate(torch.npu.Stream(priority=priority)) for priority in (0, -1) for _ in range(8)]
x = ones()
try:
    dist.all_reduce(x, async_op=True).wait(datetime.timedelta(seconds=5))
    print("SUM", x.sum().item())
except dist.DistBackendError as error:
    print("SAW", error)
for gate in gates:
    gate.open()
"""
    (output,) = said(run_program, program, STREAMS_PER_DEVICE="8")
    assert "SUM 4.0" in output, output


@pytest.mark.ranks
def test_stream_of_an_aborted_group_is_given_to_nobody(run_program: RunProgram) -> None:
    program = """
group = dist.new_group(backend="hccl")
dist.all_reduce(ones(), group=group)
torch.npu.synchronize()
holder = torch.npu.Stream(priority=-1)
with torch.npu.stream(holder):
    gate = closed_gate(holder)
    dist.all_reduce(ones(), group=group, async_op=True)
    dist.distributed_c10d._abort_process_group(group)
    gate.open()
for _ in range(9):
    again = dist.new_group(backend="hccl")
    x = ones()
    dist.all_reduce(x, group=again)
    assert x.sum().item() == 4
for _ in range(8):
    with torch.npu.stream(torch.npu.Stream()):
        assert ones().sum().item() == 4
"""
    said(run_program, program, STREAMS_PER_DEVICE="8", TORCH_HCCL_ASYNC_ERROR_HANDLING="2")


@pytest.mark.ranks
def test_pair_of_ranks_exchanges_messages_on_a_second_device(run_program: RunProgram) -> None:
    program = """
for device in (rank, rank + 2):
    x = torch.full((3,), 5.0 + device, device=f"npu:{device}")
    if rank == 0:
        dist.send(x, 1)
    else:
        dist.recv(x, 0)
    print("HAS", x[0].item())
"""
    # Rank 1 is first at the second meeting: the root info of the group, of the pair, and that of the pair again.
    late = "HcclGetRootInfo:0:3:delay=1000"
    outcomes = said(run_program, program, 2, TORCH_NPU_EMULATOR_DEVICES="4", TORCH_NPU_EMULATOR_FAULTS=late)
    for output in outcomes:
        assert "HAS 5.0" in output and "HAS 7.0" in output, output


def test_abort_does_not_wait_for_the_cpu_backend_being_made() -> None:
    from torch_npu._C._distributed_c10d import ProcessGroupHCCL

    entered, go = threading.Event(), threading.Event()
    store = dist.HashStore()

    def slow_gloo(store: dist.Store, rank: int, size: int, timeout: object) -> dist.Backend:
        entered.set()
        assert go.wait(60)
        return dist.ProcessGroupGloo(store, rank, size, timeout)

    group = ProcessGroupHCCL(store, 0, 1, cpu_backend=slow_gloo)
    errors: list[Exception] = []

    def reduce() -> None:
        try:
            group.allreduce([torch.ones(3)]).wait()
        except dist.DistBackendError as error:
            errors.append(error)

    reducer = threading.Thread(target=reduce)
    aborter = threading.Thread(target=group.abort)
    reducer.start()
    try:
        assert entered.wait(60)
        aborter.start()
        aborter.join(5)
        assert not aborter.is_alive()
    finally:
        go.set()
        reducer.join(60)
    assert "aborted by this process" in str(errors[0])
