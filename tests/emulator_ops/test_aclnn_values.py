"""aclnn operators against PyTorch on the CPU."""

import pathlib
import re
from typing import Any

import aclnn_cases
import aclnn_foreach_cases
import aclnn_inplace_cases
import aclnn_more_cases
import pytest
import torch
from aclnn_case import Case, Out, Ref
from aclnn_driver import ROOT, DeviceTensor, Driver

CASES = [*aclnn_cases.CASES, *aclnn_inplace_cases.CASES, *aclnn_foreach_cases.CASES, *aclnn_more_cases.CASES]


def storage_like(like: torch.Tensor, permuted: bool) -> torch.Tensor:
    """Memory of another content for a result; permuted: with its dimensions in the opposite order."""
    filled = torch.full(like.shape[::-1] if permuted else like.shape, 77, dtype=like.dtype)
    return filled.permute(list(range(like.dim()))[::-1]) if permuted else filled


def layout(tensor: torch.Tensor, permuted: bool) -> torch.Tensor:
    """The tensor; permuted: the same values with the dimensions in memory in the opposite order."""
    order = list(range(tensor.dim()))[::-1]
    return tensor.permute(order).contiguous().permute(order) if permuted else tensor


def run_case(npu: Driver, case: Case, permuted: bool) -> list[torch.Tensor]:
    operator, arguments, results = case
    expected = iter(results)
    outputs: list[DeviceTensor] = []

    def device(argument: Any) -> Any:
        if isinstance(argument, list):
            return [device(a) for a in argument]
        if isinstance(argument, torch.Tensor):
            return npu.tensor(layout(argument, permuted))
        if isinstance(argument, Out | Ref):
            like = next(expected)
            memory = layout(argument.tensor, permuted) if isinstance(argument, Ref) else storage_like(like, permuted)
            outputs.append(npu.tensor(memory))
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


# Kernels without a case, and the file of this folder that calls them.
TESTED_ELSEWHERE = {
    **dict.fromkeys([
        "DropoutDoMask", "DropoutGenMask", "DropoutGenMaskV2", "DropoutGenMaskV2Tensor", "DropoutV3",
        "DropoutV3Grad", "InplaceNormalTensor", "InplaceRandomTensor", "InplaceRandomWithoutFromTo",
        "InplaceRandomWithoutFromToTensor", "InplaceUniformTensor", "NormalFloatFloat",
        "NormalFloatTensor", "NormalTensorFloat", "NormalTensorTensor", "SimThreadExponential",
    ], "test_aclnn_random.py"),
    **dict.fromkeys(["NonzeroV2", "Unique", "UniqueConsecutive", "UniqueDim"], "test_aclnn_calls.py"),
}  # fmt: skip


def test_every_kernel_has_a_test() -> None:
    """A case here, a call from csrc/aten (tests/aten compares those with the CPU), or a file that says so."""
    kernels = {
        name
        for file in (ROOT / "csrc" / "emulator" / "ops").glob("*.cpp")
        for name in re.findall(r"^Work ([A-Z]\w*)\(", file.read_text(), re.MULTILINE)
    }
    aten = ROOT / "csrc" / "aten"
    called = {
        name
        for file in [*aten.glob("*.cpp"), *aten.glob("ops/*.yaml")]
        for name in re.findall(r"\baclnn([A-Z]\w*)", file.read_text())
    }
    assert len(kernels) > 400 and len(called) > 200, "the sources are not where this test looks"
    uncovered = kernels - called - {case[0].removeprefix("aclnn") for case in CASES}
    assert uncovered == set(TESTED_ELSEWHERE)
    for name, file in TESTED_ELSEWHERE.items():
        assert f'"aclnn{name}"' in pathlib.Path(__file__).with_name(file).read_text(), f"{file} does not call {name}"
