"""Tells PyTorch of the device type ``npu``. Each of these steps can be done once in a process."""

from __future__ import annotations

import atexit
import sys
from types import ModuleType

import torch
from torch.utils.backend_registration import generate_methods_for_privateuse1_backend, rename_privateuse1_backend

from torch_npu._binding import C, load_error

__all__ = ["register"]

_SUBMODULES = ("amp", "memory", "random", "streams", "utils")


def register(device_module: ModuleType) -> None:
    """Renames PyTorch's spare backend to ``npu`` and makes ``device_module`` its ``torch.npu``."""
    rename_privateuse1_backend("npu")
    torch._register_device_module("npu", device_module)  # type: ignore[no-untyped-call]
    for name in _SUBMODULES:
        # `import torch.npu.memory` must find the module that exists, not load a second copy of it.
        sys.modules.setdefault(f"torch.npu.{name}", sys.modules[f"{device_module.__name__}.{name}"])
    generate_methods_for_privateuse1_backend(for_storage=True)
    if load_error is None:
        atexit.register(_drain)


def _drain() -> None:
    """Lets work and autograd's threads end while the interpreter still lives (csrc/python/Exit.cpp says why)."""
    C.drain()
