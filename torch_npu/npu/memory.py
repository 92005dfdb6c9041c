"""Device memory and page-locked host memory: statistics, limits, caches."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from torch_npu._binding import C
from torch_npu.npu._utils import Device, _get_device_index
from torch_npu.npu.device import is_initialized

__all__ = [
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "empty_cache",
    "get_allocator_backend",
    "get_per_process_memory_fraction",
    "host_empty_cache",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_host_memory_stats",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
]


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """(free, total) memory of a device in bytes, all processes counted."""
    return C.memory_info(_get_device_index(device, optional=True))


def empty_cache() -> None:
    """Gives memory that is reserved but holds no tensor back to the devices. Waits for the devices."""
    if is_initialized():
        C.empty_cache()


def memory_stats(device: Device = None) -> OrderedDict[str, Any]:
    """Statistics of the allocator, named as by ``torch.accelerator.memory_stats``; empty before the first use."""
    return torch.accelerator.memory_stats(_get_device_index(device, optional=True))


def memory_stats_as_nested_dict(device: Device = None) -> dict[str, Any]:
    """:func:`memory_stats` as a dictionary of dictionaries, ``stats["allocated_bytes"]["all"]["peak"]``."""
    return _nested(memory_stats(device))


def _nested(flat: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, value in flat.items():
        *parents, leaf = name.split(".")
        place = result
        for parent in parents:
            place = place.setdefault(parent, {})
        place[leaf] = value
    return result


def _flat(nested: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, value in nested.items():
        if isinstance(value, dict):
            result |= _flat(value, f"{prefix}{name}.")
        else:
            result[prefix + name] = value
    return result


def memory_allocated(device: Device = None) -> int:
    """Bytes held by tensors now."""
    return int(memory_stats(device).get("allocated_bytes.all.current", 0))


def max_memory_allocated(device: Device = None) -> int:
    """Most bytes held by tensors at once, since start or :func:`reset_peak_memory_stats`."""
    return int(memory_stats(device).get("allocated_bytes.all.peak", 0))


def memory_reserved(device: Device = None) -> int:
    """Bytes taken from the device now, with or without tensors in them."""
    return int(memory_stats(device).get("reserved_bytes.all.current", 0))


def max_memory_reserved(device: Device = None) -> int:
    """Most bytes taken from the device at once."""
    return int(memory_stats(device).get("reserved_bytes.all.peak", 0))


def memory_cached(device: Device = None) -> int:
    """Older name of :func:`memory_reserved`."""
    return memory_reserved(device)


def max_memory_cached(device: Device = None) -> int:
    """Older name of :func:`max_memory_reserved`."""
    return max_memory_reserved(device)


def reset_peak_memory_stats(device: Device = None) -> None:
    """Starts the peaks anew at the present values."""
    torch.accelerator.reset_peak_memory_stats(_get_device_index(device, optional=True))


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Sets the totals of allocations and frees, and the counters of retries and failures, to zero."""
    torch.accelerator.reset_accumulated_memory_stats(_get_device_index(device, optional=True))


def reset_max_memory_allocated(device: Device = None) -> None:
    """Older name of :func:`reset_peak_memory_stats`."""
    reset_peak_memory_stats(device)


def reset_max_memory_cached(device: Device = None) -> None:
    """Older name of :func:`reset_peak_memory_stats`."""
    reset_peak_memory_stats(device)


def set_per_process_memory_fraction(fraction: float, device: Device = None) -> None:
    """Limits what this process may reserve of a device's memory; beyond it torch.OutOfMemoryError is raised.

    Args:
        fraction: 0 to 1, of the device's whole memory.

    Raises:
        ValueError: the fraction is outside 0 to 1.
    """
    C.set_memory_fraction(float(fraction), _get_device_index(device, optional=True))


def get_per_process_memory_fraction(device: Device = None) -> float:
    """The limit set by :func:`set_per_process_memory_fraction`, 1 if none."""
    return C.memory_fraction(_get_device_index(device, optional=True))


