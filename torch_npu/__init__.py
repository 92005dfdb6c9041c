"""PyTorch on Ascend NPUs: importing this package makes the device type ``npu`` known to PyTorch.

``import torch`` does it by itself through the entry point ``torch.backends``. Nothing is opened at
import: CANN, or the emulator in its place, loads at the first use of a device.
"""

from __future__ import annotations

import sys


def _autoload() -> None:
    """Entry point ``torch.backends``, called at the end of ``import torch``; never raises.

    The registration is done by importing this package, which loading the entry point has just done, or
    which is under way: then ``import torch`` below is what led here, and the rest of this file follows.
    """


import torch  # noqa: E402


def _report(error: Exception) -> None:
    """An exception out of here would make ``import torch`` fail: PyTorch without npu is better than none."""
    global _registration_error
    _registration_error = error
    print(f"torch_npu: disabled, registering the device type npu failed: {error}", file=sys.stderr)


_registration_error: Exception | None = None

try:
    from torch_npu import _registration
    from torch_npu import npu as npu

    _registration.register(npu)

    from torch_npu.launcher import worker as _worker

    _worker.join_launch()

    if torch.distributed.is_available():
        from torch_npu.distributed import backend as _backend

        _backend.register()
except Exception as error:
    _report(error)


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("torch_npu")
    if _registration_error is not None and not name.startswith("__"):
        raise AttributeError(f"torch_npu.{name} is not there: {_registration_error}") from _registration_error
    raise AttributeError(f"module 'torch_npu' has no attribute {name!r}")
