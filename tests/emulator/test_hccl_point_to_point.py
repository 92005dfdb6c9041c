"""Sends and receives of the emulator's HCCL."""

import ctypes
from collections.abc import Callable, Iterator

import numpy
import pytest
from hccl_ranks import DATA_TYPES, PARA, TIMED_OUT, HcclError, Rank, Ranks, SendRecvItem

pytestmark = pytest.mark.ranks

SMALL = 100  # elements; copied into the channel
LARGE = 4 << 20  # read from the sender's memory: 16 MiB


@pytest.fixture(scope="module")
def ranks() -> Iterator[Callable[[int], Ranks]]:
    kept: dict[int, Ranks] = {}

    def get(size: int) -> Ranks:
        if size not in kept or not kept[size].usable:
            kept[size] = Ranks(size)
        return kept[size]

    yield get
    for item in kept.values():
        item.close()


def data(rank: int, count: int, message: int = 0) -> numpy.ndarray:
    return numpy.random.default_rng([rank, message]).integers(-1000, 1000, count, "int32")


def ring_case(me: Rank, count: int, rounds: int) -> None:
    """Each rank passes its data around the whole ring; rank 0 sends first, the others receive first."""
    stream = me.stream()
    left, right = (me.rank - 1) % me.size, (me.rank + 1) % me.size
    buffer, spare = me.buffer(data(me.rank, count)), me.buffer(4 * count)
    for _ in range(rounds):
        if me.rank == 0:
            me.comm.send(buffer.pointer, count, "int32", right, stream)
            me.comm.recv(spare.pointer, count, "int32", left, stream)
        else:
            me.comm.recv(spare.pointer, count, "int32", left, stream)
            me.comm.send(buffer.pointer, count, "int32", right, stream)
        buffer, spare = spare, buffer
    stream.synchronize()
    numpy.testing.assert_array_equal(buffer.read("int32", count), data((me.rank - rounds) % me.size, count))
    stream.close()


@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize("count", [0, 1, SMALL, 2048, 2049, LARGE])
def test_ring_of_sends_hands_data_on(ranks: Callable, size: int, count: int) -> None:
    ranks(size).run(ring_case, count, size + 1)


def order_case(me: Rank) -> None:
    """Small and large messages of one pair arrive in the order of the calls, however far ahead the sender is."""
    stream = me.stream()
    counts = [1, 5000, 3, 0, 70_000, 2, 2, 2, 2, 2, 2, 9000, 4]
    buffers = [me.buffer(data(0, c, i) if me.rank == 0 else 4 * c) for i, c in enumerate(counts)]
    for buffer, count in zip(buffers, counts, strict=True):
        if me.rank == 0:
            me.comm.send(buffer.pointer, count, "int32", 1, stream)
        else:
            me.comm.recv(buffer.pointer, count, "int32", 0, stream)
    stream.synchronize()
    if me.rank == 1:
        for i, (buffer, count) in enumerate(zip(buffers, counts, strict=True)):
            numpy.testing.assert_array_equal(buffer.read("int32", count), data(0, count, i))
    stream.close()


def test_messages_of_a_pair_arrive_in_order(ranks: Callable) -> None:
    ranks(2).run(order_case)


def early_case(me: Rank) -> None:
    """A small send ends before its receive is called, a large one does not."""
    stream = me.stream()
    small, large = me.buffer(data(0, SMALL)), me.buffer(data(0, LARGE))
    if me.rank == 0:
        me.comm.send(small.pointer, SMALL, "int32", 1, stream)
        stream.synchronize()
        me.comm.send(large.pointer, LARGE, "int32", 1, stream)
        event = ctypes.c_void_p()
        me.acl("aclrtCreateEventExWithFlag", ctypes.byref(event), 1)  # ACL_EVENT_SYNC
        me.acl("aclrtRecordEvent", event, stream.handle)
        status = ctypes.c_int(-1)
        me.acl("aclrtQueryEventStatus", event, ctypes.byref(status))
        assert status.value == 0  # ACL_EVENT_RECORDED_STATUS_NOT_READY
        me.share(None)
        stream.synchronize()
        me.acl("aclrtQueryEventStatus", event, ctypes.byref(status))
        assert status.value == 1
    else:
        me.share(None)
        me.comm.recv(small.pointer, SMALL, "int32", 0, stream)
        me.comm.recv(large.pointer, LARGE, "int32", 0, stream)
        stream.synchronize()
        numpy.testing.assert_array_equal(large.read("int32", LARGE), data(0, LARGE))
    stream.close()


