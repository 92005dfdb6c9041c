"""The wheel: one top-level name, all parts in it, and it works where it is installed."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.xdist_group("wheel")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "--wheel-dir", folder, ROOT],
        check=True, capture_output=True, timeout=600,
    )  # fmt: skip
    (made,) = folder.glob("*.whl")
    return made


def test_wheel_has_one_top_level_name_and_every_part(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.split("/")[0] for name in names}
    assert top == {"torch_npu", next(name for name in top if name.endswith(".dist-info"))}
    for part in (
        "__init__.py", "_C.pyi", "py.typed", "lib/libtorch_npu.so", "emulator/libnpu_emulator.so",
        "emulator/libnpu_emulator_ops.so", "emulator/libascendcl.so", "emulator/libhccl.so", "emulator/libopapi.so",
        "npu/__init__.py", "distributed/backend.py", "launcher/npurun.py", "testing/world.py",
    ):  # fmt: skip
        assert f"torch_npu/{part}" in names
    assert not [name for name in names if "test_" in name or name.endswith(".cpp")]


def test_wheel_declares_its_commands_and_the_torch_it_needs(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    (entry_points,) = (name for name in archive.namelist() if name.endswith("entry_points.txt"))
    text = archive.read(entry_points).decode()
    assert "npurun = torch_npu.launcher.npurun:main" in text
    assert "[torch.backends]\nnpu = torch_npu:_autoload" in text
    (metadata,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
    assert "Requires-Dist: torch<2.14,>=2.13" in archive.read(metadata).decode()


def test_wheel_installed_elsewhere_works_without_the_source_tree(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", site, wheel],
        check=True, capture_output=True, timeout=300,
    )  # fmt: skip
    program = (
        "import torch, torch_npu, torch_npu.launcher.npurun as launcher\n"
        "print(torch_npu.__file__, launcher.__file__, torch_npu._binding.C.__file__, sep='\\n')\n"
        "assert torch.ones(3, device='npu').sum().item() == 3"
    )
    result = subprocess.run(
        [sys.executable, "-P", "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120,
        env=os.environ | {"PYTHONPATH": str(site)},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert all(line.startswith(str(site)) for line in result.stdout.splitlines()), result.stdout
