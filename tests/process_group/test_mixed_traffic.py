"""Many collectives of random kinds, sizes, streams and groups, all checked."""

import random
from collections.abc import Callable

import torch
import torch.distributed as dist
from collective_cases import check_equal, inputs_of, reduced

from torch_npu.testing import World

Worlds = Callable[..., World]
OPS = (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.AVG)


def random_traffic(seed: int, steps: int) -> None:
    """All ranks draw the same numbers, so that they agree about what comes next."""
    draw = random.Random(seed)
    rank, world = dist.get_rank(), dist.get_world_size()
    ranks = [list(range(world)), list(range(0, world, 2)), list(range(world - 1, -1, -1))]
    groups = [dist.new_group(members, backend="hccl") for members in ranks]
    streams = [torch.npu.current_stream(), torch.npu.Stream(), torch.npu.Stream()]
    checks: list[tuple[torch.Tensor, torch.Tensor, str]] = []
    for step in range(steps):
        which = draw.randrange(len(groups))
        kind = draw.choice(["all_reduce", "broadcast", "all_gather", "reduce_scatter", "exchange"])
        count = draw.choice([0, 1, 5, 1000, 1 << 15])
        stream, op = draw.choice(streams), draw.choice(OPS)
        members, group = sorted(ranks[which]), groups[which]
        root, look = draw.choice(members), draw.random() < 0.1
        what = f"step {step} of seed {seed}: {kind} of {count} elements in group {which}"
        if rank not in members:
            continue
        theirs = {r: [inputs_of(1000 * step + 10 * r + d, (count,), torch.float32) for d in range(world)] for r in members}
        me = members.index(rank)
        with torch.npu.stream(stream):
            if kind == "all_reduce":
                got = theirs[rank][0].to("npu")
                work = dist.all_reduce(got, op, group, async_op=True)
                expected = reduced([theirs[r][0] for r in members], op)
            elif kind == "broadcast":
                got = theirs[rank][0].to("npu")
                work = dist.broadcast(got, root, group, async_op=True)
                expected = theirs[root][0]
            elif kind == "all_gather":
                got = torch.empty(count * len(members), device="npu")
                work = dist.all_gather_into_tensor(got, theirs[rank][0].to("npu"), group, async_op=True)
                expected = torch.cat([theirs[r][0] for r in members])
            elif kind == "reduce_scatter":
                got = torch.empty(count, device="npu")
                mine = torch.cat(theirs[rank][: len(members)]).to("npu")
                work = dist.reduce_scatter_tensor(got, mine, op, group, async_op=True)
                expected = reduced([theirs[r][me] for r in members], op)
            else:
                got = torch.empty(count * len(members), device="npu")
                mine = torch.cat(theirs[rank][: len(members)]).to("npu")
                work = dist.all_to_all_single(got, mine, group=group, async_op=True)
                expected = torch.cat([theirs[r][me] for r in members])
            work.wait()
            checks.append((got, expected, what))
        if look:
            torch.npu.synchronize()
            for got, expected, what in checks:
                check_equal(got, expected, what)
            checks.clear()
    torch.npu.synchronize()
    for got, expected, what in checks:
        check_equal(got, expected, what)
    for group, members in zip(groups, ranks, strict=True):
        if rank in members:
            dist.destroy_process_group(group)


def test_random_traffic_on_groups_and_streams_is_right(worlds: Worlds) -> None:
    for seed in range(3):
        worlds(4).run(random_traffic, seed, 120)
