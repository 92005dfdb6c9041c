"""What a user may give where a device is meant."""

from __future__ import annotations

from typing import TypeAlias

import torch

from torch_npu._binding import C

__all__ = ["Device"]

Device: TypeAlias = torch.device | str | int | None


def _get_device_index(device: Device, optional: bool = False) -> int:
    """Index of ``device``.

    Args:
        device: an index, ``"npu:1"``, a ``torch.device``; without index or ``None``: the current device.
        optional: whether one without index is accepted.

    Raises:
        ValueError: it is a device of another type, or has no index and must have one.
        TypeError: it is no device at all.
    """
    if isinstance(device, bool) or not isinstance(device, (torch.device, str, int, type(None))):
        raise TypeError(f"expected an npu device (index, name or torch.device), got {device!r}")
    if isinstance(device, int):
        return device
    if isinstance(device, str):
        device = torch.device(device)
    if device is not None:
        if device.type != "npu":
            raise ValueError(f"expected an npu device, got {device}")
        if device.index is not None:
            return device.index
    if not optional:
        raise ValueError(f"expected an npu device with an index, got {device}")
    return C.current_device()
