"""Streams and events. PyTorch's generic ``torch.Stream`` and ``torch.Event`` may be used in their place."""

from __future__ import annotations

import ctypes
from types import TracebackType
from typing import Self

import torch

from torch_npu._binding import C
from torch_npu.npu._utils import Device, _get_device_index

__all__ = [
    "Event",
    "ExternalStream",
    "Stream",
    "StreamContext",
    "current_stream",
    "default_stream",
    "set_stream",
    "stream",
]


def _check_stream(stream: object) -> torch.Stream:
    """PyTorch takes whatever object it is given for a stream and reads its memory as one."""
    if not isinstance(stream, torch.Stream):
        raise TypeError(f"expected a stream (torch.npu.Stream or torch.Stream), got {stream!r}")
    if stream.device.type != "npu":
        raise ValueError(f"expected a stream of an npu device, got one of {stream.device}")
    return stream


class Stream(torch.Stream):
    """A queue of work on one device, run in order; work of different streams runs in any order.

    Args:
        device: default: the current one.
        priority: negative for high priority.
        kwargs: ``stream_id``, ``device_index`` and ``device_type`` of an existing stream, to wrap it.
    """

    def __new__(cls, device: Device = None, priority: int = 0, **kwargs: int) -> Self:
        if kwargs:
            return super().__new__(cls, **kwargs)
        return cls._wrap(C.new_stream(_get_device_index(device, optional=True), priority))

    @classmethod
    def _wrap(cls, stream: torch.Stream) -> Self:
        return torch.Stream.__new__(
            cls, stream_id=stream.stream_id, device_index=stream.device_index, device_type=stream.device_type
        )

    @property
    def npu_stream(self) -> int:
        """CANN's handle (``aclrtStream``) as an integer. Asking for it creates the stream on the device."""
        return C.stream_handle(self)

    @property
    def _as_parameter_(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.npu_stream)

    @property
    def priority(self) -> int:
        """-1 high, 0 normal."""
        return C.stream_priority(self)

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        """Records ``event`` (default: a new one) at the present end of the stream and returns it."""
        if event is None:
            event = Event()
        event.record(self)
        return event

    def __repr__(self) -> str:
        return f"<torch.npu.Stream device={self.device} id={self.stream_id:#x}>"


class ExternalStream(Stream):
    """A stream that other code made with CANN and keeps owning.

    Args:
        stream_ptr: its handle (``aclrtStream``) as an integer.
        device: the device it is on; default: the current one.
    """

    def __new__(cls, stream_ptr: int, device: Device = None, **kwargs: int) -> Self:
        return cls._wrap(C.external_stream(stream_ptr, _get_device_index(device, optional=True)))


class Event(torch.Event):
    """A mark in a stream that streams and hosts can wait for.

    Args:
        enable_timing: whether ``elapsed_time`` may be asked.
        blocking: accepted and without effect: waiting for an event never spins.
        interprocess: must be False.
    """

    def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> Self:
        if interprocess:
            raise NotImplementedError("torch.npu.Event(interprocess=True): events cannot be shared by processes yet")
        return super().__new__(cls, "npu", enable_timing=enable_timing, blocking=blocking)

    def record(self, stream: torch.Stream | None = None) -> None:
        """Moves the mark to the present end of ``stream`` (default: the current one)."""
        super().record(None if stream is None else _check_stream(stream))

    def wait(self, stream: torch.Stream | None = None) -> None:
        """Lets the work that ``stream`` (default: the current one) gets from now on wait for the mark."""
        super().wait(None if stream is None else _check_stream(stream))

    @property
    def npu_event(self) -> int:
        """CANN's handle (``aclrtEvent``) as an integer; 0 before the first record."""
        return C.event_handle(self.event_id) if self.event_id else 0

    def elapsed_time(self, end_event: torch.Event) -> float:
        """Milliseconds from this event's mark to ``end_event``'s.

        Raises:
            ValueError: one was made without ``enable_timing`` or was not recorded.
        """
        return C.event_elapsed_time(self.event_id, end_event.event_id)

    def __repr__(self) -> str:
        return f"<torch.npu.Event {self.npu_event:#x}>" if self.event_id else "<torch.npu.Event not recorded>"


def current_stream(device: Device = None) -> Stream:
    """The calling thread's current stream on ``device`` (default: the current one)."""
    return Stream._wrap(C.current_stream(_get_device_index(device, optional=True)))


def default_stream(device: Device = None) -> Stream:
    """The default stream of ``device`` (default: the current one)."""
    return Stream._wrap(C.default_stream(_get_device_index(device, optional=True)))


def set_stream(stream: torch.Stream | None) -> None:
    """Makes ``stream`` the thread's current one on its device, and that device current. Nothing for ``None``."""
    if stream is None:
        return
    C.set_device(_check_stream(stream).device_index)
    C.set_current_stream(stream)


class StreamContext:
    """Context in which ``stream`` is current on its device, and that device current; ``None`` changes nothing."""

    def __init__(self, stream_ctx: torch.Stream | None) -> None:
        self.stream = None if stream_ctx is None else _check_stream(stream_ctx)
        self._previous: tuple[int, torch.Stream] | None = None

    def __enter__(self) -> None:
        if self.stream is None:
            return
        self._previous = (C.current_device(), C.current_stream(self.stream.device_index))
        set_stream(self.stream)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._previous is None:
            return
        device, stream = self._previous
        self._previous = None
        C.set_current_stream(stream)
        C.set_device(device)


def stream(stream: torch.Stream | None) -> StreamContext:
    """Context manager: ``with torch.npu.stream(s):`` enqueues on ``s``."""
    return StreamContext(stream)
