"""Collectives of the emulator against numpy, between processes."""

import ctypes
from collections.abc import Callable, Iterator

import numpy
import pytest
from hccl_ranks import DATA_TYPES, NOT_SUPPORT, PARA, PTR, REDUCE_OPS, HcclError, Rank, Ranks

pytestmark = pytest.mark.ranks

SIZES = [1, 2, 5, 8]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


@pytest.fixture(scope="module")
def ranks() -> Iterator[Callable[[int], Ranks]]:
    """Ranks of a size, kept for the module; replaced after a failure."""
    kept: dict[int, Ranks] = {}

    def get(size: int) -> Ranks:
        if size not in kept or not kept[size].usable:
            kept[size] = Ranks(size)
        return kept[size]

    yield get
    for item in kept.values():
        item.close()


def values(rank: int, count: int, dtype: str, seed: int = 0) -> numpy.ndarray:
    """A rank's input, which every rank can compute."""
    generator = numpy.random.default_rng([seed, rank, count])
    if dtype in INTEGERS:
        info = numpy.iinfo(dtype)
        return generator.integers(info.min, info.max, count, dtype, endpoint=True)
    if dtype == "bfloat16":
        return to_bfloat16(generator.standard_normal(count).astype("float32"))
    return generator.standard_normal(count).astype(dtype)


def to_bfloat16(array: numpy.ndarray) -> numpy.ndarray:
    """float32 to the upper 16 bits, to nearest even."""
    bits = array.astype("float32").view("uint32").astype("uint64")
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("uint16")


def from_bfloat16(bits: numpy.ndarray) -> numpy.ndarray:
    return (bits.astype("uint32") << 16).view("float32")


def reduced(inputs: list[numpy.ndarray], op: str, dtype: str) -> numpy.ndarray:
    """The reduction in rank order, 16-bit floats in float32."""
    function = {"sum": numpy.add, "prod": numpy.multiply, "max": numpy.maximum, "min": numpy.minimum}[op]
    if dtype == "float16":
        wide = [i.astype("float32") for i in inputs]
    elif dtype == "bfloat16":
        wide = [from_bfloat16(i) for i in inputs]
    else:
        wide = inputs
    total = wide[0].copy()
    with numpy.errstate(all="ignore"):
        for item in wide[1:]:
            total = function(total, item)
    return to_bfloat16(total) if dtype == "bfloat16" else total.astype(inputs[0].dtype)


def storage(dtype: str) -> str:
    return "uint16" if dtype == "bfloat16" else dtype


def all_reduce_case(me: Rank, dtype: str, op: str, counts: list[int], in_place: bool) -> None:
    stream = me.stream()
    for count in counts:
        inputs = [values(r, count, dtype) for r in range(me.size)]
        send = me.buffer(inputs[me.rank])
        recv = send if in_place else me.buffer(numpy.full(count, 7, storage(dtype)))
        me.comm.all_reduce(send.pointer, recv.pointer, count, dtype, stream, op)
        stream.synchronize()
        numpy.testing.assert_array_equal(recv.read(storage(dtype), count), reduced(inputs, op, dtype))
        if not in_place:
            numpy.testing.assert_array_equal(send.read(storage(dtype), count), inputs[me.rank])
        send.close()
        if not in_place:
            recv.close()
    stream.close()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("in_place", [False, True])
def test_all_reduce_of_any_count_equals_numpy(ranks: Callable, size: int, in_place: bool) -> None:
    # Around the sizes at which helpers join in and at which chunks and blocks end.
    counts = [0, 1, 3, 1024, 1025, 16384, 65537, 300_001]
    ranks(size).run(all_reduce_case, "float32", "sum", counts, in_place)


@pytest.mark.parametrize("op", list(REDUCE_OPS))
@pytest.mark.parametrize("dtype", [*INTEGERS, "float16", "bfloat16", "float32", "float64"])
def test_all_reduce_of_type_and_op_equals_numpy_bit_by_bit(ranks: Callable, dtype: str, op: str) -> None:
    ranks(5).run(all_reduce_case, dtype, op, [2051], False)