def test_large_send_ends_with_its_receive(ranks: Callable) -> None:
    ranks(2).run(early_case)


def group_case(me: Rank, count: int, batch: bool) -> None:
    """Everybody sends to everybody, itself too, sends first: a deadlock without the group."""
    stream = me.stream()
    peers = range(me.size)
    outgoing = [me.buffer(data(me.rank, count, p)) for p in peers]
    incoming = [me.buffer(4 * count) for _ in peers]
    if batch:
        items = [SendRecvItem(0, outgoing[p].pointer.value, count, DATA_TYPES["int32"], p) for p in peers]
        items += [SendRecvItem(1, incoming[p].pointer.value, count, DATA_TYPES["int32"], p) for p in peers]
        me.acl(
            "HcclBatchSendRecv", (SendRecvItem * len(items))(*items), len(items), me.comm.handle, stream.handle
        )
    else:
        me.acl("HcclGroupStart")
        for p in peers:
            me.comm.send(outgoing[p].pointer, count, "int32", p, stream)
        for p in peers:
            me.comm.recv(incoming[p].pointer, count, "int32", p, stream)
        me.acl("HcclGroupEnd")
    stream.synchronize()
    for p in peers:
        numpy.testing.assert_array_equal(incoming[p].read("int32", count), data(p, count, me.rank))
        incoming[p].close()
        outgoing[p].close()
    stream.close()


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("count", [SMALL, 300_000])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_grouped_messages_cannot_deadlock(ranks: Callable, size: int, count: int, batch: bool) -> None:
    ranks(size).run(group_case, count, batch)


def nested_case(me: Rank) -> None:
    """Groups nest, and may span communicators: one thread's sends on one and receives on the other."""
    other = me.new_communicator("other")
    stream, peer, count = me.stream(), 1 - me.rank, 200_000
    first, second = (me.comm, other) if me.rank == 0 else (other, me.comm)
    send, recv = me.buffer(data(me.rank, count)), me.buffer(4 * count)
    me.acl("HcclGroupStart")
    first.send(send.pointer, count, "int32", peer, stream)
    me.acl("HcclGroupStart")
    second.recv(recv.pointer, count, "int32", peer, stream)
    me.acl("HcclGroupEnd")
    me.acl("HcclGroupEnd")
    stream.synchronize()
    numpy.testing.assert_array_equal(recv.read("int32", count), data(peer, count))
    me.share(None)
    other.destroy()
    stream.close()


def test_group_may_nest_and_span_communicators(ranks: Callable) -> None:
    ranks(2).run(nested_case)


def fragmented_case(me: Rank) -> None:
    """Memory mapped piece by piece in reverse order, as expandable segments may be: contiguous for its owner only."""

    class Location(ctypes.Structure):
        _fields_ = [("id", ctypes.c_uint32), ("type", ctypes.c_uint32)]

    class Property(ctypes.Structure):
        _fields_ = [
            ("handle_type", ctypes.c_uint32), ("allocation_type", ctypes.c_uint32), ("attribute", ctypes.c_uint32),
            ("location", Location), ("reserve", ctypes.c_uint64),
        ]  # fmt: skip

    piece, pieces = 2 << 20, 5
    prop = Property(0, 0, 4, Location(me.rank, 1), 0)  # pinned, huge pages of device memory
    size = ctypes.c_size_t(piece)
    start = ctypes.c_void_p()
    whole = ctypes.c_size_t(piece * pieces)
    me.acl("aclrtReserveMemAddress", ctypes.byref(start), whole, size_zero(), None, ctypes.c_uint64(1))
    handles = [ctypes.c_void_p() for _ in range(pieces)]
    for handle in handles:
        me.acl("aclrtMallocPhysical", ctypes.byref(handle), size, ctypes.byref(prop), ctypes.c_uint64(0))
    for i, handle in enumerate(reversed(handles)):
        me.acl("aclrtMapMem", ctypes.c_void_p(start.value + i * piece), size, size_zero(), handle, ctypes.c_uint64(0))

    count, stream = piece * pieces // 4, me.stream()
    nbytes = ctypes.c_size_t(4 * count)
    mine = data(me.rank, count)
    out = numpy.empty(count, "int32")

    def copy(target: int, source: int, kind: int) -> None:
        me.acl("aclrtMemcpy", ctypes.c_void_p(target), nbytes, ctypes.c_void_p(source), nbytes, kind)

    copy(start.value, mine.ctypes.data, 1)
    me.comm.all_reduce(start, start, count, "int32", stream)
    stream.synchronize()
    copy(out.ctypes.data, start.value, 2)
    numpy.testing.assert_array_equal(out, data(0, count) + data(1, count))

    copy(start.value, mine.ctypes.data, 1)
    if me.rank == 0:
        me.comm.send(start, count, "int32", 1, stream)
    else:
        me.comm.recv(start, count, "int32", 0, stream)
    stream.synchronize()
    copy(out.ctypes.data, start.value, 2)
    numpy.testing.assert_array_equal(out, data(0, count))
    me.share(None)
    for i, handle in enumerate(handles):
        me.acl("aclrtUnmapMem", ctypes.c_void_p(start.value + i * piece))
        me.acl("aclrtFreePhysical", handle)
    me.acl("aclrtReleaseMemAddress", start)
    stream.close()


