"""Which CANN a process uses, what it says about it, and how errors of a CANN come out.

Each test runs a small program of its own, because a process chooses once.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch_npu

EMULATOR = Path(torch_npu.__file__).parent / "emulator"
BANNER = re.compile(
    r"^torch_npu: (.+), using the emulator \(\d+ devices, \d+\.\d GiB each\); "
    r"results are real, speed is not an NPU's$",
    re.MULTILINE,
)


def run(program: str, **variables: object) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TORCH_NPU_", "ASCEND_", "STREAMS_PER_DEVICE"))
    }
    environment |= {name: str(value) for name, value in variables.items()}
    return subprocess.run(
        [sys.executable, "-P", "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def output(program: str, **variables: object) -> str:
    result = run(program, **variables)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


# Prints "<exception type>|<message>" of the first use of a device.
FIRST_USE = """
import torch
try:
    torch.empty(1, device="npu")
    print("no error")
except Exception as error:
    print(type(error).__name__, error, sep="|")
"""


def test_import_opens_no_library_of_cann_or_the_emulator() -> None:
    maps = output("import torch, torch_npu; print(open('/proc/self/maps').read())")
    assert "libtorch_npu.so" in maps
    assert "libnpu_emulator" not in maps and "libascendcl" not in maps


def test_emulator_is_announced_once_in_a_tree_of_processes() -> None:
    result = run(
        "import os, subprocess, sys, torch\n"
        "torch.empty(1, device='npu'), torch.empty(1, device='npu:1')\n"
        "child = [sys.executable, '-P', '-c', 'import torch; torch.empty(1, device=\"npu\"); print(\"used\")']\n"
        "subprocess.run(child, check=True)\n"
        "subprocess.run(child, check=True, env=os.environ.copy())\n"
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["used", "used"]
    assert BANNER.findall(result.stderr) == ["no CANN found"]
    assert result.stderr.count("emulator") == 1


def test_program_that_uses_no_device_is_not_told_of_the_emulator() -> None:
    result = run(
        "import torch\n"
        "torch.npu.device_count(), torch.accelerator.is_available()\n"
        "x = torch.ones(2, requires_grad=True); (x * 2).sum().backward(); torch.manual_seed(1)\n"
        "print(x.grad.tolist())"
    )
    assert (result.returncode, result.stdout.strip(), result.stderr) == (0, "[2.0, 2.0]", "")


def test_counting_devices_starts_neither_thread_nor_runtime() -> None:
    printed = output(
        "import os, torch\n"
        "before = len(os.listdir('/proc/self/task'))\n"
        "print(torch.npu.device_count(), torch.accelerator.is_available())\n"
        "print(len(os.listdir('/proc/self/task')) - before, torch.npu.is_initialized())\n",
        TORCH_NPU_EMULATOR_DEVICES=3,
    )
    assert printed.split() == ["3", "True", "0", "False"]


def test_unknown_choice_of_cann_says_what_is_accepted() -> None:
    printed = output(FIRST_USE, TORCH_NPU_CANN="vendor")
    assert "expected auto, real or emulator, got 'vendor'" in printed


def test_machine_with_a_broken_cann_never_gets_the_emulator(tmp_path: Path) -> None:
    result = run(
        "import torch\nprint(torch.npu.device_count(), torch.npu.is_available())" + FIRST_USE,
        ASCEND_HOME_PATH=tmp_path,
    )
    assert result.returncode == 0, result.stderr
    count, error = result.stdout.strip().split("\n", 1)
    assert count == "0 False"
    assert "looks like it has an NPU" in error and "set_env.sh" in error
    assert str(tmp_path / "lib64" / "libascendcl.so") in error
    assert "using the emulator" not in result.stderr


def test_real_without_a_cann_is_an_error_that_names_the_library() -> None:
    printed = output(FIRST_USE, TORCH_NPU_CANN="real")
    assert "TORCH_NPU_CANN=real, but CANN cannot be loaded" in printed
    assert "libascendcl.so" in printed


def test_emulator_reached_as_a_cann_installation_is_announced(tmp_path: Path) -> None:
    (tmp_path / "lib64").symlink_to(EMULATOR)
    result = run(
        "import torch, torch_npu._C as C\n"
        "print(C.provider(), torch.npu.get_device_name(0), (torch.ones(2, device='npu') * 3).sum().item())",
        ASCEND_HOME_PATH=tmp_path,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("emulator ") and "emulated" in result.stdout
    assert result.stdout.split()[-1] == "6.0"
    assert BANNER.findall(result.stderr) == ["the library under CANN's name is our emulator"]


def test_real_refuses_the_emulator_in_place_of_a_cann(tmp_path: Path) -> None:
    (tmp_path / "lib64").symlink_to(EMULATOR)
    printed = output(FIRST_USE, ASCEND_HOME_PATH=tmp_path, TORCH_NPU_CANN="real")
    assert "TORCH_NPU_CANN=real, but" in printed and "is the NPU emulator" in printed


def test_emulator_path_without_emulator_is_named_in_the_error(tmp_path: Path) -> None:
    printed = output(FIRST_USE, TORCH_NPU_EMULATOR_PATH=tmp_path)
    assert str(tmp_path / "libnpu_emulator.so") in printed
    assert "TORCH_NPU_EMULATOR_PATH must name the folder" in printed


def test_emulator_path_with_another_library_is_refused(
    tmp_path: Path, make_cann: Callable[[str], Path]
) -> None:
    home = make_cann("int aclrtGetDeviceCount(unsigned* count) { *count = 1; return 0; }")
    (home / "lib64" / "libascendcl.so").rename(tmp_path / "libnpu_emulator.so")
    printed = output(FIRST_USE, TORCH_NPU_EMULATOR_PATH=tmp_path, TORCH_NPU_CANN="emulator")
    assert "is not the NPU emulator" in printed


@pytest.fixture(scope="module")
def make_cann(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Builds a CANN installation whose libascendcl.so is the given C source; gives its root."""

    def make(source: str) -> Path:
        home = tmp_path_factory.mktemp("cann")
        (home / "lib64").mkdir()
        (home / "acl.c").write_text(source)
        library = home / "lib64" / "libascendcl.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, home / "acl.c"], check=True)
        return home

    return make