def extremes_case(me: Rank) -> None:
    """Half: all 65536 patterns through decode, add and encode, except that NaN may differ in its bits."""
    stream = me.stream()
    patterns = numpy.arange(65536, dtype="uint16")
    other = numpy.random.default_rng(1).permutation(patterns)
    for dtype in ("float16", "bfloat16"):
        for op in REDUCE_OPS:
            buffer = me.buffer(patterns if me.rank == 0 else other)
            me.comm.all_reduce(buffer.pointer, buffer.pointer, 65536, dtype, stream, op)
            stream.synchronize()
            got = buffer.read("uint16", 65536)
            inputs = [patterns, other]
            if dtype == "float16":
                want = reduced([i.view("float16") for i in inputs], op, dtype)
                numpy.testing.assert_array_equal(got.view("float16"), want)
            else:
                wide = reduced([from_bfloat16(i) for i in inputs], op, "float32")
                nan = numpy.isnan(wide)
                numpy.testing.assert_array_equal(numpy.isnan(from_bfloat16(got)), nan)
                same_sign_zero = from_bfloat16(to_bfloat16(wide[~nan]))
                numpy.testing.assert_array_equal(from_bfloat16(got[~nan]), same_sign_zero)
            buffer.close()
    stream.close()


def test_all_reduce_of_every_16_bit_pattern_equals_numpy(ranks: Callable) -> None:
    ranks(2).run(extremes_case)


def float8_values(exponent_bits: int, has_infinity: bool) -> numpy.ndarray:
    """The value of each 8-bit pattern, from the definition of the formats (OCP 8-bit floating point, 2023)."""
    mantissa_bits = 7 - exponent_bits
    bias = 2 ** (exponent_bits - 1) - 1
    table = numpy.empty(256)
    for bits in range(256):
        exponent, mantissa = bits >> mantissa_bits & (2**exponent_bits - 1), bits & (2**mantissa_bits - 1)
        if exponent == 0:
            value = mantissa * 2.0 ** (1 - bias - mantissa_bits)
        else:
            value = (1 + mantissa / 2**mantissa_bits) * 2.0 ** (exponent - bias)
        top = exponent == 2**exponent_bits - 1
        if has_infinity and top:
            value = numpy.inf if mantissa == 0 else numpy.nan
        elif top and mantissa == 2**mantissa_bits - 1:
            value = numpy.nan
        table[bits] = -value if bits & 128 else value
    return table


def float8_case(me: Rank, dtype: str, exponent_bits: int, has_infinity: bool) -> None:
    """All 65536 pairs of patterns: the sum must be the nearest value of the format, ties to even patterns."""
    table = float8_values(exponent_bits, has_infinity)
    first, second = (a.ravel().astype("uint8") for a in numpy.meshgrid(numpy.arange(256), numpy.arange(256)))
    stream = me.stream()
    buffer = me.buffer(first if me.rank == 0 else second)
    me.comm.all_reduce(buffer.pointer, buffer.pointer, 65536, dtype, stream)
    stream.synchronize()
    got = buffer.read("uint8", 65536)
    with numpy.errstate(invalid="ignore"):
        exact = (table[first].astype("float32") + table[second].astype("float32")).astype("float64")
    finite = [b for b in range(128) if numpy.isfinite(table[b])]
    grid = table[finite]
    largest, step = grid[-1], grid[-1] - grid[-2]
    magnitude = numpy.abs(exact)
    # Half a step above the largest number and more is out of range; the tie goes to the even pattern.
    limit = largest + step / 2
    over = (magnitude > limit) | ((magnitude == limit) & bool(finite[-1] & 1))
    nan = numpy.isnan(exact) | (over & (not has_infinity))
    numpy.testing.assert_array_equal(numpy.isnan(table[got]), nan)
    if has_infinity:
        numpy.testing.assert_array_equal(table[got][over & ~nan], numpy.copysign(numpy.inf, exact[over & ~nan]))
    inside = ~nan & ~over
    m = magnitude[inside]
    above = numpy.clip(numpy.searchsorted(grid, m), 1, len(grid) - 1)
    low, high = grid[above - 1], grid[above]
    even_is_low = (above - 1) % 2 == 0
    nearest = numpy.where((m - low < high - m) | ((m - low == high - m) & even_is_low), low, high)
    numpy.testing.assert_array_equal(numpy.abs(table[got][inside]), nearest)
    buffer.close()
    stream.close()


