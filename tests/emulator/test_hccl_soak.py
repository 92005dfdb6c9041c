"""A random program, the same on all ranks: collectives and grouped messages on several communicators and streams."""

import ctypes

import numpy
import pytest
from hccl_ranks import DATA_TYPES, Buffer, Communicator, Rank, Ranks

pytestmark = pytest.mark.ranks

INT64 = DATA_TYPES["int64"]


def program(me: Rank, seed: int, steps: int) -> int:
    """Runs `steps` operations without waiting, then compares every result; returns how many were compared."""
    plan = numpy.random.default_rng(seed)  # drawn alike by all ranks
    comms = [me.comm, me.new_communicator("second")]
    streams = [me.stream(), me.stream()]
    checks: list[tuple[Buffer, numpy.ndarray]] = []
    u64 = ctypes.c_uint64

    def data(step: int, rank: int, count: int) -> numpy.ndarray:
        return numpy.random.default_rng([seed, step, rank]).integers(-99, 99, count)

    for step in range(steps):
        comm: Communicator = comms[plan.integers(2)]
        # Messages and collectives of one stream keep its order; on the other stream they run beside it.
        stream = streams[plan.integers(2)]
        count = int(plan.choice([1, 7, 900, 2000, 40_000, 150_000]))
        kind = plan.integers(4)
        n, r = me.size, me.rank
        inputs = [data(step, i, count) for i in range(n)]
        if kind == 0:
            buffer = me.buffer(inputs[r])
            comm.all_reduce(buffer.pointer, buffer.pointer, count, "int64", stream)
            checks.append((buffer, sum(inputs)))
        elif kind == 1:
            root = int(plan.integers(n))
            buffer = me.buffer(inputs[r])
            comm.broadcast(buffer.pointer, count, "int64", root, stream)
            checks.append((buffer, inputs[root]))
        elif kind == 2:
            send, recv = me.buffer(inputs[r]), me.buffer(8 * count * n)
            me.acl("HcclAllGather", send.pointer, recv.pointer, u64(count), INT64, comm.handle, stream.handle)
            checks.append((recv, numpy.concatenate(inputs)))
        else:
            shift = int(plan.integers(1, n)) if n > 1 else 0
            send, recv = me.buffer(inputs[r]), me.buffer(8 * count)
            me.acl("HcclGroupStart")
            comm.send(send.pointer, count, "int64", (r + shift) % n, stream)
            comm.recv(recv.pointer, count, "int64", (r - shift) % n, stream)
            me.acl("HcclGroupEnd")
            checks.append((recv, inputs[(r - shift) % n]))
    for stream in streams:
        stream.synchronize()
    for buffer, expected in checks:
        numpy.testing.assert_array_equal(buffer.read("int64", len(expected)), expected)
        buffer.close()
    comms[1].destroy()
    for stream in streams:
        stream.close()
    return len(checks)


@pytest.mark.parametrize("size", [2, 5])
def test_random_program_equals_numpy(size: int) -> None:
    with Ranks(size) as ranks:
        for seed in range(3):
            assert ranks.run(program, seed, 30) == [30] * size


@pytest.mark.slow
def test_long_random_program_equals_numpy() -> None:
    with Ranks(8, TORCH_NPU_EMULATOR_MEMORY="1GiB") as ranks:
        for seed in range(100, 130):
            assert ranks.run(program, seed, 40) == [40] * 8


def create(me: Rank) -> int:
    comm, stream, buffer = me.new_communicator(), me.stream(), me.buffer(numpy.ones(3, "int64"))
    comm.all_reduce(buffer.pointer, buffer.pointer, 3, "int64", stream)
    stream.synchronize()
    result = int(buffer.read("int64", 1)[0])
    me.share(None)
    comm.destroy()
    return result


@pytest.mark.slow
def test_communicator_of_64_ranks_works() -> None:
    with Ranks(64, TORCH_NPU_EMULATOR_MEMORY="64MiB") as ranks:
        assert ranks.run(create) == [64] * 64
