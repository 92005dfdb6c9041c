"""What every rank is told when ranks disagree, die, leave or never come."""

import ctypes
import os
import select
import signal
import threading
import time
from collections.abc import Callable

import numpy
import pytest
from hccl_ranks import DATA_TYPES, PARA, REDUCE_OPS, REMOTE, SUSPENDING, TIMED_OUT, HcclError, Rank, Ranks

pytestmark = pytest.mark.ranks

F32, F64 = DATA_TYPES["float32"], DATA_TYPES["float64"]
NOTICE = 2.0  # seconds within which a death must be noticed


def disagree(me: Rank, calls: list[tuple]) -> tuple[int, str, str, float]:
    """Each rank makes its own call of the list; returns what it was told, and how long that took."""
    stream, buffer, other = me.stream(), me.buffer(1 << 16), me.buffer(1 << 16)
    name, *args = calls[me.rank]
    array = lambda numbers: (ctypes.c_uint64 * len(numbers))(*numbers)  # noqa: E731
    prepared = []
    for argument in args:
        if isinstance(argument, list):
            prepared.append(array(argument))
        elif isinstance(argument, tuple):
            prepared.append(ctypes.c_uint64(argument[0]))
        else:
            prepared.append({"in": buffer.pointer, "out": other.pointer}.get(argument, argument))
    me.share(None)
    start = time.monotonic()
    me.acl(name, *prepared, me.comm.handle, stream.handle)
    with pytest.raises(HcclError) as error:
        stream.synchronize()
    took = time.monotonic() - start
    code, text = me.comm.async_error()
    assert me.share(text) == [text] * me.size  # all are told the same
    me.comm.destroy()
    return code, text, error.value.message, took


def all_reduce(count: int, dtype: int = F32, op: str = "sum") -> tuple:
    return ("HcclAllReduce", "in", "out", (count,), dtype, REDUCE_OPS[op])


def broadcast(count: int, root: int = 0) -> tuple:
    return ("HcclBroadcast", "in", (count,), F32, root)


MISMATCHES = {
    "count": (
        [all_reduce(10), all_reduce(9)],
        ["rank 0 called HcclAllReduce(count=10, FP32, SUM)", "rank 1 called HcclAllReduce(count=9, FP32, SUM)"],
    ),
    "dtype": ([all_reduce(8), all_reduce(8, F64)], ["rank 0", "FP32", "rank 1", "FP64"]),
    "op": ([all_reduce(8), all_reduce(8, F32, "max")], ["SUM", "MAX"]),
    "operation": (
        [all_reduce(8), broadcast(8)],
        ["rank 0 called HcclAllReduce", "rank 1 called HcclBroadcast(count=8, FP32, root=0)"],
    ),
    "root": ([broadcast(8, 0), broadcast(8, 1)], ["root=0", "root=1"]),
    "buffers": ([broadcast(128), broadcast(256)], ["count=128", "count=256"]),
    "one of five": ([all_reduce(6)] * 3 + [all_reduce(7), all_reduce(6)], ["ranks 0-2, 4 called", "rank 3 called"]),
    "alltoallv": (
        [
            ("HcclAlltoAllV", "in", [1, 2], [0, 1], F32, "out", [1, 3], [0, 1], F32),
            ("HcclAlltoAllV", "in", [4, 1], [0, 4], F32, "out", [2, 1], [0, 2], F32),
        ],
        ["rank 1 sends 4 x FP32 to rank 0", "expects 3 x FP32"],
    ),
    "allgatherv": (
        [
            ("HcclAllGatherV", "in", (1,), "out", [1, 2], [0, 1], F32),
            ("HcclAllGatherV", "in", (2,), "out", [1, 3], [0, 1], F32),
        ],
        ["rank 0 gave recvCounts [1, 2]", "rank 1 gave [1, 3]"],
    ),
    "reducescatterv": (
        [
            ("HcclReduceScatterV", "in", [4, 5], [0, 4], "out", (4,), F32, 0),
            ("HcclReduceScatterV", "in", [4, 5], [0, 4], "out", (6,), F32, 0),
        ],
        ["rank 1 gave recvCount 6", "5"],
    ),
}


