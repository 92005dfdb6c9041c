"""Devices: which there are, which is current, what they are."""

from __future__ import annotations

import re
from types import TracebackType
from typing import TYPE_CHECKING

import torch

from torch_npu._binding import C, load_error
from torch_npu.npu._utils import Device, _get_device_index

if TYPE_CHECKING:
    from torch_npu._C import NPUDeviceProperties

__all__ = [
    "can_device_access_peer",
    "current_device",
    "device",
    "device_count",
    "device_of",
    "get_device_name",
    "get_device_properties",
    "init",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "set_device",
    "synchronize",
]

# SoC names with bfloat16 units: Atlas A2, A3 and later. Ascend910A, Ascend910B (no digit) and 310P have none.
_BF16_SOC = re.compile(r"Ascend(910B\d|910_93|95)")


def is_available() -> bool:
    """Whether there is an NPU, real or emulated, that this process can use. Never raises, starts nothing."""
    return device_count() > 0


def device_count() -> int:
    """Number of devices; 0 if there is none or the installation is broken. Starts nothing."""
    return C.device_count() if load_error is None else 0


def init() -> None:
    """Loads CANN and starts its runtime. Done by itself at the first use of a device.

    Raises:
        RuntimeError: CANN cannot be loaded, there is no device, or this is a forked child of a process that
            has used a device (start it with the method "spawn").
    """
    C.initialize()


def _lazy_init() -> None:
    """PyTorch calls this at the first use of the device type."""
    C.initialize()


def is_initialized() -> bool:
    """Whether the runtime runs in this process."""
    return load_error is None and C.is_initialized() and not C.is_in_bad_fork()


def _is_in_bad_fork() -> bool:
    return load_error is None and C.is_in_bad_fork()


def current_device() -> int:
    """Index of the calling thread's current device."""
    return C.current_device()


def set_device(device: Device) -> None:
    """Makes ``device`` current for the calling thread; nothing for a negative index.

    Raises:
        ValueError: there is no such device.
    """
    index = _get_device_index(device, optional=True)
    if index >= 0:
        C.set_device(index)


def synchronize(device: Device = None) -> None:
    """Waits until all work enqueued on ``device`` (default: the current one) is done."""
    C.synchronize(_get_device_index(device, optional=True))


class device:
    """Context in which ``device`` is the thread's current one; ``None`` or a negative index change nothing."""

    def __init__(self, device: Device) -> None:
        self.idx = -1 if device is None else _get_device_index(device, optional=True)
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            self.prev_idx = C.exchange_device(self.idx)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.idx >= 0:
            self.idx = C.exchange_device(self.prev_idx)


class device_of(device):
    """Context in which the device of a tensor or storage is current; one that is not on an NPU changes nothing."""

    def __init__(self, obj: torch.Tensor | torch.UntypedStorage | torch.TypedStorage) -> None:
        super().__init__(obj.get_device() if obj.device.type == "npu" else None)


def get_device_properties(device_name: Device = None) -> NPUDeviceProperties:
    """Name, memory (bytes) and numbers of cores of a device (default: the current one)."""
    return C.device_properties(_get_device_index(device_name, optional=True))


def get_device_name(device_name: Device = None) -> str:
    """Name of a device (default: the current one); contains ``emulated`` where the emulator runs."""
    return get_device_properties(device_name).name


def can_device_access_peer(device_id: Device, peer_device_id: Device) -> bool:
    """Whether one device can read and write another's memory.

    Raises:
        ValueError: there is no such device.
    """
    return C.can_access_peer(_get_device_index(device_id), _get_device_index(peer_device_id))


def is_bf16_supported(including_emulation: bool = False) -> bool:
    """Whether the current device computes in bfloat16. The emulated device does.

    Args:
        including_emulation: no effect, there is no software emulation of bfloat16 for NPUs.
    """
    return _BF16_SOC.match(get_device_name()) is not None
