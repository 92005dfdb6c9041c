"""send, recv and batches of them."""

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from collective_cases import check_equal, inputs_of

from torch_npu.testing import World

Worlds = Callable[..., World]
DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64, torch.float8_e4m3fn)


def ping_pong(device: str) -> None:
    rank = dist.get_rank()
    for dtype in DTYPES if device == "npu" else (torch.float32,):
        for shape in ((1,), (0,), (33, 1000)):
            mine = inputs_of(rank, shape, dtype).to(device)
            theirs = torch.empty(shape, dtype=dtype, device=device)
            if rank == 0:
                dist.send(mine, 1)
                dist.recv(theirs, 1)
            else:
                dist.recv(theirs, 0)
                dist.send(mine, 0)
            check_equal(theirs, inputs_of(1 - rank, shape, dtype), f"{dtype} {shape}")


@pytest.mark.parametrize("device", ["npu", "cpu"])
def test_send_and_recv_move_tensors_both_ways(worlds: Worlds, device: str) -> None:
    worlds(2, backend="hccl").run(ping_pong, device)


def several_in_order() -> None:
    tensors = [torch.full((64,), float(i), device="npu") for i in range(5)]
    if dist.get_rank() == 0:
        works = [dist.isend(tensor, 1) for tensor in tensors]
    else:
        tensors = [torch.zeros_like(tensor) for tensor in tensors]
        works = [dist.irecv(tensor, 0) for tensor in tensors]
    for work in works:
        work.wait()
    assert [tensor[0].item() for tensor in tensors] == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_messages_of_a_pair_arrive_in_order(worlds: Worlds) -> None:
    worlds(2, backend="hccl").run(several_in_order)


def ring() -> None:
    rank, world = dist.get_rank(), dist.get_world_size()
    mine = torch.full((1 << 18,), float(rank), device="npu")
    theirs = torch.empty_like(mine)
    works = dist.batch_isend_irecv(
        [
            dist.P2POp(dist.isend, mine, (rank + 1) % world),
            dist.P2POp(dist.irecv, theirs, (rank - 1) % world),
        ]
    )
    for work in works:
        work.wait()
    assert theirs.eq((rank - 1) % world).all().item()


@pytest.mark.parametrize("size", [2, 3])
def test_batch_isend_irecv_in_a_ring_does_not_deadlock(worlds: Worlds, size: int) -> None:
    worlds(size, backend="hccl").run(ring)


def batch_of_several() -> None:
    rank, peer = dist.get_rank(), 1 - dist.get_rank()
    sent = [torch.full((i + 1,), float(10 * rank + i), device="npu") for i in range(3)]
    received = [torch.empty(i + 1, device="npu") for i in range(3)]
    operations = [dist.P2POp(dist.irecv, tensor, peer) for tensor in received]
    operations += [dist.P2POp(dist.isend, tensor, peer) for tensor in sent]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    for i, tensor in enumerate(received):
        check_equal(tensor, torch.full((i + 1,), float(10 * peer + i)), f"message {i}")


def test_batch_of_several_messages_matches_them_in_order(worlds: Worlds) -> None:
    worlds(2, backend="hccl").run(batch_of_several)


def batch_on_cpu() -> None:
    rank, peer = dist.get_rank(), 1 - dist.get_rank()
    received = torch.empty(3)
    operations = [
        dist.P2POp(dist.isend, torch.full((3,), float(rank)), peer),
        dist.P2POp(dist.irecv, received, peer),
    ]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    assert received.tolist() == [float(peer)] * 3


def test_batch_of_cpu_tensors_goes_through_gloo(worlds: Worlds) -> None:
    worlds(2, backend="hccl").run(batch_on_cpu)


def refusals() -> list[str]:
    x = torch.ones(3, device="npu")
    said = []
    for function in (
        lambda: dist.recv(x),
        lambda: dist.distributed_c10d._get_default_group().send([x], dist.get_rank(), 0),
        lambda: dist.distributed_c10d._get_default_group().send([x], 7, 0),
    ):
        try:
            function()
        except (NotImplementedError, ValueError) as error:
            said.append(str(error))
    return said


def test_point_to_point_with_a_wrong_peer_says_what_is_expected(worlds: Worlds) -> None:
    for any_source, itself, outside in worlds(2, backend="hccl").run(refusals):
        assert "src=" in any_source
        assert "cannot exchange messages with itself" in itself
        assert "rank 7 of the group, expected 0 to 1" in outside
