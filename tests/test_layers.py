"""An include or an import never runs upwards (the layers are those of csrc/README.md)."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CSRC = ROOT / "csrc"

# Folder of csrc -> folders of csrc that its files may include.
ALLOWED = {
    "cann/abi": {"cann/abi"},
    "cann": {"cann", "cann/abi"},
    "runtime": {"runtime", "cann", "cann/abi"},
    "aten": {"aten", "runtime", "cann", "cann/abi"},
    "distributed": {"distributed", "runtime", "cann", "cann/abi"},
    "python": {"python", "distributed", "aten", "runtime", "cann", "cann/abi"},
    "emulator": {"emulator", "cann/abi"},
}
# Written at build time: the folder whose place in the layers a generated header takes.
GENERATED = {"cann/abi/aclnn_ops.h": "cann/abi", "cann/OpApiOps.h": "cann", "cann/ErrorNames.h": "cann"}


def layer(path: str) -> str:
    """The longest folder of ALLOWED that holds ``path``."""
    return max((folder for folder in ALLOWED if path.startswith(folder + "/")), key=len)


def sources() -> list[Path]:
    return sorted(p for p in CSRC.rglob("*") if p.suffix in {".h", ".cpp", ".c"})


@pytest.mark.parametrize("source", sources(), ids=lambda p: str(p.relative_to(CSRC)))
def test_includes_of_a_source_never_run_upwards(source: Path) -> None:
    own = layer(str(source.relative_to(CSRC)))
    for included in re.findall(r'^\s*#\s*include\s+"([^"]+)"', source.read_text(), re.MULTILINE):
        if included in GENERATED or (CSRC / included).is_file():
            target = GENERATED.get(included) or layer(included)
        else:
            assert (source.parent / included).is_file(), f"{included} is no file of this tree: use <> for others'"
            target = layer(str((source.parent / included).resolve().relative_to(CSRC)))
        assert target in ALLOWED[own], f"{own} must not include {included}"


@pytest.mark.parametrize("folder", ["launcher", "distributed", "recipes", "torch_npu"])
def test_python_imports_of_a_folder_never_run_upwards(folder: str) -> None:
    forbidden = {
        "launcher": ("torch_npu.distributed", "torch_npu.fsdp", "torch_npu.pipeline"),
        "distributed": ("torch_npu.launcher", "torch_npu.fsdp", "torch_npu.pipeline"),
        "recipes": (),
        # torch_npu/__init__.py puts the parts together and is exempt by name.
        "torch_npu": ("torch_npu.launcher", "torch_npu.fsdp", "torch_npu.pipeline", "torch_npu.distributed"),
    }[folder]
    files = [p for p in (ROOT / folder).rglob("*.py") if p != ROOT / "torch_npu" / "__init__.py"]
    assert files
    for file in files:
        for module in re.findall(r"^\s*(?:from|import)\s+([\w.]+)", file.read_text(), re.MULTILINE):
            assert not module.startswith(forbidden or ("\0",)), f"{file.relative_to(ROOT)} imports {module}"


def test_top_level_folders_refuse_their_bare_name() -> None:
    import subprocess
    import sys

    for folder in ("launcher", "distributed"):
        result = subprocess.run(
            [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); import {folder}"],
            capture_output=True, text=True, env={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "PATH": ""},
        )  # fmt: skip
        assert result.returncode != 0
        assert f"torch_npu.{folder}" in result.stderr