@pytest.mark.parametrize(("dtype", "exponent_bits", "has_infinity"), [("fp8e4m3", 4, False), ("fp8e5m2", 5, True)])
def test_all_reduce_of_every_8_bit_float_pair_rounds_to_nearest_even(
    ranks: Callable, dtype: str, exponent_bits: int, has_infinity: bool
) -> None:
    ranks(2).run(float8_case, dtype, exponent_bits, has_infinity)


def wide_integer_case(me: Rank) -> None:
    numbers = [[3, -5, 2**100, -(2**126)], [10, -7, 2**90, -(2**126)]]
    stream = me.stream()
    for op, expected in (
        ("sum", [13, -12, 2**100 + 2**90, -(2**127)]),
        ("prod", [30, 35, (2**190) % 2**128, 0]),
        ("max", [10, -5, 2**100, -(2**126)]),
        ("min", [3, -7, 2**90, -(2**126)]),
    ):
        raw = b"".join(n.to_bytes(16, "little", signed=True) for n in numbers[me.rank])
        buffer = me.buffer(numpy.frombuffer(raw, "uint8"))
        me.comm.all_reduce(buffer.pointer, buffer.pointer, 4, "int128", stream, op)
        stream.synchronize()
        data = buffer.read("uint8", 64).tobytes()
        assert [int.from_bytes(data[i : i + 16], "little", signed=True) for i in range(0, 64, 16)] == expected
        buffer.close()
    stream.close()


def test_all_reduce_of_128_bit_integers_equals_python(ranks: Callable) -> None:
    ranks(2).run(wide_integer_case)


def nan_case(me: Rank) -> None:
    stream = me.stream()
    mine = [[numpy.nan, 1, 2], [1, numpy.nan, 3]][me.rank]
    for op, last in (("max", 3), ("min", 2)):
        buffer = me.buffer(numpy.array(mine, "float32"))
        me.comm.all_reduce(buffer.pointer, buffer.pointer, 3, "float32", stream, op)
        stream.synchronize()
        numpy.testing.assert_array_equal(buffer.read("float32", 3), [numpy.nan, numpy.nan, last])
        buffer.close()
    stream.close()


def test_max_and_min_with_nan_give_nan(ranks: Callable) -> None:
    ranks(2).run(nan_case)


def unsupported_case(me: Rank) -> list[tuple[int, str]]:
    stream = me.stream()
    buffer = me.buffer(64)
    found = []
    for dtype, op in (("hif8", "sum"), ("fp8e8m0", "sum")):
        with pytest.raises(HcclError) as error:
            me.comm.all_reduce(buffer.pointer, buffer.pointer, 4, dtype, stream, op)
        found.append((error.value.code, error.value.message))
    # What has no arithmetic can be copied all the same.
    data = numpy.arange(64, dtype="uint8") if me.rank == 0 else numpy.zeros(64, "uint8")
    buffer.write(data)
    me.comm.broadcast(buffer.pointer, 64, "hif8", 0, stream)
    stream.synchronize()
    numpy.testing.assert_array_equal(buffer.read("uint8", 64), numpy.arange(64))
    buffer.close()
    stream.close()
    return found


def test_reduction_of_a_type_without_arithmetic_says_why(ranks: Callable) -> None:
    for found in ranks(2).run(unsupported_case):
        assert [code for code, _ in found] == [NOT_SUPPORT, NOT_SUPPORT]
        assert "HIF8" in found[0][1]
        assert "powers of two" in found[1][1]


