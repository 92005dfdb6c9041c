"""The allocator's bookkeeping alone, against a model that keeps every byte's state in plain Python."""

import random

import pytest

from torch_npu._C import _testing

KIB, MIB = 1 << 10, 1 << 20
BASE = 1 << 40


def rounded(size: int) -> int:
    return max(512, -(-size // 512) * 512)


class Model:
    """Which address ranges of which segments are in use. Checks every answer of the pool against them."""

    def __init__(self) -> None:
        self.pool = _testing.BlockPool()
        self.next_base = BASE
        self.segments: list[tuple[int, int, int, bool]] = []  # base, size, stream, small
        self.used: dict[int, tuple[int, int]] = {}  # address -> size, stream

    def free_gaps(self, stream: int, small: bool) -> list[int]:
        gaps = []
        for base, size, owner, is_small in self.segments:
            if owner != stream or is_small != small:
                continue
            at = base
            for address in sorted(a for a in self.used if base <= a < base + size):
                if address > at:
                    gaps.append(address - at)
                at = address + self.used[address][0]
            if base + size > at:
                gaps.append(base + size - at)
        return gaps

    def allocate(self, size: int, stream: int) -> int:
        small = rounded(size) <= MIB
        fits = [gap for gap in self.free_gaps(stream, small) if gap >= rounded(size)]
        address = self.pool.take(size, stream)
        assert (address is None) == (not fits)
        if address is None:
            grown = self.pool.attach(self.next_base, size, stream)
            assert grown >= rounded(size)
            self.segments.append((self.next_base, grown, stream, small))
            self.next_base += grown + MIB
            address = self.pool.take(size, stream)
            fits = [grown]
        else:
            before = min(fits)
            remaining = self.free_gaps(stream, small)
            assert before in remaining
        found, held = self.pool.find(address)
        assert found == address
        assert held >= rounded(size)
        # Best fit: what was taken is no larger than the smallest gap that would do.
        assert held <= min(fits)
        for other, (length, _) in self.used.items():
            assert address + held <= other or other + length <= address, "two blocks overlap"
        base, length = next((b, s) for b, s, owner, sm in self.segments if b <= address < b + s and owner == stream)
        assert address + held <= base + length
        self.used[address] = (held, stream)
        return address

    def free(self, address: int) -> None:
        self.pool.release(address)
        self.pool.reclaim(address)
        del self.used[address]


@pytest.mark.parametrize("seed", range(6))
def test_block_pool_random_traffic_agrees_with_a_model(seed: int) -> None:
    rng = random.Random(seed)
    model = Model()
    sizes = [1, 511, 512, 513, 4 * KIB, 100 * KIB, MIB, MIB + 1, 3 * MIB, 9 * MIB, 10 * MIB, 33 * MIB]
    for _ in range(400):
        if model.used and rng.random() < 0.45:
            model.free(rng.choice(sorted(model.used)))
        else:
            model.allocate(rng.choice(sizes), stream=rng.choice([0, 1]))
        model.pool.check_invariants()
        stats = model.pool.stats()
        assert stats["allocation"][0] == len(model.used)
        assert stats["allocated_bytes"][0] == sum(size for size, _ in model.used.values())
        assert stats["reserved_bytes"][0] == sum(size for _, size, _, _ in model.segments)
    for address in sorted(model.used):
        model.free(address)
    stats = model.pool.stats()
    for name in ("allocation", "active", "allocated_bytes", "active_bytes", "requested_bytes", "inactive_split"):
        assert stats[name] == [0, 0, 0], name
    assert sorted(model.pool.detach_idle()) == sorted((base, size) for base, size, _, _ in model.segments)
    assert model.pool.stats()["reserved_bytes"] == [0, 0, 0]


@pytest.mark.parametrize(
    ("request_bytes", "segment"),
    [
        (1, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 1, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (11 * MIB, 12 * MIB),
        (33 * MIB + 1, 34 * MIB),
    ],
)
def test_block_pool_new_segment_has_the_documented_size(request_bytes: int, segment: int) -> None:
    assert _testing.BlockPool().attach(BASE, request_bytes) == segment


@pytest.mark.parametrize(
    ("request_bytes", "limit", "segment"),
    [
        (24 * MIB + 512, 25 * MIB, 24 * MIB + 512),  # 26 MiB would be above the limit
        (23 * MIB, 25 * MIB, 24 * MIB),
        (5 * MIB, 20 * MIB, 18 * MIB),  # shared by several, still below the limit
        (25 * MIB, 25 * MIB, 26 * MIB),  # above the limit anyway
    ],
)
def test_block_pool_new_segment_serves_its_request_whatever_the_split_limit(
    request_bytes: int, limit: int, segment: int
) -> None:
    pool = _testing.BlockPool(max_split=limit)
    assert pool.attach(BASE, request_bytes) == segment
    assert pool.take(request_bytes) == BASE


def test_block_pool_large_block_with_little_rest_is_not_split() -> None:
    pool = _testing.BlockPool()
    pool.attach(BASE, 11 * MIB)  # 12 MiB
    address = pool.take(11 * MIB + 512)
    assert pool.find(address) == (BASE, 12 * MIB)  # the rest is below 1 MiB
    pool.release(address)
    pool.reclaim(address)
    address = pool.take(3 * MIB)
    assert pool.find(address) == (BASE, 3 * MIB)
    assert pool.stats()["inactive_split_bytes"] == [9 * MIB, 0, 9 * MIB]


def test_block_pool_other_stream_gets_nothing_of_a_stream() -> None:
    pool = _testing.BlockPool()
    pool.attach(BASE, 512, stream=7)
    assert pool.take(512, stream=8) is None
    assert pool.take(512, stream=7) == BASE


def test_block_pool_released_block_is_not_reused_before_reclaim() -> None:
    pool = _testing.BlockPool()
    pool.attach(BASE, 11 * MIB)
    address = pool.take(12 * MIB)
    pool.release(address)
    stats = pool.stats()
    assert stats["allocated_bytes"][0] == 0
    assert stats["active_bytes"][0] == 12 * MIB
    assert pool.take(12 * MIB) is None
    assert pool.detach_idle() == []
    pool.reclaim(address)
    assert pool.take(12 * MIB) == BASE


def test_block_pool_freed_neighbours_merge_in_any_order() -> None:
    for order in ([0, 1, 2], [2, 1, 0], [0, 2, 1], [1, 0, 2]):
        pool = _testing.BlockPool()
        pool.attach(BASE, 512)
        blocks = [pool.take(600 * KIB) for _ in range(3)]
        assert blocks == [BASE, BASE + 600 * KIB, BASE + 1200 * KIB]
        for index in order:
            pool.release(blocks[index])
            pool.reclaim(blocks[index])
            pool.check_invariants()
        assert pool.blocks() == [(BASE, 2 * MIB, False, False)]


def test_block_pool_max_split_keeps_large_blocks_whole() -> None:
    pool = _testing.BlockPool(max_split=16 * MIB, max_non_split_rounding=8 * MIB)
    pool.attach(BASE, 32 * MIB)
    assert pool.take(4 * MIB) is None, "a small request must not take a block above max_split"
    assert pool.take(20 * MIB) is None, "12 MiB would be wasted"
    assert pool.take(26 * MIB) == BASE
    assert pool.find(BASE) == (BASE, 32 * MIB)


def test_block_pool_detach_oversize_takes_the_smallest_that_is_enough() -> None:
    pool = _testing.BlockPool(max_split=16 * MIB)
    sizes = [20 * MIB, 40 * MIB, 30 * MIB]
    for index, size in enumerate(sizes):
        pool.attach(BASE + index * 100 * MIB, size)
    assert pool.detach_oversize(25 * MIB) == [(BASE + 200 * MIB, 30 * MIB)]
    assert pool.detach_oversize(50 * MIB) == [(BASE + 100 * MIB, 40 * MIB), (BASE, 20 * MIB)]
    assert pool.stats()["segment"][0] == 0


def test_block_pool_detach_old_frees_the_longest_idle_first() -> None:
    pool = _testing.BlockPool()
    bases = [BASE + index * 100 * MIB for index in range(3)]
    for base in bases:
        pool.attach(base, 20 * MIB)
    held = {pool.take(20 * MIB): None for _ in bases}
    for base in bases:  # freed in order, with traffic in between, so that the first is the oldest
        pool.release(base)
        pool.reclaim(base)
        assert pool.take(512) is None
    assert set(held) == set(bases)
    assert pool.detach_old(1) == [(bases[0], 20 * MIB)]
    pool.check_invariants()


def test_block_pool_find_knows_addresses_inside_and_outside() -> None:
    pool = _testing.BlockPool()
    pool.attach(BASE, 512)
    first, second = pool.take(4 * KIB), pool.take(8 * KIB)
    assert pool.find(first + 4 * KIB - 1) == (first, 4 * KIB)
    assert pool.find(second) == (second, 8 * KIB)
    assert pool.find(BASE - 1) is None
    assert pool.find(BASE + 2 * MIB) is None
