"""Collectives that move data: every element arrives where it belongs, for every dtype."""

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from collective_cases import COMPLEX, FLOAT8, FLOATS, INTEGERS, SHAPES, check_equal, inputs, inputs_of

from torch_npu.testing import World

Worlds = Callable[..., World]
DTYPES = (*FLOATS, *INTEGERS, *COMPLEX, *FLOAT8, torch.bool)


def broadcast_cases() -> None:
    for root in range(dist.get_world_size()):
        for dtype in DTYPES:
            for shape in SHAPES:
                mine = inputs_of(dist.get_rank(), shape, dtype).to("npu")
                dist.broadcast(mine, root)
                check_equal(mine, inputs_of(root, shape, dtype), f"{dtype} {shape} from {root}")


def all_gather_cases() -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    for dtype in DTYPES:
        for shape in SHAPES:
            everybodys = inputs(shape, dtype)
            mine = everybodys[rank].to("npu")
            outputs = [torch.empty(shape, dtype=dtype, device="npu") for _ in range(world)]
            dist.all_gather(outputs, mine)
            for output, expected in zip(outputs, everybodys, strict=True):
                check_equal(output, expected, f"list {dtype} {shape}")
            joined = torch.empty((world, *shape), dtype=dtype, device="npu")
            dist.all_gather_into_tensor(joined, mine.unsqueeze(0))
            for output, expected in zip(joined, everybodys, strict=True):
                check_equal(output, expected, f"tensor {dtype} {shape}")


def all_gather_uneven() -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    outputs = [torch.empty(2, r + 1, device="npu").t() for r in range(world)]
    outputs[0] = torch.empty(1, 2, device="npu")
    dist.all_gather(outputs, inputs_of(rank, (rank + 1, 2), torch.float32).to("npu"))
    for r, output in enumerate(outputs):
        check_equal(output, inputs_of(r, (r + 1, 2), torch.float32), f"part {r}, strided outputs")


def all_to_all_cases() -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    for dtype in DTYPES:
        # From rank s to rank d go rows (s + d) of width 3.
        parts = [[inputs_of(10 * s + d, (s + d, 3), dtype) for d in range(world)] for s in range(world)]
        expected = [parts[source][rank] for source in range(world)]
        outputs = [torch.empty_like(part, device="npu") for part in expected]
        dist.all_to_all(outputs, [part.to("npu") for part in parts[rank]])
        for output, part in zip(outputs, expected, strict=True):
            check_equal(output, part, f"list {dtype}")
        joined = torch.empty((sum(len(part) for part in expected), 3), dtype=dtype, device="npu")
        # torch.cat does not know 8-bit floats
        mine = torch.cat([part.view(torch.uint8) if dtype in FLOAT8 else part for part in parts[rank]])
        dist.all_to_all_single(
            joined, mine.view(dtype).to("npu"), [len(part) for part in expected], [len(part) for part in parts[rank]]
        )
        for output, part in zip(joined.split([len(part) for part in expected]), expected, strict=True):
            check_equal(output, part, f"single, uneven {dtype}")
    even = torch.arange(2.0 * world, device="npu") + 100 * rank
    output = torch.empty_like(even)
    dist.all_to_all_single(output, even)
    check_equal(output, torch.cat([torch.arange(2.0) + 2 * rank + 100 * s for s in range(world)]), "single, even")


def gather_and_scatter_cases() -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    for root in range(world):
        for dtype in DTYPES:
            for shape in SHAPES:
                mine = inputs_of(rank, shape, dtype).to("npu")
                outputs = [torch.empty_like(mine) for _ in range(world)] if rank == root else None
                dist.gather(mine, outputs, root)
                for output, expected in zip(outputs or [], inputs(shape, dtype), strict=rank == root):
                    check_equal(output, expected, f"gather {dtype} {shape} to {root}")
                received = torch.empty(shape, dtype=dtype, device="npu")
                parts = [tensor.to("npu") for tensor in inputs(shape, dtype)] if rank == root else None
                dist.scatter(received, parts, root)
                check_equal(received, inputs_of(rank, shape, dtype), f"scatter {dtype} {shape} from {root}")


@pytest.mark.parametrize("cases", [broadcast_cases, all_gather_cases, all_to_all_cases, gather_and_scatter_cases])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_moved_data_arrives_unchanged(worlds: Worlds, size: int, cases: Callable[[], None]) -> None:
    worlds(size).run(cases)


def test_all_gather_with_uneven_parts_arrives_unchanged(worlds: Worlds) -> None:
    worlds(3).run(all_gather_uneven)


def objects() -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    group = dist.new_group(backend="hccl")
    gathered: list[object] = [None] * world
    dist.all_gather_object(gathered, {"rank": rank}, group=group)
    assert gathered == [{"rank": r} for r in range(world)]
    sent = [rank, "text"] if rank == 0 else [None, None]
    dist.broadcast_object_list(sent, 0, group=group, device=torch.device("npu"))
    assert sent == [0, "text"]
    dist.destroy_process_group(group)


def test_object_collectives_work_on_an_hccl_group(worlds: Worlds) -> None:
    worlds(2).run(objects)


def functional_cases() -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    group = dist.group.WORLD
    mine = inputs_of(rank, (world, 3), torch.float32).to("npu")
    everybodys = inputs((world, 3), torch.float32)
    total = sum(everybodys)
    check_equal(functional.all_reduce(mine, "sum", group), total, "all_reduce")
    check_equal(functional.all_gather_tensor(mine, 0, group), torch.cat(everybodys), "all_gather_tensor")
    check_equal(functional.reduce_scatter_tensor(mine, "sum", 0, group), total[rank : rank + 1], "reduce_scatter")
    check_equal(functional.broadcast(mine, 1, group), everybodys[1], "broadcast")
    exchanged = functional.all_to_all_single(mine, None, None, group)
    check_equal(exchanged, torch.stack([tensor[rank] for tensor in everybodys]), "all_to_all_single")
    check_equal(mine, everybodys[rank], "the input stays as it was")


def test_functional_collectives_equal_arithmetic(worlds: Worlds) -> None:
    worlds(2).run(functional_cases)