def size_zero() -> ctypes.c_size_t:
    return ctypes.c_size_t(0)


def test_memory_mapped_in_pieces_can_be_communicated(ranks: Callable) -> None:
    ranks(2).run(fragmented_case)


def mismatch_case(me: Rank) -> tuple[str, int, str]:
    stream = me.stream()
    buffer = me.buffer(4096)
    if me.rank == 0:
        me.comm.send(buffer.pointer, 10, "float32", 1, stream)
    else:
        me.comm.recv(buffer.pointer, 9, "int32", 0, stream)
        with pytest.raises(HcclError) as error:
            stream.synchronize()
        assert "10 x FP32" in error.value.message
    code, text = me.comm.wait_for_error()
    me.share(None)
    with pytest.raises(HcclError) as later:
        me.comm.send(buffer.pointer, 10, "float32", 1 - me.rank, stream)
    me.comm.destroy()
    return text, code, later.value.message


def test_send_and_receive_that_differ_fail_on_both_ranks_with_both_values() -> None:
    with Ranks(2) as pair:
        for text, code, later in pair.run(mismatch_case):
            assert code == PARA
            assert "rank 0 sends 10 x FP32" in text
            assert "rank 1 receives 9 x INT32" in text
            assert text in later


def cycle_case(me: Rank) -> tuple[int, str, str]:
    """Everybody sends 16 MiB to the next rank, then receives from the one before."""
    stream = me.stream()
    send, recv = me.buffer(4 * LARGE), me.buffer(4 * LARGE)
    me.comm.send(send.pointer, LARGE, "float32", (me.rank + 1) % me.size, stream)
    me.comm.recv(recv.pointer, LARGE, "float32", (me.rank - 1) % me.size, stream)
    with pytest.raises(HcclError) as error:
        stream.synchronize()
    code, text = me.comm.async_error()
    return code, text, error.value.message


@pytest.mark.parametrize("size", [2, 3])
def test_cycle_of_blocking_sends_is_reported_as_a_deadlock(size: int) -> None:
    with Ranks(size) as ring:
        for code, text, message in ring.run(cycle_case, timeout=15):
            assert code == TIMED_OUT
            assert "deadlock" in text
            for rank in range(size):
                assert f"rank {rank} sends {LARGE} x FP32 to rank {(rank + 1) % size}" in text
            assert "batch_isend_irecv" in text
            assert text in message


def slow_case(me: Rank) -> None:
    """A receive that is called late, and on another stream, is no deadlock."""
    first, second = me.stream(), me.stream()
    send, recv = me.buffer(data(me.rank, LARGE)), me.buffer(4 * LARGE)
    me.comm.send(send.pointer, LARGE, "int32", 1 - me.rank, first)
    with pytest.raises(AssertionError, match="no asynchronous error"):
        me.comm.wait_for_error(1.6)  # longer than the search for cycles takes to be certain
    me.comm.recv(recv.pointer, LARGE, "int32", 1 - me.rank, second)
    first.synchronize()
    second.synchronize()
    numpy.testing.assert_array_equal(recv.read("int32", LARGE), data(1 - me.rank, LARGE))
    first.close()
    second.close()


def test_late_receive_on_another_stream_is_not_reported(ranks: Callable) -> None:
    ranks(2).run(slow_case)
