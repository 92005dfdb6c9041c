"""Random number generators, one for each device."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from torch_npu._binding import C, load_error
from torch_npu.npu._utils import Device, _get_device_index
from torch_npu.npu.device import device_count

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


def _get_generator(device: Device) -> torch.Generator:
    return C.default_generator(_get_device_index(device, optional=True))


def get_rng_state(device: Device = "npu") -> torch.Tensor:
    """State of a device's generator: 16 bytes (uint8, on the CPU), the seed, then the offset."""
    return _get_generator(device).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of all devices' generators."""
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state(new_state: torch.Tensor, device: Device = "npu") -> None:
    """Sets the state of a device's generator to one that :func:`get_rng_state` returned."""
    _get_generator(device).set_state(new_state)


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Sets the states of all devices' generators."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Seeds the current device's generator."""
    _get_generator(None).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds every device's generator. ``torch.manual_seed`` calls it in any program: opens no device, and
    does nothing on a broken installation."""
    if load_error is None:
        C.seed_all_generators(int(seed))


def seed() -> None:
    """Seeds the current device's generator from the system's randomness."""
    _get_generator(None).seed()


def seed_all() -> None:
    """Seeds every device's generator with one number from the system's randomness."""
    manual_seed_all(torch.Generator().seed())


def initial_seed() -> int:
    """The seed of the current device's generator."""
    return _get_generator(None).initial_seed()
