"""Streams run apart from the host and in order; nothing but events and waiting orders them against each other."""

import ctypes
import pathlib
import threading
import time

import pytest
from emulator_client import (
    DEVICE_TO_HOST,
    HOST_FUNCTION,
    INVALID_HANDLE,
    MIB,
    STREAM_ABORT,
    STREAM_TIMEOUT,
    HostFunction,
    raises,
    script_output,
)


class Gate(HostFunction):
    """Holds a stream until it is opened."""

    def __init__(self):
        self.reached, self.opened = threading.Event(), threading.Event()
        super().__init__(self._pass)

    def _pass(self):
        self.reached.set()
        assert self.opened.wait(30)


def test_launch_returns_before_the_work_ran(acl, new_stream):
    stream, gate, ran = new_stream(), Gate(), []
    after = HostFunction(lambda: ran.append(True))
    gate.launch(acl, stream)
    after.launch(acl, stream)
    assert gate.reached.wait(30)  # the worker runs it although nobody waits for the stream
    assert not ran and not acl.stream_done(stream)
    gate.opened.set()
    acl("aclrtSynchronizeStream", stream)
    assert ran and acl.stream_done(stream)


def test_tasks_of_one_stream_run_in_order(acl, new_stream):
    stream, order = new_stream(), []
    functions = [HostFunction(lambda i=i: order.append(i)) for i in range(2000)]
    for function in functions:
        function.launch(acl, stream)
    acl("aclrtSynchronizeStream", stream)
    assert order == list(range(2000))


def test_streams_without_an_event_give_stale_data_and_with_one_do_not(acl, new_stream):
    writer, reader, gate = new_stream(), new_stream(), Gate()
    device = acl.malloc(64)
    acl.write(device, b"\x01" * 64)
    stale, fresh = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
    gate.launch(acl, writer)
    acl.fill_async(device, 2, 64, writer)
    event = acl.create_event()
    acl("aclrtRecordEvent", event, writer)

    acl.copy_async(stale, device, 64, reader, DEVICE_TO_HOST)
    acl("aclrtSynchronizeStream", reader)
    assert stale.raw == b"\x01" * 64

    acl("aclrtStreamWaitEvent", reader, event)
    acl.copy_async(fresh, device, 64, reader, DEVICE_TO_HOST)
    gate.opened.set()
    acl("aclrtSynchronizeStream", reader)
    assert fresh.raw == b"\x02" * 64
    acl("aclrtDestroyEvent", event)
    acl.free(device)


def test_waiting_for_one_stream_runs_the_streams_that_it_waits_for(acl, new_stream):
    """A chain of streams and events that only the last one's synchronisation drives to its end."""
    streams = [new_stream() for _ in range(12)]
    order, keep = [], []
    for i, stream in enumerate(streams):
        if i:
            acl("aclrtStreamWaitEvent", stream, keep[-1])
        function = HostFunction(lambda i=i: order.append(i))
        keep.extend([function, acl.create_event()])
        function.launch(acl, stream)
        acl("aclrtRecordEvent", keep[-1], stream)
    acl("aclrtSynchronizeStream", streams[-1])
    assert order == list(range(12))


def test_streams_that_depend_on_each_other_both_ways_do_not_deadlock(acl, new_stream):
    left, right = new_stream(), new_stream()
    counts, keep = [0], []

    def count():
        counts[0] += 1

    for _ in range(300):
        for source, target in ((left, right), (right, left)):
            function = HostFunction(count)
            event = acl.create_event()
            keep.extend([function, event])
            function.launch(acl, source)
            acl("aclrtRecordEvent", event, source)
            acl("aclrtStreamWaitEvent", target, event)
    waiters = [threading.Thread(target=acl, args=("aclrtSynchronizeStream", s)) for s in (left, right)]
    for waiter in waiters:
        waiter.start()
    for waiter in waiters:
        waiter.join(30)
        assert not waiter.is_alive()
    assert counts == [600]


