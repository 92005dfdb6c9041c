"""Every operator of the tables against the CPU: shapes, strides, dtypes, empty and broadcast inputs."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from op_cases import CASES, Case, T
from torch.utils._pytree import tree_map_only

from torch_npu.npu.utils import cpu_fallback_counts

PARAMETERS = [
    pytest.param(case, dtype, layout, id=f"{case.op}-{case.id}-{str(dtype).removeprefix('torch.')}-{layout}")
    for case in CASES
    for dtype in case.dtypes
    for layout in ("dense", "strided")
]


def run(case: Case, device: str, dtype: torch.dtype, layout: str) -> Any:
    arguments = [
        a.make(device, dtype, layout == "strided", seed) if isinstance(a, T) else a
        for seed, a in enumerate(case.arguments)
    ]
    return case.run(*arguments)


@pytest.mark.parametrize(("case", "dtype", "layout"), PARAMETERS)
def test_op_on_npu_equals_cpu_and_runs_on_the_device(case: Case, dtype: torch.dtype, layout: str) -> None:
    expected = run(case, "cpu", dtype, layout)
    fallbacks = cpu_fallback_counts()
    actual = run(case, "npu", dtype, layout)
    assert cpu_fallback_counts() == fallbacks
    limits = {} if case.tolerance is None or dtype != torch.float32 else {"rtol": case.tolerance, "atol": case.tolerance}
    if dtype in (torch.float16, torch.bfloat16):
        limits = {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else {"rtol": 4e-3, "atol": 4e-3}
    torch.testing.assert_close(
        tree_map_only(torch.Tensor, torch.Tensor.cpu, actual), expected, equal_nan=True, check_stride=False, **limits)
