"""The generator: what it refuses, and that every row has a test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from op_cases import CASES

SOURCE = Path(__file__).parents[2] / "csrc"


def emit(tables: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, SOURCE / "codegen" / "emit.py", "--tables", tables, "--facts", SOURCE / "cann" / "facts"]
    return subprocess.run([*map(str, command), *more], capture_output=True, text=True)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{op: no_such_op, call: 'aclnnAdd(self)'}", "has no operator aten::no_such_op"),
        ("{op: add.Tensor, call: 'aclnnNoSuch(self, other, alpha, out)'}", "no aclnn function aclnnNoSuch"),
        ("{op: add.Tensor, call: 'aclnnAdd(self, other, out)'}", "aclnnAdd takes 4 arguments"),
        ("{op: add.Tensor, call: 'aclnnAdd(self, alpha, other, out)'}", "wants aclTensor* other, 'alpha' (Scalar)"),
        ("{op: add.Tensor, call: 'aclnnAdd(self, other, true, out)'}", "wants aclScalar* alpha, 'true'"),
        ("{op: add.Tensor, call: 'aclnnAdd(self, another, alpha, out)'}", "'another' is neither"),
        ("{op: add.Tensor, calls: [{if: a, call: 'aclnnAdd(self, other, alpha, out)'}]}", "what if it does not hold"),
        ("{op: addmm, call: 'aclnnAddmm(self, mat1, mat2, beta, alpha, out, 0)'}", "give an `inplace` call"),
        ("{op: dot, only: [dot], call: 'aclnnDot(self, tensor, out)'}", "name one by `meta`"),
        ("{op: add.Tensor, cal: 'aclnnAdd(self, other, alpha, out)'}", "unknown keys"),
        ("{op: sum.dim_IntList, call: 'aclnnReduceSum(self, dim, keepdim, dtype, out)'}", "'dtype' (ScalarType?)"),
    ],
)
def test_generator_wrong_row_says_what_is_wrong(tmp_path: Path, row: str, message: str) -> None:
    (tmp_path / "t.yaml").write_text(f"- {row}\n")
    result = emit(tmp_path, "--list")
    assert result.returncode == 1
    assert message in result.stderr
    assert "t.yaml: " in result.stderr


def test_generator_same_operator_twice_is_refused(tmp_path: Path) -> None:
    row = "- {op: neg, call: 'aclnnNeg(self, out)'}\n"
    (tmp_path / "a.yaml").write_text(row)
    (tmp_path / "b.yaml").write_text(row)
    result = emit(tmp_path, "--list")
    assert result.returncode == 1
    assert "aten::neg_ is registered by a.yaml: neg already" in result.stderr


def test_generator_good_row_covers_functional_out_and_inplace(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text("- {op: neg, call: 'aclnnNeg(self, out)'}\n")
    result = emit(tmp_path, "--list", "--out", str(tmp_path / "out"))
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.split()) == ["neg", "neg.out", "neg_"]
    assert len(list((tmp_path / "out").glob("op_*.cpp"))) == 4


def test_tables_every_operator_has_a_case_against_the_cpu() -> None:
    result = emit(SOURCE / "aten" / "ops", "--list")
    assert result.returncode == 0, result.stderr
    registered = {name.split(".")[0].rstrip("_") for name in result.stdout.split()}
    assert registered - {case.op for case in CASES} == set()