def movement_case(me: Rank, count: int) -> None:
    """Every operation that is no all-reduce, once, on int32."""
    n, r, acl, stream = me.size, me.rank, me.acl, me.stream()
    u64, kind = ctypes.c_uint64, DATA_TYPES["int32"]
    inputs = [values(i, count, "int32") for i in range(n)]
    wide = [values(i, count * n, "int32", 1) for i in range(n)]

    def check(recv, expected) -> None:
        stream.synchronize()
        numpy.testing.assert_array_equal(recv.read("int32", len(expected)), expected)
        recv.close()

    for root in {0, n - 1}:
        buffer = me.buffer(inputs[r])
        me.comm.broadcast(buffer.pointer, count, "int32", root, stream)
        check(buffer, inputs[root])

        send, recv = me.buffer(inputs[r]), me.buffer(numpy.full(count, 9, "int32"))
        acl(
            "HcclReduce", send.pointer, recv.pointer, u64(count), kind, REDUCE_OPS["max"], root, me.comm.handle,
            stream.handle,
        )  # fmt: skip
        check(recv, numpy.maximum.reduce(inputs) if r == root else numpy.full(count, 9))

        recv = me.buffer(4 * count)
        source = me.buffer(wide[r]).pointer if r == root else None
        acl("HcclScatter", source, recv.pointer, u64(count), kind, root, me.comm.handle, stream.handle)
        check(recv, wide[root][r * count : (r + 1) * count])

    recv = me.buffer(4 * count * n)
    acl("HcclAllGather", me.buffer(inputs[r]).pointer, recv.pointer, u64(count), kind, me.comm.handle, stream.handle)
    check(recv, numpy.concatenate(inputs))

    recv = me.buffer(4 * count * n)  # in place: the own part is already where it belongs
    recv.write(numpy.concatenate([numpy.full(r * count, -1, "int32"), inputs[r]]))
    acl("HcclAllGather", recv.at(4 * count * r), recv.pointer, u64(count), kind, me.comm.handle, stream.handle)
    check(recv, numpy.concatenate(inputs))

    send, recv = me.buffer(wide[r]), me.buffer(4 * count)
    acl(
        "HcclReduceScatter", send.pointer, recv.pointer, u64(count), kind, 0, me.comm.handle, stream.handle
    )
    check(recv, sum(w[r * count : (r + 1) * count] for w in wide))

    send = me.buffer(wide[r])  # in place
    acl(
        "HcclReduceScatter", send.pointer, send.at(4 * count * r), u64(count), kind, 0, me.comm.handle, stream.handle
    )
    stream.synchronize()
    own = slice(r * count, (r + 1) * count)
    numpy.testing.assert_array_equal(send.read("int32", count * n)[own], sum(w[own] for w in wide))

    send, recv = me.buffer(wide[r]), me.buffer(4 * count * n)
    acl(
        "HcclAlltoAll", send.pointer, u64(count), kind, recv.pointer, u64(count), kind, me.comm.handle, stream.handle
    )
    check(recv, numpy.concatenate([w[r * count : (r + 1) * count] for w in wide]))
    stream.close()


@pytest.mark.parametrize("count", [1, 1000, 70_000])
@pytest.mark.parametrize("size", SIZES)
def test_operations_that_move_data_equal_numpy(ranks: Callable, size: int, count: int) -> None:
    ranks(size).run(movement_case, count)


