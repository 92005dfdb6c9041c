"""What else ``torch.npu`` offers, and the names that scripts expect in ``torch.npu.utils``."""

from __future__ import annotations

from torch_npu._binding import C
from torch_npu.npu.device import (
    current_device,
    device,
    device_of,
    is_bf16_supported,
    set_device,
    synchronize,
)
from torch_npu.npu.streams import StreamContext, current_stream, default_stream, set_stream, stream

__all__ = [
    "StreamContext",
    "cpu_fallback_counts",
    "current_device",
    "current_stream",
    "default_stream",
    "device",
    "device_of",
    "get_cann_version",
    "is_bf16_supported",
    "set_device",
    "set_stream",
    "stream",
    "synchronize",
]


def cpu_fallback_counts() -> dict[str, int]:
    """How often each operator without an NPU kernel ran on the CPU instead, by its ATen name."""
    return C.cpu_fallback_counts()


def get_cann_version(module: str = "CANN") -> str:
    """CANN's version, ``""`` where it cannot tell.

    Raises:
        ValueError: ``module`` is not ``"CANN"``.
    """
    if module != "CANN":
        raise ValueError(f"get_cann_version: only the version of 'CANN' can be asked, got {module!r}")
    return C.cann_version()
