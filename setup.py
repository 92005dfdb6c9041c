"""Package layout and the native build.

The folders distributed/ and launcher/ at the top of the tree are installed as subpackages of ``torch_npu``,
so that the wheel has one top-level name. ``build_ext`` drives CMake in the persistent tree ``build/cmake``: a
second build compiles only what changed.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).resolve().parent
MAPPED = ["distributed", "launcher"]


def compile_jobs() -> int:
    """At most two compilers (``MAX_JOBS`` to change), and no more than memory allows: about 1.5 GiB each."""
    if "MAX_JOBS" in os.environ:
        return max(1, int(os.environ["MAX_JOBS"]))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(2, os.cpu_count() or 1, memory // (3 << 29)))


class BuildWithCMake(build_ext):
    """Builds everything native into ``torch_npu/`` and, for a wheel, copies it to where wheels are made."""

    def run(self) -> None:
        build = ROOT / "build" / "cmake"
        build.mkdir(parents=True, exist_ok=True)
        configure = [
            "cmake", "-S", str(ROOT / "csrc"), "-B", str(build), "-G", "Ninja",
            f"-DPython_EXECUTABLE={sys.executable}",
            f"-DNPU_OUTPUT_DIR={ROOT / 'torch_npu'}",
        ]  # fmt: skip
        ccache = shutil.which("ccache")
        if ccache:
            configure += [f"-DCMAKE_CXX_COMPILER_LAUNCHER={ccache}", f"-DCMAKE_C_COMPILER_LAUNCHER={ccache}"]
        # Tools that pip installed beside this interpreter come first: no activated environment is needed.
        env = dict(os.environ, PATH=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
        env.setdefault("CCACHE_SLOPPINESS", "pch_defines,time_macros")  # without it ccache passes over users of a PCH
        subprocess.run(configure, check=True, env=env)
        subprocess.run(["cmake", "--build", str(build), "-j", str(compile_jobs())], check=True, env=env)
        if not (self.inplace or self.editable_mode):
            for library in self.get_outputs():
                Path(library).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / Path(library).relative_to(self.build_lib), library)

    def get_outputs(self) -> list[str]:
        package = ROOT / "torch_npu"
        built = [*package.glob("_C*.so"), *package.glob("lib/*.so"), *package.glob("emulator/*.so")]
        if self.inplace or self.editable_mode:
            return [str(path) for path in built]
        return [str(Path(self.build_lib) / path.relative_to(ROOT)) for path in built]


def packages() -> dict[str, str]:
    """Package name -> folder, for the tree under torch_npu/ and the mapped top-level folders."""
    found = {"torch_npu": "torch_npu"}
    found |= {f"torch_npu.{name}": f"torch_npu/{name.replace('.', '/')}" for name in find_packages("torch_npu")}
    for folder in MAPPED:
        found[f"torch_npu.{folder}"] = folder
        found |= {f"torch_npu.{folder}.{name}": f"{folder}/{name.replace('.', '/')}" for name in find_packages(folder)}
    return found


setup(
    packages=list(packages()),
    package_dir=packages(),
    package_data={"torch_npu": ["*.pyi", "py.typed"]},
    ext_modules=[Extension("torch_npu._C", sources=[])],
    cmdclass={"build_ext": BuildWithCMake},
    zip_safe=False,
)
