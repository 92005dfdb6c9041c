"""Which NPUs this node offers to a job, asked without taking hold of any of them."""

import os
from dataclasses import dataclass

VISIBLE_DEVICES = "ASCEND_RT_VISIBLE_DEVICES"
EMULATOR_DEVICES = "TORCH_NPU_EMULATOR_DEVICES"


class DeviceError(ValueError):
    """The node's devices do not allow what was asked; the message says what does."""


@dataclass(frozen=True)
class NodeDevices:
    """NPUs of this node as a worker will see them.

    Attributes:
        count: number of visible devices, numbered from 0.
        emulated: whether they are the emulator's.
        visible: physical ids by logical index, or ``None`` where no mask is set.
    """

    count: int
    emulated: bool
    visible: tuple[int, ...] | None = None

    def describe(self, ranks: int) -> str:
        """One line for ``ranks`` workers, local rank i on device i."""
        names = "npu:0" if ranks == 1 else f"npu:0-{ranks - 1}"
        notes = ["emulated"] if self.emulated else []
        if self.visible is not None:
            notes.append("physical " + ",".join(map(str, self.visible[:ranks])))
        return names + (f" ({', '.join(notes)})" if notes else "")


def visible_mask() -> tuple[int, ...] | None:
    """``ASCEND_RT_VISIBLE_DEVICES`` as numbers, ``None`` where it is not set.

    Raises:
        DeviceError: an entry that is no number, or one that is named twice.
    """
    text = os.environ.get(VISIBLE_DEVICES, "").strip()
    if not text:
        return None
    try:
        mask = tuple(int(entry) for entry in text.split(","))
    except ValueError:
        raise DeviceError(
            f"{VISIBLE_DEVICES}={text!r}: expected device ids separated by commas, such as 0,1,3"
        ) from None
    if len(set(mask)) != len(mask):
        raise DeviceError(f"{VISIBLE_DEVICES}={text!r} names a device twice")
    return mask


def find_devices(ranks: int | None) -> NodeDevices:
    """Devices of this node. An emulated node gets one for each of ``ranks`` unless the environment fixes the number.

    Args:
        ranks: workers that will run here, ``None`` for as many as there are devices.

    Raises:
        DeviceError: a mask that names a device that does not exist, or no device at all.
    """
    from torch_npu import _C

    mask = visible_mask()
    try:
        emulated = _is_emulated(ranks, mask)
        count = _C.device_count_or_raise()
    except (RuntimeError, ValueError) as error:
        raise DeviceError(str(error)) from None
    if count == 0:
        raise DeviceError(f"no NPU is visible ({VISIBLE_DEVICES}={os.environ.get(VISIBLE_DEVICES, '')!r})")
    return NodeDevices(count=count, emulated=emulated, visible=mask)


def _is_emulated(ranks: int | None, mask: tuple[int, ...] | None) -> bool:
    from torch_npu import _C

    # The emulator reads its number of devices when it is loaded, so it is fixed before the first question.
    # A mask refers to a node of the usual size: making just ``ranks`` devices would refuse mask 4,5,6,7.
    guessed = EMULATOR_DEVICES not in os.environ and ranks is not None
    if guessed:
        os.environ[EMULATOR_DEVICES] = str(max(8, ranks) if mask else ranks)
    emulated = _C.provider() == "emulator"
    if guessed and not emulated:
        del os.environ[EMULATOR_DEVICES]
    if emulated:
        # The loader said so on stderr and marked C's environment; workers get a copy of Python's.
        os.environ["TORCH_NPU_EMULATOR_ANNOUNCED"] = "1"
    return emulated
