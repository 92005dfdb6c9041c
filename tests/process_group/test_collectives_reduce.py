"""all_reduce, reduce and reduce_scatter in all their forms, against plain arithmetic."""

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from collective_cases import COMPLEX, FLOAT8, FLOATS, INTEGERS, SHAPES, check_equal, inputs, inputs_of, reduced

from torch_npu.testing import World

Worlds = Callable[..., World]
OPS = ("SUM", "PRODUCT", "MIN", "MAX", "AVG")


def op_named(name: str) -> dist.ReduceOp.RedOpType:
    return getattr(dist.ReduceOp, name)


def dtypes_for(name: str) -> tuple[torch.dtype, ...]:
    real = FLOATS + INTEGERS
    if name == "SUM":
        return (*real, *COMPLEX, torch.bool)
    if name == "AVG":
        return (*real, *COMPLEX)
    return (*real, torch.bool)


def all_reduce_cases(name: str) -> None:
    for dtype in dtypes_for(name):
        for shape in SHAPES:
            mine = inputs_of(dist.get_rank(), shape, dtype).to("npu")
            dist.all_reduce(mine, op_named(name))
            check_equal(mine, reduced(inputs(shape, dtype), op_named(name)), f"{name} {dtype} {shape}")


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_all_reduce_equals_arithmetic(worlds: Worlds, size: int, name: str) -> None:
    worlds(size).run(all_reduce_cases, name)


def all_reduce_against_gloo() -> None:
    generator = torch.Generator().manual_seed(dist.get_rank())
    for count in (1, 1023, 1 << 18):
        on_cpu = torch.randn(count, generator=generator)
        on_npu = on_cpu.to("npu")
        dist.all_reduce(on_cpu)
        dist.all_reduce(on_npu)
        torch.testing.assert_close(on_npu.cpu(), on_cpu)


def test_all_reduce_of_random_numbers_equals_gloo(worlds: Worlds) -> None:
    worlds(3).run(all_reduce_against_gloo)


def all_reduce_premultiplied() -> None:
    for factor in (0.25, torch.tensor([0.25])):
        mine = inputs_of(dist.get_rank(), (7,), torch.float32).to("npu")
        dist.all_reduce(mine, dist._make_nccl_premul_sum(factor))
        check_equal(mine, reduced(inputs((7,), torch.float32), dist.ReduceOp.SUM) * 0.25, f"PREMUL_SUM {factor}")


def test_all_reduce_premul_sum_multiplies_first(worlds: Worlds) -> None:
    worlds(2).run(all_reduce_premultiplied)


def all_reduce_channels_last() -> None:
    plain = inputs_of(dist.get_rank(), (2, 3, 4, 5), torch.float32)
    mine = plain.to(memory_format=torch.channels_last).to("npu")
    assert mine.is_contiguous(memory_format=torch.channels_last)
    dist.all_reduce(mine)
    check_equal(mine, reduced(inputs((2, 3, 4, 5), torch.float32), dist.ReduceOp.SUM), "channels last")


def test_all_reduce_of_channels_last_keeps_the_layout(worlds: Worlds) -> None:
    worlds(2).run(all_reduce_channels_last)


def message_of(error: type[Exception], function: Callable[[], object]) -> str:
    try:
        function()
    except error as caught:
        return str(caught)
    raise AssertionError(f"expected {error.__name__}")


def refusals() -> dict[str, str]:
    x = torch.ones(4, 4, device="npu")
    return {
        "strided": message_of(ValueError, lambda: dist.all_reduce(x.t()[1:])),
        "bitwise": message_of(ValueError, lambda: dist.all_reduce(x.int(), dist.ReduceOp.BAND)),
        # torch's own function refuses this too, before it gets here
        "complex": message_of(
            TypeError, lambda: dist.group.WORLD.allreduce([x.to(torch.complex64)], dist.ReduceOp.MAX)
        ),
        "average": message_of(TypeError, lambda: dist.all_reduce(x.bool(), dist.ReduceOp.AVG)),
        "float8": message_of(TypeError, lambda: dist.all_reduce(torch.ones(4).to(FLOAT8[0]).to("npu"))),
        "size": message_of(ValueError, lambda: dist.reduce_scatter_tensor(x[0], x)),
        "dtype": message_of(TypeError, lambda: dist.all_gather_into_tensor(torch.ones(8, device="npu").int(), x[0])),
    }


