"""Calls of aclnn operators that change their first argument; PyTorch's in-place methods are the oracle."""

from collections.abc import Callable
from typing import Any

import torch
from aclnn_case import POSITIVE, Case, Ref, X, rand

Change = Callable[[torch.Tensor], torch.Tensor]


def floats(change: Change = lambda x: x) -> list[torch.Tensor]:
    """Dense, strided with an offset, and of no dimension, each of another type."""
    return [change(X), change(rand(3, 3, 6)).bfloat16()[1:, :, ::2], change(rand()).double()]


def integers() -> list[torch.Tensor]:
    wide = torch.arange(-9, 9).reshape(2, 3, 3)
    return [wide.int(), wide.short()[:, 1:, ::2], torch.tensor([7, -7, 1])]


def call(name: str, x: torch.Tensor, method: str, arguments: list[Any], *values: Any, **options: Any) -> Case:
    """One call; the oracle takes `values` and `options`, if given, for the arguments of the operator."""
    result = getattr(x.clone(), method)(*(values if values or options else arguments), **options)
    return (f"aclnnInplace{name}", [Ref(x), *arguments], [result])


def one_tensor() -> list[Case]:
    domains: dict[str, Change] = {
        "Acos": torch.tanh, "Asin": torch.tanh, "Atanh": lambda x: x.tanh() * 0.9, "Erfinv": lambda x: x.tanh() * 0.9,
        "Acosh": lambda x: x.abs() + 1, "Log": torch.exp, "Log2": torch.exp, "Log10": torch.exp, "Log1p": torch.exp,
        "Rsqrt": torch.exp,
    }  # fmt: skip
    names = [
        "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf", "Erfc", "Erfinv", "Exp",
        "Exp2", "Expm1", "Floor", "Frac", "Log", "Log10", "Log1p", "Log2", "Rsqrt", "Sigmoid", "Sin", "Sinc", "Sinh",
        "Tan", "Tanh",
    ]  # fmt: skip
    cases = [
        call(name, x, f"{name.lower()}_", [])
        for name in names
        for x in [*floats(domains.get(name, lambda x: x)), torch.empty(0, 2)]
    ]
    cases += [call("LogicalNot", x, "logical_not_", []) for x in [*floats(torch.relu), *integers(), X > 0]]
    cases += [call("RoundDecimals", x, "round_", [1], decimals=1) for x in floats()]
    odd = torch.tensor([[torch.nan, torch.inf], [-torch.inf, 1]])
    cases += [call("NanToNum", x, "nan_to_num_", [2.0, 3.0, -4.0]) for x in (odd, odd.bfloat16().t())]
    return cases


def two_tensors() -> list[Case]:
    cases: list[Case] = []
    methods = {
        "Atan2": "atan2_", "Div": "div_", "FloorDivide": "floor_divide_", "FmodTensor": "fmod_", "Mul": "mul_",
        "RemainderTensorTensor": "remainder_",
    }  # fmt: skip
    for x in floats():
        other = (rand(*x.shape[-1:]).abs() + 0.5).to(x.dtype)
        cases += [call(name, x, method, [other]) for name, method in methods.items()]
        cases += [
            call("DivMod", x, "div_", [other, mode], other, rounding_mode=rounding)
            for mode, rounding in [(0, None), (1, "trunc"), (2, "floor")]
        ]
        cases += [
            call("Sub", x, "sub_", [other, 2.0], other, alpha=2),
            call("PowTensorTensor", x.abs(), "pow_", [other]),
            ("aclnnInplaceAddRelu", [Ref(x), other, 0.5], [(x + 0.5 * other).relu()]),
        ]
    for x in integers():
        other = torch.tensor([3, -2, 2]).to(x.dtype)[: x.shape[-1]]
        cases += [call(name, x, methods[name], [other]) for name in ("Mul", "FloorDivide", "FmodTensor")]
        cases += [
            call("RemainderTensorTensor", x, "remainder_", [other]),
            call("Sub", x, "sub_", [other, 2], other, alpha=2),
            call("BitwiseAndTensor", x, "bitwise_and_", [other]),
            call("BitwiseXorTensor", x, "bitwise_xor_", [other]),
        ]
    return cases


