"""The generator of entry points holds kernels to the fact table."""

import ctypes
import re
import subprocess
import sys
from pathlib import Path

import pytest
from aclnn_driver import ROOT, facts, library

GENERATOR = ROOT / "csrc" / "codegen" / "emulator_ops.py"
FACTS = ROOT / "csrc" / "cann" / "facts"


def generate(folder: Path, kernels: str) -> subprocess.CompletedProcess[str]:
    (folder / "kernels").mkdir()
    (folder / "kernels" / "some.cpp").write_text(kernels)
    return subprocess.run(
        [sys.executable, str(GENERATOR), "--facts", str(FACTS), "--kernels", str(folder / "kernels"),
         "--out", str(folder / "out")],
        capture_output=True, text=True,
    )  # fmt: skip


def test_kernel_that_agrees_gets_both_entry_points(tmp_path: Path) -> None:
    result = generate(tmp_path, "Work Mul(Tensor self, Tensor other, Tensor out) {\n")
    assert result.returncode == 0, result.stderr
    text = "".join(p.read_text() for p in (tmp_path / "out").iterdir())
    assert "aclnnStatus aclnnMulGetWorkspaceSize(const aclTensor* self, const aclTensor* other," in text
    assert re.search(r"aclnnStatus aclnnMul\(\s*void\*, uint64_t, aclOpExecutor\* executor", text)


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        ("Work Mul(Tensor other, Tensor self, Tensor out) {", "'other' stands where 'self' belongs"),
        ("Work Mul(Tensor self, Tensor other) {", "2 parameters, expected 3"),
        ("Work Mul(Tensor self, Scalar other, Tensor out) {", "'other' is Scalar"),
        ("Work Cumsum(Tensor self, int dim, ScalarType dtype, Tensor out) {", "'dim' is int, expected int64_t"),
        ("Work Nosuch(Tensor self) {", "no operator aclnnNosuch"),
        ("Work Mul(Tensor self, Tensor other, Tensor out) {}\nWork Mul(Tensor self) {", "is also in some.cpp:1"),
        ("Work Mul(const Tensor& self, Tensor other, Tensor out) {", "cannot read the parameter"),
    ],
)
def test_kernel_that_contradicts_the_facts_stops_the_build(tmp_path: Path, kernel: str, reason: str) -> None:
    result = generate(tmp_path, kernel + "\n")
    assert result.returncode != 0
    assert reason in result.stderr
    assert "some.cpp:" in result.stderr


def test_second_run_touches_nothing(tmp_path: Path) -> None:
    generate(tmp_path, "Work Mul(Tensor self, Tensor other, Tensor out) {\n")
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "out").iterdir()}
    assert len(before) == 4
    subprocess.run(
        [sys.executable, str(GENERATOR), "--facts", str(FACTS), "--kernels", str(tmp_path / "kernels"),
         "--out", str(tmp_path / "out")], check=True,
    )  # fmt: skip
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "out").iterdir()} == before


def exported(name: str) -> bool:
    try:
        ctypes.CDLL.__getattr__(library("libnpu_emulator_ops.so"), name)
    except AttributeError:
        return False
    return True


def called_by_backend() -> list[str]:
    text = "".join(
        p.read_text() for p in sorted((ROOT / "csrc" / "aten").rglob("*")) if p.suffix in {".yaml", ".cpp", ".h"}
    )
    return sorted(set(re.findall(r"\baclnn[A-Z]\w+", text)) & set(facts()))


def test_every_operator_that_the_backend_calls_is_implemented() -> None:
    names = called_by_backend()
    assert names
    missing = [n for n in names if not (exported(n) and exported(n + "GetWorkspaceSize"))]
    assert not missing


def test_library_exports_nothing_but_operators() -> None:
    folder = library("libnpu_emulator_ops.so")._name
    listing = subprocess.run(["nm", "-D", "--defined-only", folder], capture_output=True, text=True, check=True)
    names = [line.split()[-1] for line in listing.stdout.splitlines()]
    assert len(names) > 700
    assert [n for n in names if not n.startswith("aclnn")] == []
