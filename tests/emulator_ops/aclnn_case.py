"""How a call of an aclnn operator and its result are written down, and inputs that calls share.

A case is (operator, arguments, results). An argument that is a tensor (or a list of tensors) goes to
the device; OUT stands for an output like the next result; Ref(tensor) is changed in place and compared
with the next result.
"""

from dataclasses import dataclass
from typing import Any

import torch


class Out:
    pass


OUT = Out()


@dataclass
class Ref:
    tensor: torch.Tensor


Case = tuple[str, list[Any], list[torch.Tensor]]


def rand(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape) + len(shape))).to(dtype)


def tokens(high: int, *shape: int) -> torch.Tensor:
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(high))


X, Y, POSITIVE = rand(3, 4), rand(4), rand(3, 4).abs() + 0.5
I32, I64 = torch.arange(-6, 6, dtype=torch.int32).reshape(3, 4), torch.tensor([[5, -7], [2, 3]])
BOOL = X > 0
EMPTY = torch.empty(0, 4)
