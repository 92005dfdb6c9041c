"""Calls of aclnn operators over lists of tensors; the oracle is the function of each tensor."""

from collections.abc import Callable

import torch
from aclnn_case import OUT, Case, rand

TYPES = (torch.float32, torch.bfloat16)


def tensors(dtype: torch.dtype, shift: float = 0.0) -> list[torch.Tensor]:
    """Of several shapes; the second is strided."""
    return [(t + shift).to(dtype) for t in (rand(3, 4), rand(4, 6)[:, ::2].t(), rand(5))]


def unary() -> list[Case]:
    cases: list[Case] = []
    for dtype in TYPES:
        for name in ("Atan", "Cos", "Cosh", "Erf", "Erfc", "Expm1", "Sigmoid", "Sign", "Sin", "Sinh", "Tan", "Tanh"):
            x = tensors(dtype)
            cases.append((f"aclnnForeach{name}", [x, [OUT] * 3], [getattr(torch, name.lower())(t) for t in x]))
        for name in ("Acos", "Asin"):
            x = [t.tanh() for t in tensors(dtype)]
            cases.append((f"aclnnForeach{name}", [x, [OUT] * 3], [getattr(torch, name.lower())(t) for t in x]))
        for name in ("Log", "Log10", "Log1p", "Log2"):
            x = [t.exp() for t in tensors(dtype)]
            cases.append((f"aclnnForeach{name}", [x, [OUT] * 3], [getattr(torch, name.lower())(t) for t in x]))
    integers = [torch.arange(-3, 3), torch.ones(2, 2, dtype=torch.int64)]
    cases += [("aclnnForeachCopy", [x, [OUT] * len(x)], x) for x in (tensors(torch.float32), integers)]
    cases.append(("aclnnForeachSign", [integers, [OUT] * 2], [t.sign() for t in integers]))
    return cases


def with_a_number() -> list[Case]:
    functions: dict[str, Callable[[torch.Tensor, float], torch.Tensor]] = {
        "Add": torch.add, "Sub": torch.sub, "Div": torch.div, "Maximum": torch.clamp_min, "Minimum": torch.clamp_max,
        "Pow": torch.pow,
    }  # fmt: skip
    cases: list[Case] = []
    numbers = [2.0, 0.5, 3.0]
    for dtype in TYPES:
        x = [t.abs() + 0.25 for t in tensors(dtype)]
        for name, function in functions.items():
            one = [function(t, 1.5) for t in x]
            each = [function(t, n) for t, n in zip(x, numbers, strict=True)]
            cases.append((f"aclnnForeach{name}Scalar", [x, torch.tensor(1.5), [OUT] * 3], one))
            cases.append((f"aclnnForeach{name}ScalarList", [x, numbers, [OUT] * 3], each))
        cases.append(("aclnnForeachPowScalarV2", [x, 1.5, [OUT] * 3], [t**1.5 for t in x]))
        cases.append(("aclnnForeachPowScalarAndTensor", [2.5, x, [OUT] * 3], [2.5**t for t in x]))
    return cases


def of_several_lists() -> list[Case]:
    cases: list[Case] = []
    for dtype in TYPES:
        x, y, z = tensors(dtype), tensors(dtype, 1.0), [t.abs() + 0.5 for t in tensors(dtype)]
        rows = list(zip(x, y, z, strict=True))
        half, numbers = torch.tensor(0.5), [2.0, 0.5, 3.0]
        cases += [
            ("aclnnForeachPowList", [z, y, [OUT] * 3], [c**b for _, b, c in rows]),
            ("aclnnForeachSubList", [x, y, half, [OUT] * 3], [torch.sub(a, b, alpha=0.5) for a, b, _ in rows]),
            ("aclnnForeachLerpList", [x, y, z, [OUT] * 3], [torch.lerp(a, b, c) for a, b, c in rows]),
            ("aclnnForeachAddcdivScalar", [x, y, z, half, [OUT] * 3],
             [torch.addcdiv(a, b, c, value=0.5) for a, b, c in rows]),
            ("aclnnForeachAddcmulScalar", [x, y, z, half, [OUT] * 3],
             [torch.addcmul(a, b, c, value=0.5) for a, b, c in rows]),
            ("aclnnForeachAddcmulScalarList", [x, y, z, torch.tensor(numbers), [OUT] * 3],
             [torch.addcmul(a, b, c, value=n) for (a, b, c), n in zip(rows, numbers, strict=True)]),
        ]  # fmt: skip
    return cases


CASES = [*unary(), *with_a_number(), *of_several_lists()]