def test_collectives_with_wrong_tensors_say_what_is_expected(worlds: Worlds) -> None:
    for said in worlds(2).run(refusals):
        assert "contiguous" in said["strided"] and "[3, 4]" in said["strided"]
        assert "BAND" in said["bitwise"] and "PREMUL_SUM" in said["bitwise"]
        assert "MAX" in said["complex"] and "complex" in said["complex"]
        assert "bool" in said["average"]
        assert "float8" in said["float8"]
        assert "16 elements, expected 8" in said["size"]
        assert "int32 and float32" in said["dtype"]


def reduce_cases(name: str) -> None:
    for root in range(dist.get_world_size()):
        for dtype in (torch.float32, torch.bfloat16, torch.int64):
            mine = inputs_of(dist.get_rank(), (33,), dtype).to("npu")
            dist.reduce(mine, root, op_named(name))
            if dist.get_rank() == root:
                check_equal(mine, reduced(inputs((33,), dtype), op_named(name)), f"{name} {dtype} to {root}")


@pytest.mark.parametrize("name", OPS)
def test_reduce_gives_the_root_the_result(worlds: Worlds, name: str) -> None:
    worlds(2).run(reduce_cases, name)


def reduce_scatter_cases(name: str) -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    for dtype in dtypes_for(name):
        for shape in ((0,), (1,), (7,), (3, 5)):
            parts = [[inputs_of(10 * source + r, shape, dtype) for r in range(world)] for source in range(world)]
            expected = reduced([parts[source][rank] for source in range(world)], op_named(name))
            output = torch.empty(shape, dtype=dtype, device="npu")
            dist.reduce_scatter(output, [part.to("npu") for part in parts[rank]], op_named(name))
            check_equal(output, expected, f"list {name} {dtype} {shape}")
            output = torch.empty(shape, dtype=dtype, device="npu")
            joined = torch.cat(parts[rank]).to("npu")
            dist.reduce_scatter_tensor(output, joined, op_named(name))
            check_equal(output, expected, f"tensor {name} {dtype} {shape}")
            check_equal(joined, torch.cat(parts[rank]), "the input stays as it was")


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("size", [1, 3])
def test_reduce_scatter_equals_arithmetic(worlds: Worlds, size: int, name: str) -> None:
    worlds(size).run(reduce_scatter_cases, name)


def reduce_scatter_uneven() -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    parts = [[inputs_of(10 * source + r, (r + 1, 4), torch.float32) for r in range(world)] for source in range(world)]
    output = torch.empty(rank + 1, 4, device="npu")
    dist.reduce_scatter(output, [part.to("npu") for part in parts[rank]], dist.ReduceOp.AVG)
    check_equal(output, reduced([parts[s][rank] for s in range(world)], dist.ReduceOp.AVG), "uneven")


def test_reduce_scatter_with_uneven_parts_equals_arithmetic(worlds: Worlds) -> None:
    worlds(3).run(reduce_scatter_uneven)


def coalesced() -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    shapes = ((5,), (1,), (16, 16))
    tensors = [inputs_of(rank, shape, torch.float32).to("npu") for shape in shapes]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    for tensor, shape in zip(tensors, shapes, strict=True):
        check_equal(tensor, reduced(inputs(shape, torch.float32), dist.ReduceOp.SUM), f"all_reduce {shape}")

    outputs = [torch.empty(world * shape[0], *shape[1:], device="npu") for shape in shapes]
    with dist._coalescing_manager(async_ops=True) as manager:
        for output, shape in zip(outputs, shapes, strict=True):
            dist.all_gather_into_tensor(output, inputs_of(rank, shape, torch.float32).to("npu"))
    manager.wait()
    for output, shape in zip(outputs, shapes, strict=True):
        check_equal(output, torch.cat(inputs(shape, torch.float32)), f"all_gather_into_tensor {shape}")

    # Operations without a coalesced form are launched one by one and waited for together.
    received = [torch.full((3,), 10.0 * rank + i, device="npu") for i in range(2)]
    with dist._coalescing_manager(device=torch.device("npu"), async_ops=True) as manager:
        for root, tensor in enumerate(received):
            dist.broadcast(tensor, root)
    manager.wait()
    check_equal(torch.stack(received), torch.tensor([[0.0] * 3, [11.0] * 3]), "broadcasts in a block")


def test_coalescing_manager_runs_all_operations(worlds: Worlds) -> None:
    worlds(2).run(coalesced)
