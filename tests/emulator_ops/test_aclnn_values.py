"""aclnn operators against PyTorch on the CPU."""

import itertools
from typing import Any

import pytest
import torch
from aclnn_cases import CASES, Case, Out, Ref
from aclnn_driver import DeviceTensor, Driver


def storage_like(like: torch.Tensor, permuted: bool) -> torch.Tensor:
    """Memory of another content for a result; permuted: with its dimensions in the opposite order."""
    filled = torch.full(like.shape[::-1] if permuted else like.shape, 77, dtype=like.dtype)
    return filled.permute(list(range(like.dim()))[::-1]) if permuted else filled


def run_case(npu: Driver, case: Case, permuted: bool) -> list[torch.Tensor]:
    operator, arguments, results = case
    expected = iter(results)
    outputs: list[DeviceTensor] = []

    def device(argument: Any) -> Any:
        if isinstance(argument, list):
            return [device(a) for a in argument]
        if isinstance(argument, torch.Tensor):
            return npu.tensor(argument)
        if isinstance(argument, Out | Ref):
            like = next(expected)
            outputs.append(npu.tensor(argument.tensor if isinstance(argument, Ref) else storage_like(like, permuted)))
            return outputs[-1]
        return argument

    npu.run(operator, *map(device, arguments))
    assert next(expected, None) is None, "the case has a result without an output"
    return [o.cpu() for o in outputs]


@pytest.mark.parametrize("permuted", [False, True], ids=["dense", "permuted"])
@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{c[0][5:]}" for i, c in enumerate(CASES)])
def test_operator_matches_cpu(npu: Driver, case: Case, permuted: bool) -> None:
    found = run_case(npu, case, permuted)
    for one, wanted in zip(found, case[2], strict=True):
        torch.testing.assert_close(one, wanted, equal_nan=True)


@pytest.mark.parametrize("target", [torch.float16, torch.bfloat16, torch.float64, torch.int32])
@pytest.mark.parametrize("operator", ["aclnnAdd", "aclnnMm", "aclnnReduceSum", "aclnnSoftmax", "aclnnExp"])
def test_output_of_another_type_gets_the_converted_result(npu: Driver, operator: str, target: torch.dtype) -> None:
    x = torch.arange(9.0).reshape(3, 3) / 3
    arguments, result = {
        "aclnnAdd": ([x, x, 1.0], x + x),
        "aclnnMm": ([x, x], x @ x),
        "aclnnReduceSum": ([x, [0], False, torch.float32], x.sum(0)),
        "aclnnSoftmax": ([x, 0], x.softmax(0)),
        "aclnnExp": ([x], x.exp()),
    }[operator]
    if operator == "aclnnSoftmax" and not target.is_floating_point:
        pytest.skip("softmax has no integers")
    out = npu.empty(*result.shape, dtype=target)
    tail = [1] if operator == "aclnnMm" else []
    npu.run(operator, *[npu.tensor(a) if isinstance(a, torch.Tensor) else a for a in arguments], out, *tail)
    torch.testing.assert_close(out.cpu(), result.to(target), check_dtype=True)


@pytest.mark.parametrize("permuted", [False, True])
def test_output_that_is_an_input_holds_the_result(npu: Driver, permuted: bool) -> None:
    x, other = torch.randn(4, 4), torch.randn(4, 4)
    start = x.t() if permuted else x
    target = npu.tensor(start)
    npu.run("aclnnMul", target, npu.tensor(other), target)
    torch.testing.assert_close(target.cpu(), start * other)


def test_cases_cover_the_families_of_kernels() -> None:
    """Each family of kernels has calls here, so that a file that no test reaches does not go unseen."""
    families = {"Add", "Silu", "ReduceSum", "Mm", "RmsNorm", "NLLLoss", "Index", "ForeachAddList", "ApplyAdamWV2"}
    called = set(itertools.chain.from_iterable([c[0].removeprefix("aclnn")] for c in CASES))
    assert families <= called