def tensor_and_number() -> list[Case]:
    cases: list[Case] = []
    methods = {
        "Divs": "div_", "FloorDivides": "floor_divide_", "FmodScalar": "fmod_", "Muls": "mul_",
        "RemainderTensorScalar": "remainder_",
    }  # fmt: skip
    for x in floats():
        cases += [call(name, x, method, [-0.7]) for name, method in methods.items()]
        cases += [
            call("DivMods", x, "div_", [0.3, mode], 0.3, rounding_mode=rounding)
            for mode, rounding in [(0, None), (1, "trunc"), (2, "floor")]
        ]
        cases += [
            call("Adds", x, "add_", [1.5, 2.0], 1.5, alpha=2.0),
            call("Subs", x, "sub_", [1.5, 2.0], 1.5, alpha=2.0),
            call("PowTensorScalar", x, "pow_", [3]),
            call("XLogYScalarOther", x, "xlogy_", [2.5]),
        ]
    for x in integers():
        cases += [call(name, x, methods[name], [3]) for name in methods if name != "Divs"]
        cases += [
            call("Adds", x, "add_", [2, 3], 2, alpha=3),
            call("Subs", x, "sub_", [2, 3], 2, alpha=3),
            call("PowTensorScalar", x, "pow_", [2]),
            call("BitwiseAndScalar", x, "bitwise_and_", [5]),
            call("BitwiseXorScalar", x, "bitwise_xor_", [5]),
        ]
    return cases


def comparisons() -> list[Case]:
    cases: list[Case] = []
    for x in [*floats(torch.round), *integers()]:
        other = torch.tensor([1, -1, 0, 2]).to(x.dtype)[: x.shape[-1]] if x.dim() else x.clone()
        for name in ("Eq", "Ge", "Gt", "Le", "Lt", "Ne"):
            cases.append(call(f"{name}Tensor", x, f"{name.lower()}_", [other]))
            if name != "Le":
                cases += [call(f"{name}Scalar", x, f"{name.lower()}_", [number]) for number in (1, 0.5)]
        cases += [
            call("LogicalAnd", x, "logical_and_", [other]),
            call("LogicalOr", x, "logical_or_", [other]),
            call("ClampMax", x, "clamp_max_", [1]),
            call("ClampMaxTensor", x, "clamp_max_", [other]),
            call("ClampMinTensor", x, "clamp_min_", [other]),
        ]
    return cases


def activations() -> list[Case]:
    cases: list[Case] = []
    for x in floats(lambda x: x * 3):
        for name, function, arguments in [
            ("Celu", torch.celu, [0.7]),
            ("Elu", torch.ops.aten.elu, [0.5, 2.0, 1.5]),
            ("Hardsigmoid", torch.nn.functional.hardsigmoid, []),
            ("Hardswish", torch.nn.functional.hardswish, []),
            ("LeakyRelu", torch.nn.functional.leaky_relu, [0.1]),
            ("Mish", torch.nn.functional.mish, []),
            ("Hardtanh", torch.nn.functional.hardtanh, [-0.5, 1.5]),
            ("Threshold", torch.nn.functional.threshold, [0.2, -3.0]),
        ]:
            cases.append((f"aclnnInplace{name}", [Ref(x), *arguments], [function(x, *arguments)]))
    return cases


def three_tensors() -> list[Case]:
    cases: list[Case] = []
    for x in (X, X.bfloat16(), X.double()[:, ::2]):
        one, two = (x + 1)[:1], POSITIVE.to(x.dtype)[:, : x.shape[1]]
        cases += [
            call("Addcdiv", x, "addcdiv_", [one, two, 0.5], one, two, value=0.5),
            call("Addcmul", x, "addcmul_", [one, two, 0.5], one, two, value=0.5),
            call("Lerp", x, "lerp_", [x.flip(0), two]),
        ]
    tall = rand(7, 3)
    cases += [call("FillDiagonal", x, "fill_diagonal_", [9.0, wrap]) for x in (tall, X) for wrap in (False, True)]
    cases += [
        call("Addr", rand(3, 5), "addr_", [rand(3), rand(5), 2.0, 0.5], rand(3), rand(5), beta=2, alpha=0.5),
        call("Addr", rand(3, 5), "addr_", [rand(3), rand(5), None, None], rand(3), rand(5)),
        ("aclnnInplaceIndexFillTensor", [Ref(X), 1, [0, 3], 5.0], [X.index_fill(1, torch.tensor([0, 3]), 5)]),
    ]
    return cases


CASES = [
    *one_tensor(), *two_tensors(), *tensor_and_number(), *comparisons(), *activations(), *three_tensors(),
]  # fmt: skip
