"""What the tests of collectives have in common: inputs that every rank can compute for every rank."""

import functools
from collections.abc import Callable

import torch
import torch.distributed as dist

FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
INTEGERS = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
COMPLEX = (torch.complex64, torch.complex128)
FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2)
# empty, one element without axes, odd, more than one block of the emulator's engine, images
SHAPES = ((0,), (), (7,), (33, 1000), (2, 3, 5, 7))


def inputs_of(rank: int, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Rank ``rank``'s CPU tensor: small integers, so that sums and products of few ranks are exact."""
    generator = torch.Generator().manual_seed(1000 + rank)
    values = torch.randint(0, 4, shape, generator=generator)
    if dtype is torch.bool:
        return values > 1
    if dtype.is_complex:
        return torch.complex(values.double(), -values.double() - 1).to(dtype)
    return values.to(dtype)


def inputs(shape: tuple[int, ...], dtype: torch.dtype, world: int | None = None) -> list[torch.Tensor]:
    return [inputs_of(rank, shape, dtype) for rank in range(world or dist.get_world_size())]


def reduced(tensors: list[torch.Tensor], op: dist.ReduceOp.RedOpType) -> torch.Tensor:
    """The reduction in plain arithmetic, in a type wide enough, rounded once to the input's."""
    dtype = tensors[0].dtype
    if dtype is torch.bool:
        stacked = torch.stack(tensors)
        return stacked.any(0) if op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX) else stacked.all(0)
    wide = torch.complex128 if dtype.is_complex else torch.float64 if dtype.is_floating_point else torch.int64
    values = [tensor.to(wide) for tensor in tensors]
    if op == dist.ReduceOp.AVG:
        total = functools.reduce(torch.add, values)
        if dtype.is_floating_point or dtype.is_complex:
            return (total / len(values)).to(dtype)
        return torch.div(total, len(values), rounding_mode="trunc").to(dtype)
    combine: Callable = {
        dist.ReduceOp.SUM: torch.add,
        dist.ReduceOp.PRODUCT: torch.mul,
        dist.ReduceOp.MIN: torch.minimum,
        dist.ReduceOp.MAX: torch.maximum,
    }[op]
    return functools.reduce(combine, values).to(dtype)


def check_equal(got: torch.Tensor, expected: torch.Tensor, what: str) -> None:
    """Bitwise, except that floating point may differ by a rounding of the average."""
    got = got.cpu()
    if expected.dtype in FLOAT8:
        got, expected = got.view(torch.uint8), expected.view(torch.uint8)
    torch.testing.assert_close(got, expected, msg=lambda text: f"{what}: {text}")