def vector_case(me: Rank) -> None:
    """The operations with a count for each rank, some of them 0, with gaps between the blocks."""
    n, r, acl, stream = me.size, me.rank, me.acl, me.stream()
    kind = DATA_TYPES["int64"]
    array = lambda numbers: (ctypes.c_uint64 * len(numbers))(*numbers)  # noqa: E731
    counts = [(3 * i) % 7 * 100 for i in range(n)]  # rank 0 brings nothing
    offsets = [sum(counts[:i]) + 5 * i for i in range(n)]
    total = offsets[-1] + counts[-1] + 1
    inputs = [values(i, counts[i], "int64") for i in range(n)]

    recv = me.buffer(numpy.full(total, -1, "int64"))
    acl(
        "HcclAllGatherV", me.buffer(inputs[r]).pointer, ctypes.c_uint64(counts[r]), recv.pointer, array(counts),
        array(offsets), kind, me.comm.handle, stream.handle,
    )  # fmt: skip
    stream.synchronize()
    expected = numpy.full(total, -1, "int64")
    for i in range(n):
        expected[offsets[i] : offsets[i] + counts[i]] = inputs[i]
    numpy.testing.assert_array_equal(recv.read("int64", total), expected)

    wide = [values(i, total, "int64", 2) for i in range(n)]
    recv = me.buffer(8 * counts[r])
    acl(
        "HcclReduceScatterV", me.buffer(wide[r]).pointer, array(counts), array(offsets), recv.pointer,
        ctypes.c_uint64(counts[r]), kind, 0, me.comm.handle, stream.handle,
    )  # fmt: skip
    stream.synchronize()
    own = slice(offsets[r], offsets[r] + counts[r])
    numpy.testing.assert_array_equal(recv.read("int64", counts[r]), sum(w[own] for w in wide))

    matrix = [[(5 * i + 3 * j) % 4 * 50 for j in range(n)] for i in range(n)]  # [from][to]
    sent = [values(i, sum(matrix[i]), "int64", 3) for i in range(n)]
    pieces = [sent[i][sum(matrix[i][:r]) :][: matrix[i][r]] for i in range(n)]
    received = [matrix[i][r] for i in range(n)]
    prefix = lambda numbers: [sum(numbers[:i]) for i in range(len(numbers))]  # noqa: E731
    recv = me.buffer(8 * sum(received))
    arguments = (
        me.buffer(sent[r]).pointer, array(matrix[r]), array(prefix(matrix[r])), kind, recv.pointer, array(received),
        array(prefix(received)), kind, me.comm.handle, stream.handle,
    )  # fmt: skip
    acl("HcclAlltoAllV", *arguments)
    stream.synchronize()
    numpy.testing.assert_array_equal(recv.read("int64", sum(received)), numpy.concatenate(pieces))

    recv = me.buffer(8 * sum(received))
    acl(
        "HcclAlltoAllVC", me.buffer(sent[r]).pointer, array(sum(matrix, [])), kind, recv.pointer, kind,
        me.comm.handle, stream.handle,
    )  # fmt: skip
    stream.synchronize()
    numpy.testing.assert_array_equal(recv.read("int64", sum(received)), numpy.concatenate(pieces))
    stream.close()


@pytest.mark.parametrize("size", SIZES)
def test_operations_with_counts_per_rank_equal_numpy(ranks: Callable, size: int) -> None:
    ranks(size).run(vector_case)


def repeated_case(me: Rank, count: int) -> bytes:
    stream = me.stream()
    results = b""
    for _ in range(3):
        buffer = me.buffer(values(me.rank, count, "float16"))
        me.comm.all_reduce(buffer.pointer, buffer.pointer, count, "float16", stream)
        stream.synchronize()
        results += buffer.read("float16", count).tobytes()
        buffer.close()
    stream.close()
    return results


def test_results_are_equal_bit_by_bit_on_all_ranks_and_runs(ranks: Callable) -> None:
    count = 400_000
    results = ranks(8).run(repeated_case, count)
    assert len(set(results)) == 1
    third = len(results[0]) // 3
    assert results[0][:third] == results[0][third : 2 * third] == results[0][2 * third :]


def many_case(me: Rank) -> None:
    """Queued without waiting, on two streams of one communicator and on a second communicator."""
    streams = [me.stream(), me.stream()]
    other = me.new_communicator("second")
    buffers = [me.buffer(numpy.full(100, me.rank + i, "int32")) for i in range(40)]
    for i, buffer in enumerate(buffers):
        comm = other if i % 4 == 3 else me.comm
        comm.all_reduce(buffer.pointer, buffer.pointer, 100, "int32", streams[i % 2])
    for stream in streams:
        stream.synchronize()
    ranks_sum = sum(range(me.size))
    for i, buffer in enumerate(buffers):
        assert (buffer.read("int32", 100) == ranks_sum + i * me.size).all()
    me.share(None)
    other.destroy()


