"""Creation, names, sub-communicators, several ranks in one process, and what is left afterwards."""

import ctypes
import os
import threading
from collections.abc import Callable, Iterator

import numpy
import pytest
from hccl_ranks import (
    CONFIG_BYTES,
    NOT_SUPPORT,
    PARA,
    ROOT_INFO_BYTES,
    Buffer,
    Communicator,
    HcclError,
    Rank,
    Ranks,
    Stream,
    config_bytes,
)

pytestmark = pytest.mark.ranks


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


def total(comm: Communicator, buffer: Buffer, stream: Stream, value: int) -> int:
    """The sum of every member's value."""
    buffer.write(numpy.full(5, value, "int64"))
    comm.all_reduce(buffer.pointer, buffer.pointer, 5, "int64", stream)
    stream.synchronize()
    result = buffer.read("int64", 5)
    assert (result == result[0]).all()
    return int(result[0])


def names_case(me: Rank) -> list[str]:
    names = []
    for size in (32, 160, 2232, CONFIG_BYTES, 2248):  # what programs of different ages bring
        handle = ctypes.c_void_p()
        config = config_bytes("my_group", size=size)
        if size > CONFIG_BYTES:
            config = (ctypes.c_char * size).from_buffer_copy(bytes(config) + bytes(size - CONFIG_BYTES))
        me.acl("HcclCommInitRootInfoConfig", me.size, me.root_info(), me.rank, config, ctypes.byref(handle))
        text = ctypes.create_string_buffer(b"x" * 127)
        me.acl("HcclGetCommName", handle, text)
        names.append(text.value.decode())
        me.acl("HcclCommDestroy", handle)
    return names


def test_name_is_taken_from_a_configuration_that_has_room_for_it(ranks: Callable) -> None:
    first, second = ranks(2).run(names_case)
    assert first == second
    assert first[0].startswith("hccl_")
    assert first[1:] == ["my_group"] * 4


def capability_case(me: Rank) -> tuple[int, int, str]:
    with pytest.raises(HcclError) as error:
        me.acl("HcclCommResume", me.comm.handle)
    return me.acl.lib.HcclGetCommConfigCapability(), error.value.code, error.value.message


def test_capability_covers_names_and_what_is_missing_says_so(ranks: Callable) -> None:
    for capability, code, message in ranks(2).run(capability_case):
        assert capability > 2  # HCCL_COMM_CONFIG_COMM_NAME
        assert code == NOT_SUPPORT
        assert "destroy it" in message


def split(me: Rank, members: list[int] | None, split_id: int, name: str = "") -> Communicator | None:
    handle = ctypes.c_void_p()
    parent = ctypes.c_void_p(me.comm.handle.value)
    if members is None:
        me.acl("HcclCreateSubCommConfig", ctypes.byref(parent), 0, None, ctypes.c_uint64(split_id), 0,
               config_bytes(), ctypes.byref(handle))  # fmt: skip
        assert handle.value is None
        return None
    ids = (ctypes.c_uint32 * len(members))(*members)
    rank = members.index(me.rank)
    me.acl("HcclCreateSubCommConfig", ctypes.byref(parent), len(members), ids, ctypes.c_uint64(split_id), rank,
           config_bytes(name), ctypes.byref(handle))  # fmt: skip
    return Communicator(me.acl, handle, rank, len(members))


def split_case(me: Rank) -> None:
    stream, buffer = me.stream(), me.buffer(64)
    members = [r for r in range(me.size) if r % 2 == me.rank % 2]
    half = split(me, members, 7, "half")
    assert total(half, buffer, stream, me.rank) == sum(members)
    assert total(me.comm, buffer, stream, 1) == me.size
    again = split(me, members, 7)  # the same split once more is another communicator
    assert total(again, buffer, stream, me.rank + 1) == sum(members) + len(members)
    backwards = split(me, list(reversed(range(me.size))), 8)
    buffer.write(numpy.full(1, me.rank, "int64"))
    backwards.broadcast(buffer.pointer, 1, "int64", 0, stream)  # its rank 0 is our last
    stream.synchronize()
    assert buffer.read("int64", 1)[0] == me.size - 1
    some = split(me, [1, 3] if me.rank in (1, 3) else None, 9)
    if some is not None:
        assert total(some, buffer, stream, me.rank) == 4
    # A part outlives the communicator that it came from, here: another part of the same parent.
    me.share(None)
    half.destroy()
    assert total(again, buffer, stream, 1) == len(members)
    me.share(None)
    for comm in (again, backwards, some):
        if comm is not None:
            comm.destroy()
    stream.close()


def test_sub_communicators_of_some_ranks_work(ranks: Callable) -> None:
    ranks(5).run(split_case)


def bad_split_case(me: Rank) -> tuple[int, str]:
    handle, parent = ctypes.c_void_p(), ctypes.c_void_p(me.comm.handle.value)
    ids = (ctypes.c_uint32 * 2)(0, 0)
    with pytest.raises(HcclError) as error:
        me.acl("HcclCreateSubCommConfig", ctypes.byref(parent), 2, ids, ctypes.c_uint64(1), 0, config_bytes(),
               ctypes.byref(handle))  # fmt: skip
    return error.value.code, error.value.message