@pytest.mark.parametrize("name", list(MISMATCHES))
def test_ranks_that_disagree_are_all_told_both_sides(name: str) -> None:
    calls, parts = MISMATCHES[name]
    with Ranks(len(calls)) as ranks:
        for code, text, message, took in ranks.run(disagree, calls):
            assert code == PARA
            assert "'world' at collective #0" in text
            for part in parts:
                assert part in text
            assert text in message
            assert took < 5


def die_while_others_wait(me: Rank, how: str) -> tuple[float, int, str, str] | None:
    stream, buffer = me.stream(), me.buffer(numpy.ones(1024, "float32"))
    me.comm.all_reduce(buffer.pointer, buffer.pointer, 1024, "float32", stream)
    stream.synchronize()
    deaths = me.share(time.monotonic())
    if me.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "busy":
        me.comm.all_reduce(buffer.pointer, buffer.pointer, 1024, "float32", stream)
        with pytest.raises(HcclError) as error:
            stream.synchronize()
        message = error.value.message
    else:  # no operation under way: the asynchronous error alone tells
        message = me.comm.wait_for_error()[1]
    took = time.monotonic() - max(deaths)
    code, text = me.comm.async_error()
    me.comm.destroy()
    return took, code, text, message


@pytest.mark.parametrize("how", ["busy", "idle"])
def test_death_of_a_rank_is_noticed_within_two_seconds(how: str) -> None:
    ranks = Ranks(4)
    results = ranks.run(die_while_others_wait, how, dead={1})
    ranks.kill()
    for rank in (0, 2, 3):
        took, code, text, message = results[rank]
        assert took < NOTICE
        assert code == REMOTE
        assert "rank 1 of communicator 'world' died" in text
        assert text in message


def die_at_work(me: Rank) -> tuple[int, str] | None:
    """Large operations without end; rank 1 is killed at some point of one, perhaps while it works for all."""
    stream, buffer = me.stream(), me.buffer(16 << 20)
    me.share(None)
    if me.rank == 1:
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
    with pytest.raises(HcclError):
        while True:
            me.comm.all_reduce(buffer.pointer, buffer.pointer, 4 << 20, "float32", stream)
            stream.synchronize()
    return me.comm.async_error()


def test_death_in_the_middle_of_a_large_operation_fails_the_others() -> None:
    ranks = Ranks(3)
    results = ranks.run(die_at_work, dead={1})
    ranks.kill()
    assert [r[0] for r in (results[0], results[2])] == [REMOTE, REMOTE]


def abort_case(me: Rank) -> tuple[float, str, tuple[int, str] | None]:
    """Rank 0 calls what rank 1 never calls, synchronises in one thread and destroys in another."""
    stream, buffer = me.stream(), me.buffer(4096)
    me.share(None)
    if me.rank == 1:
        return 0.0, "", me.comm.wait_for_error()
    for _ in range(3):
        me.comm.all_reduce(buffer.pointer, buffer.pointer, 10, "float32", stream)
    found: list[str] = []
    blocked = threading.Event()

    def synchronize() -> None:
        me.acl("aclrtSetDevice", me.rank)
        blocked.set()
        with pytest.raises(HcclError) as error:
            stream.synchronize()
        found.append(error.value.message)

    thread = threading.Thread(target=synchronize)
    thread.start()
    blocked.wait()
    start = time.monotonic()
    me.comm.destroy()
    took = time.monotonic() - start
    thread.join()
    with pytest.raises(HcclError) as late:
        me.comm.all_reduce(buffer.pointer, buffer.pointer, 10, "float32", stream)
    assert "destroyed" in late.value.message
    return took, found[0], None