def caching_allocator_alloc(size: int, device: Device = None, stream: torch.Stream | None = None) -> int:
    """Memory for other libraries.

    Args:
        size: bytes.
        stream: the stream that uses it; default: the current one of ``device``.

    Returns:
        Its address; give it back with :func:`caching_allocator_delete`.

    Raises:
        ValueError: the stream is on another device.
    """
    index = _get_device_index(device, optional=True)
    if stream is not None and stream.device_index != index:
        raise ValueError(f"the stream is on npu:{stream.device_index}, the memory would be on npu:{index}")
    return C.raw_allocate(size, index, stream)


def caching_allocator_delete(mem_ptr: int) -> None:
    """Gives back what :func:`caching_allocator_alloc` returned.

    Raises:
        ValueError: the address did not come from there.
    """
    C.raw_free(mem_ptr)


def get_allocator_backend() -> str:
    """``"native"``: the allocator of this package."""
    return "native"


def memory_snapshot(mempool_id: tuple[int, int] | None = None) -> list[dict[str, Any]]:
    """Every segment of reserved memory with its blocks, in the format of ``torch.cuda.memory_snapshot``.

    Args:
        mempool_id: the segments of that pool only; ``(0, 0)`` is the pool of all that is in no private pool.
    """
    segments = C.memory_snapshot()
    if mempool_id is None:
        return segments
    return [segment for segment in segments if tuple(segment["segment_pool_id"]) == tuple(mempool_id)]


def _snapshot(device: Device = None) -> dict[str, Any]:
    """The state of all memory, as torch's memory visualiser (pytorch.org/memory_viz) reads it; no history."""
    segments = memory_snapshot()
    devices = max((segment["device"] for segment in segments), default=-1) + 1
    if device is not None:
        index = _get_device_index(device, optional=True)
        segments = [segment for segment in segments if segment["device"] == index]
    return {"segments": segments, "device_traces": [[] for _ in range(devices)]}


def _dump_snapshot(filename: str | Path = "dump_snapshot.pickle") -> None:
    """Writes :func:`_snapshot` to a file that torch's memory visualiser opens."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


def host_memory_stats() -> dict[str, Any]:
    """Statistics of page-locked host memory, named as by ``torch.cuda.host_memory_stats``."""
    return _flat(host_memory_stats_as_nested_dict())


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """:func:`host_memory_stats` as a dictionary of dictionaries."""
    return C.host_memory_stats()


def host_empty_cache() -> None:
    """Gives page-locked memory that is cached and unused back to the system."""
    C.host_empty_cache()


def reset_accumulated_host_memory_stats() -> None:
    """Sets the totals of page-locked allocations and frees to zero."""
    C.host_reset_accumulated_stats()


def reset_peak_host_memory_stats() -> None:
    """Starts the peaks of page-locked memory anew at the present values."""
    C.host_reset_peak_stats()


def _size(value: int) -> str:
    number = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(number) < 1024:
            break
        number /= 1024
        if unit == "GiB":
            unit = "TiB"
    return f"{value} B" if unit == "B" else f"{number:.1f} {unit}"


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """A table of :func:`memory_stats`.

    Args:
        abbreviated: only the sums, without the lines of small and large segments.
    """
    index = _get_device_index(device, optional=True)
    stats = memory_stats(index)
    rows: list[tuple[str, str, Callable[[int], str]]] = [
        ("Allocated memory", "allocated_bytes", _size),
        ("Active memory", "active_bytes", _size),
        ("Requested memory", "requested_bytes", _size),
        ("Reserved memory", "reserved_bytes", _size),
        ("Non-releasable memory", "inactive_split_bytes", _size),
        ("Allocations", "allocation", str),
        ("Active allocations", "active", str),
        ("Reserved segments", "segment", str),
        ("Non-releasable allocations", "inactive_split", str),
    ]
    pools = [("all", "")] if abbreviated else [("all", ""), ("large_pool", "  large"), ("small_pool", "  small")]
    columns = ("current", "peak", "allocated", "freed")
    lines = [
        f"npu:{index} memory, failed allocations: {stats.get('num_ooms', 0)}, "
        f"retries after emptying the cache: {stats.get('num_alloc_retries', 0)}",
        f"{'':28}" + "".join(f"{name:>14}" for name in ("now", "peak", "total in", "total out")),
    ]
    for title, key, form in rows:
        for pool, label in pools:
            values = "".join(f"{form(int(stats.get(f'{key}.{pool}.{column}', 0))):>14}" for column in columns)
            lines.append(f"{label or title:28}{values}")
    return "\n".join(lines)