def test_sub_communicator_with_a_rank_twice_is_refused(ranks: Callable) -> None:
    for code, message in ranks(2).run(bad_split_case):
        assert code == PARA
        assert "rank 0 is in rankIds more than once" in message


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def leak_case(me: Rank) -> tuple[int, int, int, int]:
    stream, buffer = me.stream(), me.buffer(64)

    def cycle() -> None:
        comm = me.new_communicator()
        assert total(comm, buffer, stream, 1) == me.size
        me.share(None)
        comm.destroy()

    def mappings() -> int:
        with open("/proc/self/maps") as lines:
            return sum("npu-hccl" in line for line in lines)

    cycle()
    me.share(None)
    before, mapped = descriptors(), mappings()
    for _ in range(10):
        cycle()
    me.share(None)
    stream.close()
    return before, descriptors(), mapped, mappings()


def test_communicators_leave_no_descriptor_and_no_mapping(ranks: Callable) -> None:
    for before, after, mapped, mapped_after in ranks(3).run(leak_case):
        # The peer watch lets go of ended communicators when it next looks; it holds no descriptor of its own for them.
        assert after <= before
        assert mapped_after <= mapped


def fork_case(me: Rank) -> int:
    """A forked child can neither use the communicator nor disturb it."""
    stream, buffer = me.stream(), me.buffer(64)
    child = os.fork()
    if child == 0:
        try:
            me.comm.all_reduce(buffer.pointer, buffer.pointer, 1, "float32", stream)
        except HcclError as error:
            os._exit(42 if "fork" in error.message else 1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert total(me.comm, buffer, stream, 1) == me.size
    stream.close()
    return status


def test_forked_child_is_refused_and_does_not_disturb(ranks: Callable) -> None:
    assert ranks(2).run(fork_case) == [42, 42]


def threads_case(me: Rank, size: int) -> None:
    """All ranks are threads of this process, each with its own device."""
    me.acl("aclInit", None)
    me.acl("aclrtSetDevice", 0)
    info = (ctypes.c_char * ROOT_INFO_BYTES)()
    me.acl("HcclGetRootInfo", info)
    errors: list[BaseException] = []
    barrier = threading.Barrier(size)

    def rank_thread(rank: int) -> None:
        try:
            me.acl("aclrtSetDevice", rank)
            handle = ctypes.c_void_p()
            me.acl("HcclCommInitRootInfo", size, info, rank, ctypes.byref(handle))
            comm = Communicator(me.acl, handle, rank, size)
            stream, count = Stream(me.acl), 200_000
            buffer = Buffer(me.acl, 8 * count)
            assert total(comm, buffer, stream, rank + 1) == size * (size + 1) // 2
            buffer.write(numpy.arange(count) * rank)
            comm.all_reduce(buffer.pointer, buffer.pointer, count, "int64", stream)
            stream.synchronize()
            expected = numpy.arange(count) * (size * (size - 1) // 2)
            numpy.testing.assert_array_equal(buffer.read("int64", count), expected)
            other = Buffer(me.acl, 8 * count)
            me.acl("HcclGroupStart")
            comm.send(buffer.pointer, count, "int64", (rank + 1) % size, stream)
            comm.recv(other.pointer, count, "int64", (rank - 1) % size, stream)
            me.acl("HcclGroupEnd")
            stream.synchronize()
            numpy.testing.assert_array_equal(other.read("int64", count), expected)
            barrier.wait(20)
            comm.destroy()
        except BaseException as error:
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=rank_thread, args=(r,)) for r in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.mark.parametrize("size", [1, 4])
def test_ranks_that_are_threads_of_one_process_work(size: int) -> None:
    with Ranks(1, start=False, TORCH_NPU_EMULATOR_DEVICES="4") as process:
        process.run(threads_case, size)


def init_all_case(me: Rank) -> None:
    """One thread makes the communicators of all devices and uses them in turn."""
    me.acl("aclInit", None)
    size = 3
    devices = (ctypes.c_int32 * size)(*range(size))
    handles = (ctypes.c_void_p * size)()
    me.acl("HcclCommInitAll", size, devices, handles)
    work = []
    for rank in range(size):
        me.acl("aclrtSetDevice", rank)
        stream, buffer = Stream(me.acl), Buffer(me.acl, 64)
        buffer.write(numpy.full(5, rank, "int64"))
        comm = Communicator(me.acl, ctypes.c_void_p(handles[rank]), rank, size)
        comm.all_reduce(buffer.pointer, buffer.pointer, 5, "int64", stream)
        work.append((stream, buffer, comm))
    for rank, (stream, buffer, comm) in enumerate(work):
        me.acl("aclrtSetDevice", rank)
        stream.synchronize()
        assert (buffer.read("int64", 5) == 3).all()
        comm.destroy()


def test_init_all_makes_the_communicators_of_one_process() -> None:
    with Ranks(1, start=False, TORCH_NPU_EMULATOR_DEVICES="3") as process:
        process.run(init_all_case)


def test_nothing_is_left_in_shared_memory() -> None:
    before = set(os.listdir("/dev/shm"))
    with Ranks(2) as pair:
        pair.run(split_pair_case)
        during = set(os.listdir("/dev/shm")) - before
    left = set(os.listdir("/dev/shm")) - before
    assert not [name for name in during | left if "npu" in name or "hccl" in name]


def split_pair_case(me: Rank) -> None:
    stream, buffer = me.stream(), me.buffer(64)
    assert total(split(me, [0, 1], 1), buffer, stream, 1) == 2