def test_destroy_from_another_thread_fails_outstanding_work_and_tells_the_peers() -> None:
    with Ranks(2) as ranks:
        (took, message, _), (_, _, peer) = ranks.run(abort_case)
    assert took < 2
    for text in (message, peer[1]):
        assert "rank 0 destroyed communicator 'world' with 3 operations outstanding" in text
    assert peer[0] == SUSPENDING


def depart_case(me: Rank) -> tuple[float, int, str]:
    stream, buffer = me.stream(), me.buffer(4096)
    me.comm.all_reduce(buffer.pointer, buffer.pointer, 10, "float32", stream)
    stream.synchronize()
    if me.rank == 1:
        me.comm.destroy()
        me.share(None)
        me.share(None)
        return 0.0, 0, ""
    me.share(None)
    assert me.comm.async_error()[0] == 0  # nobody needs rank 1 any more
    me.share(None)
    start = time.monotonic()
    with pytest.raises(HcclError):  # at the call already, when the other rank was told before
        me.comm.all_reduce(buffer.pointer, buffer.pointer, 10, "float32", stream)
        stream.synchronize()
    return time.monotonic() - start, *me.comm.async_error()


def test_collective_after_a_rank_destroyed_its_communicator_fails_at_once() -> None:
    with Ranks(3) as ranks:
        for took, code, text in [r for i, r in enumerate(ranks.run(depart_case)) if i != 1]:
            assert took < NOTICE
            assert code == REMOTE
            assert "rank 1 destroyed its communicator" in text
            assert "collective #1" in text


def exit_case(me: Rank) -> tuple[int, int, str] | None:
    """Rank 1 ends its process in order, without destroying: no error for who does not need it."""
    stream, buffer = me.stream(), me.buffer(4096)
    me.comm.all_reduce(buffer.pointer, buffer.pointer, 10, "float32", stream)
    stream.synchronize()
    peer = os.pidfd_open(me.share(os.getpid())[1])
    me.share(None)
    if me.rank == 1:
        ctypes.CDLL(None).exit(0)  # as at the end of main(); multiprocessing's own way out is _exit
    select.select([peer], [], [], 20)
    before = me.comm.async_error()[0]
    me.comm.all_reduce(buffer.pointer, buffer.pointer, 10, "float32", stream)
    with pytest.raises(HcclError):
        stream.synchronize()
    return before, *me.comm.async_error()


def test_process_that_ends_in_order_is_an_error_only_for_who_needs_it() -> None:
    ranks = Ranks(2)
    before, code, text = ranks.run(exit_case, dead={1})[0]
    ranks.kill()
    assert before == 0
    assert code == REMOTE
    assert "rank 1 ended its process" in text


def timeout_case(me: Rank) -> tuple[float, int, str]:
    limited = me.new_communicator("limited", exec_timeout=1)
    stream, buffer = me.stream(), me.buffer(4096)
    limited.all_reduce(buffer.pointer, buffer.pointer, 10, "float32", stream)
    stream.synchronize()
    if me.rank == 2:
        return 0.0, *limited.wait_for_error()
    start = time.monotonic()
    limited.all_reduce(buffer.pointer, buffer.pointer, 10, "float32", stream)
    with pytest.raises(HcclError):
        stream.synchronize()
    return time.monotonic() - start, *limited.async_error()


def test_execution_timeout_names_the_missing_rank_and_the_operation() -> None:
    with Ranks(3) as ranks:
        for took, code, text in ranks.run(timeout_case):
            assert took < 5
            assert code == TIMED_OUT
            assert "HcclAllReduce(count=10, FP32, SUM), collective #1 of communicator 'limited'" in text
            assert "waits for rank 2 to call it" in text


