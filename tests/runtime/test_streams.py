"""Streams run by themselves, in order, and only events order them against each other.

A gate holds a stream still: what is enqueued behind it cannot have run, however slow the machine is.
"""

import threading

import pytest
import torch

from torch_npu._C import _testing


def test_launch_returns_before_the_work_has_run(gate: _testing.Gate) -> None:
    stream = torch.npu.Stream()
    x = torch.zeros(64, device="npu")
    torch.npu.synchronize()
    with torch.npu.stream(stream):
        gate.block(stream)
        x.fill_(7)  # returns, although nothing behind the gate can run
    assert not stream.query()
    gate.open()
    stream.synchronize()
    assert stream.query()
    assert x.cpu().tolist() == [7.0] * 64


def test_stream_without_event_reads_stale_data(gate: _testing.Gate) -> None:
    writer, reader = torch.npu.Stream(), torch.npu.Stream()
    x = torch.zeros(1024, device="npu")
    torch.npu.synchronize()
    with torch.npu.stream(writer):
        gate.block(writer)
        x.fill_(1)
    with torch.npu.stream(reader):
        seen = x + 0
    reader.synchronize()
    assert seen.cpu().sum().item() == 0, "the reader did not wait, so it must have seen the old values"
    gate.open()
    writer.synchronize()
    assert x.cpu().sum().item() == 1024


def test_stream_with_event_reads_new_data(gate: _testing.Gate) -> None:
    writer, reader = torch.npu.Stream(), torch.npu.Stream()
    x = torch.zeros(1024, device="npu")
    torch.npu.synchronize()
    with torch.npu.stream(writer):
        gate.block(writer)
        x.fill_(1)
        written = writer.record_event()
    with torch.npu.stream(reader):
        reader.wait_event(written)
        seen = x + 0
    assert not reader.query()
    gate.open()
    reader.synchronize()
    assert seen.cpu().sum().item() == 1024


def test_wait_stream_orders_like_an_event(gate: _testing.Gate) -> None:
    first, second = torch.npu.Stream(), torch.npu.Stream()
    gate.block(first)
    second.wait_stream(first)
    mark = second.record_event()
    assert not mark.query()
    gate.open()
    mark.synchronize()
    assert mark.query()


def test_event_recorded_again_does_not_move_earlier_waiters(gate: _testing.Gate) -> None:
    recorded, waiting = torch.npu.Stream(), torch.npu.Stream()
    event = torch.npu.Event()
    event.record(recorded)
    waiting.wait_event(event)
    gate.block(recorded)
    event.record(recorded)  # a later mark, behind the gate
    waiting.synchronize()  # waits for the first mark only, else this never returns
    assert not event.query()
    gate.open()
    event.synchronize()


def test_synchronize_of_a_stream_lets_other_python_threads_run(gate: _testing.Gate) -> None:
    stream = torch.npu.Stream()
    gate.block(stream)
    opener = threading.Thread(target=gate.open)
    started = threading.Event()

    def wait_then_open() -> None:
        started.set()
        gate.wait_reached()
        gate.open()

    opener = threading.Thread(target=wait_then_open)
    opener.start()
    started.wait()
    stream.synchronize()  # a held interpreter lock would be a deadlock
    opener.join()
    assert stream.query()


@pytest.mark.parametrize("wait", ["device", "event", "accelerator"])
def test_synchronize_of_others_lets_other_python_threads_run(gate: _testing.Gate, wait: str) -> None:
    stream = torch.npu.Stream()
    gate.block(stream)
    event = stream.record_event()

    def reach_and_open() -> None:
        gate.wait_reached()
        gate.open()

    opener = threading.Thread(target=reach_and_open)
    opener.start()
    {"device": torch.npu.synchronize, "event": event.synchronize, "accelerator": torch.accelerator.synchronize}[wait]()
    opener.join()
    assert stream.query()


def test_stream_order_is_kept_over_many_launches() -> None:
    stream = torch.npu.Stream()
    with torch.npu.stream(stream):
        x = torch.zeros(8, device="npu")
        for step in range(200):
            x.mul_(0 if step % 50 == 49 else 1).add_(1)
    stream.synchronize()
    assert x.cpu().tolist() == [1.0] * 8


def test_stream_context_restores_stream_and_device_after_an_error() -> None:
    other = torch.npu.Stream(device=1)
    with pytest.raises(RuntimeError, match="on purpose"), torch.npu.stream(other):
        assert torch.npu.current_device() == 1
        assert torch.npu.current_stream() == other
        raise RuntimeError("on purpose")
    assert torch.npu.current_device() == 0
    assert torch.npu.current_stream(1) == torch.npu.default_stream(1)
    assert torch.npu.current_stream() == torch.npu.default_stream(0)