def test_many_host_threads_share_a_stream_without_losing_tasks(acl, new_stream):
    stream, counter = new_stream(), ctypes.c_int(0)
    keep = []

    def count():
        counter.value += 1  # tasks of one stream never run at the same time

    def launch():
        acl("aclrtSetDevice", 0)
        for _ in range(200):
            function = HostFunction(count)
            keep.append(function)
            function.launch(acl, stream)
            acl("aclrtSynchronizeStream", stream)

    threads = [threading.Thread(target=launch) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert counter.value == 1200


def test_synchronize_with_timeout_gives_up_while_a_task_hangs(acl, new_stream):
    stream, gate = new_stream(), Gate()
    gate.launch(acl, stream)
    with raises(STREAM_TIMEOUT, "did not finish in 20 ms"):
        acl("aclrtSynchronizeStreamWithTimeout", stream, 20)
    gate.opened.set()
    acl("aclrtSynchronizeStreamWithTimeout", stream, 30000)


def test_synchronize_device_waits_for_every_stream(acl, new_stream):
    done = []
    functions = [HostFunction(lambda i=i: done.append(i)) for i in range(5)]
    for function in functions:
        function.launch(acl, new_stream())
    functions[0].launch(acl, None)  # the default stream
    acl("aclrtSynchronizeDevice")
    assert sorted(done) == [0, 0, 1, 2, 3, 4]


def test_task_that_waits_for_its_own_stream_is_an_error_not_a_hang(acl, new_stream):
    stream, codes = new_stream(), []
    function = HostFunction(lambda: codes.append(acl.code("aclrtSynchronizeStream", stream)))
    function.launch(acl, stream)
    acl("aclrtSynchronizeStream", stream)
    assert codes[0] != 0


def test_destroyed_stream_handle_is_refused(acl):
    stream = acl.create_stream()
    acl("aclrtDestroyStream", stream)
    for call in ("aclrtSynchronizeStream", "aclrtDestroyStream"):
        with raises(INVALID_HANDLE, "destroyed"):
            acl(call, stream)


def test_destroying_a_stream_finishes_its_work_first(acl):
    stream, ran = acl.create_stream(), []
    function = HostFunction(lambda: ran.append(True))
    function.launch(acl, stream)
    acl("aclrtDestroyStream", stream)
    assert ran


def test_forced_destruction_drops_the_work_and_frees_who_waits_for_its_events(acl, new_stream):
    stream, other, ran = acl.create_stream(), new_stream(), []
    event, cell = acl.create_event(), acl.malloc(8)
    acl.write(cell, bytes(8))
    after = HostFunction(lambda: ran.append(True))
    acl("aclrtValueWait", cell, ctypes.c_uint64(1), 1, stream)  # nobody writes it
    after.launch(acl, stream)
    acl("aclrtRecordEvent", event, stream)
    acl("aclrtStreamWaitEvent", other, event)
    acl("aclrtDestroyStreamForce", stream)
    with raises(STREAM_ABORT):
        acl("aclrtSynchronizeStream", other)
    assert not ran
    acl.free(cell)


def test_device_task_abort_drops_work_and_streams_work_again():
    out = script_output("""
        acl.initialize()
        stream, ran, cell = acl.create_stream(), [], acl.malloc(8)
        acl.write(cell, bytes(8))
        late = HostFunction(lambda: ran.append("late"))
        acl("aclrtValueWait", cell, ctypes.c_uint64(1), 1, stream)  # nobody writes it
        late.launch(acl, stream)
        acl("aclrtDeviceTaskAbort", 0, 10000)
        again = HostFunction(lambda: ran.append("again"))
        again.launch(acl, stream)
        acl("aclrtSynchronizeStream", stream)
        print(ran)
    """)
    assert out == "['again']"


FAILING = {"TORCH_NPU_EMULATOR_FAULTS": "task/aclrtMemsetAsync:*:1:error=507015"}


def test_failed_task_is_a_sticky_error_with_its_message():
    out = script_output(
        """
        acl.initialize()
        stream, device = acl.create_stream(), acl.malloc(64)
        acl.fill_async(device, 1, 64, stream)   # fails on the device, not here
        for _ in range(2):
            with raises(AICORE_EXCEPTION, "fault injected into aclrtMemsetAsync"):
                acl("aclrtSynchronizeStream", stream)
        other = acl.create_stream()
        acl("aclrtSynchronizeStream", other)
        ran = []
        function = HostFunction(lambda: ran.append(1))
        function.launch(acl, stream)            # continues on failure unless told otherwise
        acl.code("aclrtSynchronizeStream", stream)
        print(ran)
        """,
        environment=FAILING,
    )
    assert out == "[1]"


def test_stream_that_stops_on_failure_runs_nothing_more():
    out = script_output(
        """
        acl.initialize()
        stream, device = acl.create_stream(), acl.malloc(64)
        acl("aclrtSetStreamFailureMode", stream, ctypes.c_uint64(STOP_ON_FAILURE))
        acl.fill_async(device, 1, 64, stream)
        ran = []
        function = HostFunction(lambda: ran.append(1))
        function.launch(acl, stream)
        with raises(AICORE_EXCEPTION):
            acl("aclrtSynchronizeStream", stream)
        print(ran)
        """,
        environment=FAILING,
    )
    assert out == "[]"


def test_stream_that_waits_for_an_event_of_a_failed_stream_inherits_the_error():
    script_output(
        """
        acl.initialize()
        failing, waiting, device = acl.create_stream(), acl.create_stream(), acl.malloc(64)
        acl.fill_async(device, 1, 64, failing)
        event = acl.create_event()
        acl("aclrtRecordEvent", event, failing)
        acl("aclrtStreamWaitEvent", waiting, event)
        with raises(AICORE_EXCEPTION, "fault injected into aclrtMemsetAsync"):
            acl("aclrtSynchronizeStream", waiting)
        with raises(AICORE_EXCEPTION):
            acl("aclrtSynchronizeEvent", event)
        """,
        environment=FAILING,
    )


def test_streams_cost_no_threads_until_they_have_work(acl):
    out = script_output("""
        threads = lambda: len(os.listdir("/proc/self/task"))
        before = threads()
        acl.initialize()
        streams = [acl.create_stream() for _ in range(34)]
        print(threads() - before)
        function = HostFunction(lambda: None)
        for stream in streams[:3]:
            function.launch(acl, stream)
            acl("aclrtSynchronizeStream", stream)
        print(threads() - before)
    """)
    assert out.split() == ["0", "3"]


def test_idle_streams_use_no_processor_time(acl):
    out = script_output("""
        import time
        acl.initialize()
        function = HostFunction(lambda: None)
        streams = [acl.create_stream() for _ in range(8)]
        for stream in streams:
            function.launch(acl, stream)
        acl("aclrtSynchronizeDevice")
        gate = threading.Event()
        waiting = HostFunction(gate.wait)
        waiting.launch(acl, streams[0])
        event = acl.create_event()
        acl("aclrtRecordEvent", event, streams[0])
        acl("aclrtStreamWaitEvent", streams[1], event)
        time.sleep(0.1)  # dozing ends
        start = time.process_time()
        time.sleep(0.5)
        print(time.process_time() - start)
        gate.set()
        acl("aclrtSynchronizeDevice")
    """)
    assert float(out) < 0.05


@pytest.mark.parametrize("finalize", [True, False])
def test_process_ends_in_time_with_work_outstanding(finalize):
    start = time.monotonic()
    script_output(
        """
        acl.initialize()
        never = threading.Event()
        device = acl.malloc(64)
        streams = [acl.create_stream() for _ in range(3)]
        for stream in streams:
            acl("aclrtValueWait", device, ctypes.c_uint64(1), 1, stream)  # nobody writes it
            acl.fill_async(device, 3, 64, stream)
        if sys.argv[1] == "True":
            acl("aclFinalize")
        """,
        str(finalize),
    )
    assert time.monotonic() - start < 20


def test_forked_child_gets_an_error_and_ends(acl):
    out = script_output("""
        acl.initialize()
        stream = acl.create_stream()
        gate = threading.Event()
        hold = HostFunction(gate.wait)
        hold.launch(acl, stream)
        child = os.fork()
        if child == 0:
            codes = [acl.code("aclrtSetDevice", 0), acl.code("aclrtSynchronizeStream", stream),
                     acl.code("aclrtSynchronizeDevice"), acl.code("aclrtFree", None)]
            message = acl.message()
            sys.exit(0 if set(codes) == {CONTEXT_NULL} and "spawn" in message else 1)
        status = os.waitpid(child, 0)[1]
        gate.set()
        acl("aclrtSynchronizeStream", stream)
        print(os.waitstatus_to_exitcode(status))
    """)
    assert out == "0"


def test_fork_before_first_use_leaves_the_device_to_the_child():
    out = script_output("""
        count = ctypes.c_uint32()
        acl("aclrtGetDeviceCount", ctypes.byref(count))
        child = os.fork()
        if child == 0:
            acl.initialize()
            device = acl.malloc(64)
            acl.write(device, bytes(64))
            sys.exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """)
    assert out == "0"


def test_callback_runs_on_the_subscribed_thread(acl, new_stream):
    stream, ran, stop = new_stream(), [], threading.Event()
    callback = HOST_FUNCTION(lambda _: ran.append(threading.get_ident()))
    ready, subscribed = threading.Event(), threading.Event()

    def serve():
        ready.set()
        assert subscribed.wait(30)
        while not stop.is_set():
            acl.code("aclrtProcessReport", 50)

    server = threading.Thread(target=serve)
    server.start()
    assert ready.wait(30)
    thread = ctypes.c_uint64(server.ident)
    acl("aclrtSubscribeReport", thread, stream)
    subscribed.set()
    block = 1
    acl("aclrtLaunchCallback", callback, None, block, stream)
    acl("aclrtSynchronizeStream", stream)  # a blocking callback holds the stream
    assert ran == [server.ident]
    stop.set()
    server.join(30)
    acl("aclrtUnSubscribeReport", thread, stream)
    with raises(100034, "aclrtSubscribeReport"):
        acl("aclrtLaunchCallback", callback, None, block, stream)


def test_value_wait_holds_a_stream_until_another_writes(acl, new_stream):
    waiting, writing = new_stream(), new_stream()
    cell, data = acl.malloc(8), acl.malloc(MIB)
    acl.write(cell, bytes(8))
    acl("aclrtValueWait", cell, ctypes.c_uint64(7), 1, waiting)
    acl.fill_async(data, 5, MIB, waiting)
    acl("aclrtValueWrite", cell, ctypes.c_uint64(3), 0, writing)
    acl("aclrtSynchronizeStream", writing)
    assert not acl.stream_done(waiting)
    acl("aclrtValueWrite", cell, ctypes.c_uint64(7), 0, writing)
    acl("aclrtSynchronizeStream", waiting)
    assert acl.read(data, MIB) == b"\x05" * MIB
    acl.free(cell)
    acl.free(data)


def test_waiting_thread_holds_no_other_device_current(acl):
    """Tasks run with their own context, and leave the host thread's as it was."""
    seen = []

    def ask():
        device = ctypes.c_int(-1)
        acl("aclrtGetDevice", ctypes.byref(device))
        seen.append(device.value)

    acl("aclrtSetDevice", 1)
    stream, function = acl.create_stream(), HostFunction(ask)
    acl("aclrtSetDevice", 0)
    function.launch(acl, stream)
    acl("aclrtSynchronizeStream", stream)
    ask()
    assert seen == [1, 0]
    acl("aclrtDestroyStream", stream)


def test_process_has_no_files_left(acl):
    assert not [p for p in pathlib.Path("/dev/shm").glob("*npu*")]
