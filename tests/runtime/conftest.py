"""Fixtures for the tests of the device runtime."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
import torch

from torch_npu._C import _testing


@pytest.fixture(autouse=True)
def device_zero() -> Iterator[None]:
    """Every test starts and ends on device 0 and its default stream."""
    torch.npu.set_device(0)
    torch.npu.set_stream(torch.npu.default_stream(0))
    yield
    torch.npu.set_device(0)
    torch.npu.set_stream(torch.npu.default_stream(0))


@pytest.fixture
def gate() -> Iterator[_testing.Gate]:
    """Holds a stream still until opened; opened at the end whatever happens."""
    gate = _testing.Gate()
    yield gate
    gate.open()
    for device in range(torch.npu.device_count()):
        torch.npu.synchronize(device)


@pytest.fixture
def run_python() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a program in a process of its own, with ``env`` over the present environment (None: unset)."""

    def run(
        program: str, env: dict[str, str | None] | None = None, timeout: float = 300
    ) -> subprocess.CompletedProcess[str]:
        variables = dict(os.environ)
        variables.pop("TORCH_NPU_EMULATOR_ANNOUNCED", None)
        for name, value in (env or {}).items():
            if value is None:
                variables.pop(name, None)
            else:
                variables[name] = value
        return subprocess.run(
            [sys.executable, "-P", "-c", program], env=variables, capture_output=True, text=True, timeout=timeout
        )

    return run