def test_stream_context_nests() -> None:
    outer, inner = torch.npu.Stream(), torch.npu.Stream()
    with torch.npu.stream(outer):
        with torch.npu.stream(inner), torch.npu.stream(None):
            assert torch.npu.current_stream() == inner
        assert torch.npu.current_stream() == outer


def test_current_stream_is_per_thread() -> None:
    stream = torch.npu.Stream()
    seen = []
    with torch.npu.stream(stream):
        thread = threading.Thread(target=lambda: seen.append(torch.npu.current_stream()))
        thread.start()
        thread.join()
        assert torch.npu.current_stream() == stream
    assert seen == [torch.npu.default_stream()]


def test_stream_values_compare_by_stream() -> None:
    first, second = torch.npu.Stream(), torch.npu.Stream()
    generic = torch.Stream(stream_id=first.stream_id, device_index=0, device_type=first.device_type)
    assert first == generic
    assert hash(first) == hash(generic)
    assert first != second
    assert first != torch.npu.default_stream()
    assert isinstance(torch.npu.current_stream(), torch.npu.Stream)
    assert first.device == torch.device("npu:0")
    assert first.npu_stream not in (0, second.npu_stream)
    assert first.native_handle == first.npu_stream


def test_stream_priority_is_kept() -> None:
    assert torch.npu.Stream(priority=-1).priority == -1
    assert torch.npu.Stream().priority == 0
    assert torch.npu.default_stream().priority == 0


def test_external_stream_runs_work_of_the_wrapped_handle(gate: _testing.Gate) -> None:
    owner = torch.npu.Stream()
    wrapped = torch.npu.ExternalStream(owner.npu_stream)
    assert wrapped.npu_stream == owner.npu_stream
    gate.block(owner)
    event = wrapped.record_event()
    assert not event.query()
    gate.open()
    event.synchronize()


def test_generic_stream_and_event_order_work(gate: _testing.Gate) -> None:
    stream = torch.Stream("npu")
    event = torch.Event("npu")
    assert event.query(), "nothing is recorded"
    gate.block(stream)
    with stream:
        x = torch.full((4,), 3.0, device="npu")
        event.record()
    assert not event.query()
    torch.npu.current_stream().wait_event(event)
    gate.open()
    assert (x * 2).cpu().tolist() == [6.0] * 4
    assert torch.accelerator.current_stream() == torch.npu.default_stream()


def test_event_elapsed_time_is_the_time_between_marks(gate: _testing.Gate) -> None:
    stream = torch.npu.Stream()
    start, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
    start.record(stream)
    start.synchronize()
    gate.block(stream)
    end.record(stream)
    gate.wait_reached()
    gate.open()
    end.synchronize()
    assert start.elapsed_time(end) > 0
    assert end.elapsed_time(start) == -start.elapsed_time(end)
    assert start.npu_event not in (0, end.npu_event)


def test_event_not_recorded_has_no_elapsed_time() -> None:
    start, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
    start.record()
    assert end.npu_event == 0
    with pytest.raises(ValueError, match="not recorded"):
        start.elapsed_time(end)


def test_stream_records_events_of_either_class() -> None:
    stream = torch.npu.Stream()
    for event in (torch.npu.Event(), torch.Event("npu")):
        assert stream.record_event(event) is event
        event.synchronize()
        assert event.query()


def test_event_elapsed_time_without_timing_raises() -> None:
    start, end = torch.npu.Event(), torch.npu.Event()
    start.record()
    end.record()
    torch.npu.synchronize()
    with pytest.raises((RuntimeError, ValueError), match="timing"):
        start.elapsed_time(end)


def test_event_of_one_device_orders_a_stream_of_another(gate: _testing.Gate) -> None:
    near, far = torch.npu.Stream(device=0), torch.npu.Stream(device=1)
    gate.block(near)
    far.wait_event(near.record_event())
    assert not far.query()
    gate.open()
    far.synchronize()
    assert far.query()


def test_event_shared_by_processes_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="interprocess"):
        torch.npu.Event(interprocess=True)


def test_stream_of_a_device_that_does_not_exist_raises() -> None:
    count = torch.npu.device_count()
    with pytest.raises(ValueError, match=str(count)):
        torch.npu.Stream(device=count)


@pytest.mark.parametrize("wrong", [3, "npu:0", torch.device("npu")], ids=str)
@pytest.mark.parametrize(
    "use",
    [torch.npu.set_stream, torch.npu.stream, lambda s: torch.npu.Event().record(s), lambda s: torch.npu.Event().wait(s)],
    ids=["set_stream", "context", "record", "wait"],
)
def test_anything_but_a_stream_is_refused_where_a_stream_belongs(use, wrong: object) -> None:
    with pytest.raises(TypeError, match="expected a stream"):
        use(wrong)
