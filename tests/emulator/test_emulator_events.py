"""Events have versions, times, and failures; they can be shared by processes."""

import ctypes
import multiprocessing
import threading

import pytest
from emulator_client import (
    EVENT_NOT_COMPLETE,
    INVALID_HANDLE,
    IPC,
    TIME_LINE,
    TIMESTAMP_INVALID,
    Acl,
    HostFunction,
    raises,
)


class Gate(HostFunction):
    def __init__(self):
        self.opened = threading.Event()
        super().__init__(lambda: self.opened.wait(30))


def test_recording_again_does_not_move_earlier_waiters(acl, new_stream):
    source, waiter = new_stream(), new_stream()
    event, gate = acl.create_event(), Gate()
    first = HostFunction(lambda: None)
    first.launch(acl, source)
    acl("aclrtRecordEvent", event, source)
    acl("aclrtStreamWaitEvent", waiter, event)
    gate.launch(acl, source)
    acl("aclrtRecordEvent", event, source)  # behind the gate
    acl("aclrtSynchronizeStream", waiter)  # would never end if the wait had moved
    assert not acl.event_done(event)
    gate.opened.set()
    acl("aclrtSynchronizeEvent", event)
    assert acl.event_done(event)


def test_event_that_was_never_recorded_holds_nobody_up(acl, new_stream):
    event = acl.create_event()
    assert not acl.event_done(event)
    acl("aclrtSynchronizeEvent", event)
    stream = new_stream()
    acl("aclrtStreamWaitEvent", stream, event)
    acl("aclrtSynchronizeStream", stream)


def test_wait_status_tells_whether_a_stream_still_waits(acl, new_stream):
    source, waiter, gate, event = new_stream(), new_stream(), Gate(), acl.create_event()
    status = ctypes.c_int(-1)
    gate.launch(acl, source)
    acl("aclrtRecordEvent", event, source)
    acl("aclrtStreamWaitEvent", waiter, event)
    acl("aclrtQueryEventWaitStatus", event, ctypes.byref(status))
    assert status.value == 1
    gate.opened.set()
    acl("aclrtSynchronizeStream", waiter)
    acl("aclrtQueryEventWaitStatus", event, ctypes.byref(status))
    assert status.value == 0


def test_elapsed_time_covers_the_work_between_two_events(acl, new_stream):
    stream, pause = new_stream(), threading.Event()
    start, end = acl.create_event(TIME_LINE), acl.create_event(TIME_LINE)
    work = HostFunction(lambda: pause.wait(0.05))
    acl("aclrtRecordEvent", start, stream)
    work.launch(acl, stream)
    acl("aclrtRecordEvent", end, stream)
    acl("aclrtSynchronizeEvent", end)
    milliseconds = ctypes.c_float()
    acl("aclrtEventElapsedTime", ctypes.byref(milliseconds), start, end)
    assert 49 < milliseconds.value < 5000
    acl("aclrtEventElapsedTime", ctypes.byref(milliseconds), end, start)
    assert milliseconds.value < -49
    first, last = ctypes.c_uint64(), ctypes.c_uint64()
    acl("aclrtEventGetTimestamp", start, ctypes.byref(first))
    acl("aclrtEventGetTimestamp", end, ctypes.byref(last))
    assert last.value - first.value == pytest.approx(-1000 * milliseconds.value, rel=0.01)


def test_elapsed_time_of_unusable_events_is_refused(acl, new_stream):
    stream, gate, out = new_stream(), Gate(), ctypes.byref(ctypes.c_float())
    timed, plain = acl.create_event(TIME_LINE), acl.create_event()
    with raises(TIMESTAMP_INVALID, "not recorded"):
        acl("aclrtEventElapsedTime", out, timed, timed)
    gate.launch(acl, stream)
    acl("aclrtRecordEvent", timed, stream)
    with raises(EVENT_NOT_COMPLETE, "synchronise first"):
        acl("aclrtEventElapsedTime", out, timed, timed)
    with raises(TIMESTAMP_INVALID, "ACL_EVENT_TIME_LINE"):
        acl("aclrtEventElapsedTime", out, plain, timed)
    gate.opened.set()


def test_reset_takes_effect_in_the_order_of_the_stream(acl, new_stream):
    stream, event = new_stream(), acl.create_event()
    acl("aclrtRecordEvent", event, stream)
    acl("aclrtSynchronizeEvent", event)
    gate = Gate()
    gate.launch(acl, stream)
    acl("aclrtResetEvent", event, stream)
    assert acl.event_done(event)
    gate.opened.set()
    acl("aclrtSynchronizeStream", stream)
    assert not acl.event_done(event)


def test_destroyed_event_is_refused_and_its_waiters_still_end(acl, new_stream):
    source, waiter, gate, event = new_stream(), new_stream(), Gate(), acl.create_event()
    gate.launch(acl, source)
    acl("aclrtRecordEvent", event, source)
    acl("aclrtStreamWaitEvent", waiter, event)
    acl("aclrtDestroyEvent", event)
    with raises(INVALID_HANDLE, "destroyed"):
        acl("aclrtRecordEvent", event, source)
    gate.opened.set()
    acl("aclrtSynchronizeStream", waiter)


def wait_for_event_of_parent(handle: bytes, pipe) -> None:
    acl = Acl()
    acl.initialize()
    event, raw = ctypes.c_void_p(), (ctypes.c_char * 64).from_buffer_copy(handle)

    class Handle(ctypes.Structure):
        _fields_ = [("reserved", ctypes.c_char * 64)]

    by_value = Handle.from_buffer_copy(raw)
    acl("aclrtIpcOpenEventHandle", by_value, ctypes.byref(event))
    stream = acl.create_stream()
    acl("aclrtStreamWaitEvent", stream, event)
    pipe.send(acl.event_done(event))
    acl("aclrtSynchronizeStream", stream)
    pipe.send(acl.event_done(event))


def test_event_of_another_process_orders_a_stream(acl, new_stream):
    stream, gate, event = new_stream(), Gate(), acl.create_event(IPC)
    handle = ctypes.create_string_buffer(64)
    acl("aclrtIpcGetEventHandle", event, handle)
    gate.launch(acl, stream)
    acl("aclrtRecordEvent", event, stream)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=wait_for_event_of_parent, args=(handle.raw, theirs))
    child.start()
    assert ours.poll(30) and ours.recv() is False
    assert not ours.poll(0.2)  # still held up
    gate.opened.set()
    assert ours.poll(30) and ours.recv() is True
    child.join(30)
    assert child.exitcode == 0
    acl("aclrtDestroyEvent", event)