def test_many_operations_on_streams_and_communicators_keep_their_order(ranks: Callable) -> None:
    ranks(5).run(many_case)


def empty_case(me: Rank) -> None:
    stream = me.stream()
    zero, kind = ctypes.c_uint64(0), DATA_TYPES["float32"]
    me.comm.all_reduce(None, None, 0, "float32", stream)
    me.comm.broadcast(None, 0, "float32", 0, stream)
    me.acl("HcclAllGather", None, None, zero, kind, me.comm.handle, stream.handle)
    me.acl("HcclReduceScatter", None, None, zero, kind, 0, me.comm.handle, stream.handle)
    me.acl("HcclAlltoAll", None, zero, kind, None, zero, kind, me.comm.handle, stream.handle)
    stream.synchronize()
    stream.close()


def test_empty_operations_with_null_buffers_work(ranks: Callable) -> None:
    ranks(2).run(empty_case)


def misuse_case(me: Rank) -> dict[str, tuple[int, str]]:
    stream, found = me.stream(), {}
    buffer = me.buffer(4096)
    host = ctypes.create_string_buffer(4096)
    f32 = DATA_TYPES["float32"]

    def attempt(name: str, call: Callable[[], None]) -> None:
        with pytest.raises(HcclError) as error:
            call()
        found[name] = (error.value.code, error.value.message)

    reduce = me.comm.all_reduce
    attempt("null", lambda: reduce(None, buffer.pointer, 4, "float32", stream))
    attempt("host", lambda: reduce(ctypes.cast(host, ctypes.c_void_p), buffer.pointer, 4, "float32", stream))
    attempt("long", lambda: reduce(buffer.pointer, buffer.pointer, 1 << 40, "float32", stream))
    attempt("huge", lambda: reduce(buffer.pointer, buffer.pointer, (1 << 64) - 1, "float32", stream))
    attempt("odd", lambda: reduce(buffer.at(2), buffer.at(2), 4, "float32", stream))
    attempt("overlap", lambda: reduce(buffer.pointer, buffer.at(8), 4, "float32", stream))
    attempt("root", lambda: me.comm.broadcast(buffer.pointer, 4, "float32", me.size, stream))
    attempt("peer", lambda: me.comm.send(buffer.pointer, 4, "float32", 77, stream))
    none = ctypes.c_void_p(0x1234)
    attempt("comm", lambda: me.acl("HcclBroadcast", buffer.pointer, ctypes.c_uint64(1), f32, 0, none, stream.handle))
    one = ctypes.c_uint64(1)
    attempt("type", lambda: me.acl("HcclBroadcast", buffer.pointer, one, 13, 0, me.comm.handle, stream.handle))
    attempt("group", lambda: me.acl("HcclGroupEnd"))
    # None of it was queued: the communicator still works.
    buffer.write(numpy.ones(4, "float32"))
    reduce(buffer.pointer, buffer.pointer, 4, "float32", stream)
    stream.synchronize()
    assert (buffer.read("float32", 4) == me.size).all()
    buffer.close()
    stream.close()
    return found


def test_misuse_is_refused_with_a_reason_and_does_no_harm(ranks: Callable) -> None:
    for found in ranks(2).run(misuse_case):
        expected = {
            "null": (PTR, "sendBuf is a null pointer"),
            "host": (PARA, "not device memory"),
            "long": (PARA, "past the end of its allocation"),
            "huge": (PARA, "more than memory can hold"),
            "odd": (PARA, "not aligned"),
            "overlap": (PARA, "overlap"),
            "root": (PARA, "root 2 is not in 0..1"),
            "peer": (PARA, "destRank 77 is not in 0..1"),
            "comm": (PARA, "no such communicator"),
            "type": (PARA, "13 is no HcclDataType"),
            "group": (PARA, "no HcclGroupStart"),
        }
        for name, (code, text) in expected.items():
            assert found[name][0] == code, (name, found[name])
            assert text in found[name][1]