def dropped_case(me: Rank) -> tuple[int, str]:
    """Rank 1's work is stuck on its stream, which is then destroyed by force."""
    stream, buffer = me.stream(), me.buffer(4096)
    gate = threading.Event()
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: gate.wait())
    if me.rank == 1:
        me.acl("aclrtLaunchHostFunc", stream.handle, callback, None)
    me.comm.all_reduce(buffer.pointer, buffer.pointer, 10, "float32", stream)
    me.share(None)
    if me.rank == 1:
        threading.Timer(0.2, gate.set).start()
        me.acl("aclrtDestroyStreamForce", stream.handle)
    return me.comm.wait_for_error()


def test_operation_dropped_with_its_stream_fails_the_peers() -> None:
    with Ranks(2) as ranks:
        for code, text in ranks.run(dropped_case):
            assert code == SUSPENDING
            assert "rank 1" in text
            assert "stream was aborted" in text


def refused(call: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(HcclError) as error:
        call()
    return error.value.code, error.value.message


def join(me: Rank, info: ctypes.Array, ranks: int, rank: int) -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    me.acl("HcclCommInitRootInfo", ranks, info, rank, ctypes.byref(handle))
    return handle


def bootstrap_case(me: Rank) -> dict[str, tuple[int, str]]:
    me.acl("aclInit", None)
    me.acl("aclrtSetDevice", me.rank)
    found = {}
    info = me.root_info()
    found["sizes"] = refused(lambda: join(me, info, 2 + me.rank, me.rank))
    info = me.root_info()
    found["twice"] = refused(lambda: join(me, info, 2, 0))
    info = me.root_info()
    found["range"] = refused(lambda: join(me, info, 2, 2))
    found["foreign"] = refused(lambda: join(me, (ctypes.c_char * 4108)(), 2, me.rank))
    config = (ctypes.c_char * 2240)()
    handle = ctypes.c_void_p()
    found["config"] = refused(
        lambda: me.acl("HcclCommInitRootInfoConfig", 2, info, me.rank, config, ctypes.byref(handle))
    )
    info = me.root_info()
    if me.rank == 1:
        me.acl("aclrtSetDevice", 0)
    found["device"] = refused(lambda: join(me, info, 2, me.rank))
    info = me.root_info()
    start = time.monotonic()
    if me.rank == 0:
        found["missing"] = refused(lambda: join(me, info, 2, 0))
        assert time.monotonic() - start < 10
    me.share(None)
    return found


def test_failed_set_up_is_explained_on_every_rank() -> None:
    with Ranks(2, start=False, HCCL_CONNECT_TIMEOUT="2") as ranks:
        both = ranks.run(bootstrap_case)
    for found in both:
        assert found["sizes"][0] == PARA and "3 ranks" in found["sizes"][1] and "2 ranks" in found["sizes"][1]
        assert found["twice"][0] == PARA and "two processes joined as rank 0" in found["twice"][1]
        assert found["range"][0] == PARA and "rank 2 of 2" in found["range"][1]
        assert found["foreign"][0] == PARA and "not made by HcclGetRootInfo" in found["foreign"][1]
        assert found["config"][0] == PARA and "not initialised" in found["config"][1]
        assert found["device"][0] == PARA and "ranks 0 and 1 both use device 0" in found["device"][1]
    code, text = both[0]["missing"]
    assert code == TIMED_OUT
    assert "rank 1 never came" in text


def die_in_bootstrap(me: Rank) -> tuple[int, str] | None:
    me.acl("aclInit", None)
    me.acl("aclrtSetDevice", me.rank)
    info = me.root_info()
    if me.rank == 1:
        threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
    return refused(lambda: join(me, info, 3, me.rank))


def test_death_during_set_up_fails_the_others() -> None:
    ranks = Ranks(2, start=False)  # the third never exists
    results = ranks.run(die_in_bootstrap, dead={1}, timeout=20)
    ranks.kill()
    code, text = results[0]
    assert code == REMOTE
    assert "rank 1" in text and "ended" in text
