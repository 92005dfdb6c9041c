"""Making, naming, splitting and ending process groups."""

import copy
from collections.abc import Callable
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from torch_npu.testing import World

Worlds = Callable[..., World]


def backend_of(group: dist.ProcessGroup | None = None) -> object:
    return (group or dist.group.WORLD)._get_backend(torch.device("npu"))


def cpu_and_npu_tensors() -> tuple[float, float]:
    x, y = torch.ones(3), torch.ones(3, device="npu")
    dist.all_reduce(x)
    dist.all_reduce(y)
    dist.barrier()
    return x.sum().item(), y.sum().item()


@pytest.mark.parametrize("backend", ["hccl", "cpu:gloo,npu:hccl"])
def test_group_takes_cpu_and_npu_tensors(worlds: Worlds, backend: str) -> None:
    assert worlds(2, backend=backend).run(cpu_and_npu_tensors) == [(6.0, 6.0)] * 2


def subgroups() -> list[float]:
    rank = dist.get_rank()
    sums = []
    for ranks in ([0, 2], [1], [2, 1]):
        group = dist.new_group(ranks, backend="hccl")
        if rank in ranks:
            x = torch.full((4,), float(rank), device="npu")
            dist.all_reduce(x, group=group)
            sums.append(x[0].item())
            dist.destroy_process_group(group)
    return sums


def test_new_group_reduces_among_its_members(worlds: Worlds) -> None:
    assert worlds(3).run(subgroups) == [[2.0], [1.0, 3.0], [2.0, 3.0]]


def split_and_mesh() -> list[float]:
    rank = dist.get_rank()
    device = torch.device("npu", rank)
    dist.destroy_process_group()
    store = dist.TCPStore("127.0.0.1", int(__import__("os").environ["MASTER_PORT"]), is_master=False)
    store = dist.PrefixStore("bound", store)
    dist.init_process_group("hccl", store=store, rank=rank, world_size=dist_size(), device_id=device)
    assert backend_of().get_hccl_comm_name(rank) != ""
    mesh = init_device_mesh("npu", (2, 2), mesh_dim_names=("a", "b"))
    sums = []
    for name in ("a", "b"):
        x = torch.full((2,), float(rank), device="npu")
        dist.all_reduce(x, group=mesh[name].get_group())
        sums.append(x[0].item())
    half = dist.split_group(split_ranks=[[0, 1], [2, 3]])
    x = torch.full((2,), float(rank), device="npu")
    dist.all_reduce(x, group=half)
    return [*sums, x[0].item()]


def dist_size() -> int:
    return int(__import__("os").environ["WORLD_SIZE"])


def test_bound_group_splits_into_meshes_and_groups(worlds: Worlds) -> None:
    assert worlds(4, backend="hccl").run(split_and_mesh) == [
        [2.0, 1.0, 1.0], [4.0, 1.0, 1.0], [2.0, 5.0, 5.0], [4.0, 5.0, 5.0]
    ]  # fmt: skip


def options() -> None:
    from torch_npu._C._distributed_c10d import ProcessGroupHCCL

    wanted = ProcessGroupHCCL.Options(is_high_priority_stream=True)
    wanted.hccl_config = {"hccl_buffer_size": 32}
    group = dist.new_group(backend="hccl", pg_options=wanted, timeout=timedelta(seconds=77))
    seen = backend_of(group).options
    assert isinstance(backend_of(group), ProcessGroupHCCL)
    assert seen.is_high_priority_stream and seen.hccl_config == {"hccl_buffer_size": 32}
    assert seen._timeout == timedelta(seconds=77)
    assert copy.deepcopy(seen).hccl_config == seen.hccl_config
    x = torch.ones(3, device="npu")
    dist.all_reduce(x, group=group)
    assert x.sum().item() == 3 * dist.get_world_size()
    with pytest.raises(ValueError, match="hccl_buffer_size"):
        wanted.hccl_config = {"unknown": 1}
    with pytest.raises(TypeError, match=r"ProcessGroupHCCL\.Options"):
        dist.new_group(backend="hccl", pg_options=object())


def test_options_reach_the_group(worlds: Worlds) -> None:
    worlds(2).run(options)


def again_and_again() -> float:
    total = 0.0
    for _ in range(5):
        group = dist.new_group(backend="hccl")
        x = torch.ones(3, device="npu")
        dist.all_reduce(x, group=group)
        total += x.sum().item()
        dist.destroy_process_group(group)
    return total


def test_groups_can_be_made_and_destroyed_again(worlds: Worlds) -> None:
    assert worlds(2).run(again_and_again) == [30.0, 30.0]


def used_after_the_end() -> str:
    group = dist.new_group(backend="hccl")
    backend = backend_of(group)
    x = torch.ones(3, device="npu")
    dist.all_reduce(x, group=group)
    dist.destroy_process_group(group)
    try:
        backend.allreduce([x])
    except dist.DistBackendError as error:
        return str(error)
    return "no error"


def test_group_used_after_its_end_says_so(worlds: Worlds) -> None:
    for said in worlds(2).run(used_after_the_end):
        assert "new process group" in said