# A runtime of two devices that refuses to start, with the code and message that the test wants.
REFUSING_CANN = """
#include <stdlib.h>
#include <string.h>
static const char* message = "";
int aclrtGetDeviceCount(unsigned* count) { *count = 2; return 0; }
int aclInit(const char* path) { message = "E19999: the fake runtime refuses"; return atoi(getenv("FAKE_CODE")); }
const char* aclGetRecentErrMsg(void) { const char* text = message; message = ""; return text; }
int aclsysGetCANNVersion(int package, char* version) { strcpy(version, "7.7.7"); return 0; }
"""


@pytest.fixture(scope="module")
def refusing_cann(make_cann: Callable[[str], Path]) -> Path:
    return make_cann(REFUSING_CANN)


def test_error_of_the_runtime_carries_call_code_name_message_and_advice(
    refusing_cann: Path,
) -> None:
    program = FIRST_USE.replace("print(type", "print(error.error_code, type")
    printed = output(program, ASCEND_HOME_PATH=refusing_cann, FAKE_CODE=207006)
    assert printed.startswith(
        "207006|AcceleratorError|aclInit failed with ACL_ERROR_RT_NO_PERMISSION (207006)"
    )
    assert "CANN says: E19999: the fake runtime refuses" in printed
    assert "/dev/davinci" in printed


@pytest.mark.parametrize("code", [207001, 245000])
def test_memory_errors_of_the_runtime_become_torch_out_of_memory_errors(
    refusing_cann: Path, code: int
) -> None:
    printed = output(FIRST_USE, ASCEND_HOME_PATH=refusing_cann, FAKE_CODE=code)
    assert printed.startswith("OutOfMemoryError|aclInit failed with ")
    assert f"({code})" in printed


def test_code_that_no_table_has_is_still_reported_with_its_number(refusing_cann: Path) -> None:
    printed = output(FIRST_USE, ASCEND_HOME_PATH=refusing_cann, FAKE_CODE=999999)
    assert "aclInit failed with unknown error (999999)" in printed


def test_function_that_a_cann_lacks_explains_itself(refusing_cann: Path) -> None:
    # This runtime starts, but cannot set a device.
    printed = output(FIRST_USE, ASCEND_HOME_PATH=refusing_cann, FAKE_CODE=0)
    assert printed.startswith("NotImplementedError|libascendcl.so has no function aclrtSetDevice")
    assert "CANN 7.7.7 at" in printed and str(refusing_cann) in printed


@pytest.mark.parametrize(
    ("variable", "value", "program", "expected"),
    [
        ("STREAMS_PER_DEVICE", "many", "torch.Stream('npu')", "expected an integer, got 'many'"),
        ("STREAMS_PER_DEVICE", "7", "torch.Stream('npu')", "expected an integer from 8 to 32, got '7'"),
        ("TORCH_NPU_DEFAULT_DEVICE", "-1", "torch.npu.current_device()", "expected an integer of at least 0"),
        ("ACL_DEVICE_SYNC_TIMEOUT", "soon", "torch.ones(1, device='npu'); torch.npu.synchronize()",
         "expected seconds, from 0 to 1e9, got 'soon'"),
    ],
)  # fmt: skip
def test_environment_variable_with_a_bad_value_is_a_value_error(
    variable: str, value: str, program: str, expected: str
) -> None:
    printed = output(
        f"import torch\ntry:\n    {program}\nexcept ValueError as error:\n    print(error)",
        **{variable: value},
    )
    assert printed.startswith(f"environment variable {variable}: ") and expected in printed
