"""Generators of the devices: seeds, states, what torch.manual_seed reaches."""

import pickle
import struct

import pytest
import torch


def draw(device: str = "npu:0", size: int = 32) -> list[float]:
    return torch.rand(size, device=device).cpu().tolist()


def test_same_seed_draws_the_same_numbers() -> None:
    torch.npu.manual_seed(42)
    first = draw()
    following = draw()
    torch.npu.manual_seed(42)
    assert draw() == first
    assert following != first
    assert torch.npu.initial_seed() == 42


def test_torch_manual_seed_reaches_every_device() -> None:
    torch.manual_seed(7)
    first = [draw("npu:0"), draw("npu:1")]
    torch.manual_seed(7)
    assert [draw("npu:0"), draw("npu:1")] == first
    for generator in torch.npu.default_generators:
        assert generator.initial_seed() == 7


def test_rng_state_saved_and_set_repeats_the_draws() -> None:
    draw()
    state = torch.npu.get_rng_state()
    first = draw()
    torch.npu.set_rng_state(state)
    assert draw() == first
    assert torch.npu.get_rng_state().tolist() != state.tolist()


def test_rng_state_is_seed_then_offset_in_16_bytes() -> None:
    torch.npu.manual_seed(0x0123456789ABCDEF)
    state = torch.npu.get_rng_state("npu:0")
    assert state.dtype == torch.uint8
    assert state.device.type == "cpu"
    assert struct.unpack("<QQ", bytes(state.tolist())) == (0x0123456789ABCDEF, 0)
    draw()
    offset = struct.unpack("<QQ", bytes(torch.npu.get_rng_state(0).tolist()))[1]
    assert offset > 0
    assert offset % 4 == 0


@pytest.mark.parametrize("size", [0, 8, 15, 17, 5056])
def test_rng_state_of_another_size_is_refused(size: int) -> None:
    before = torch.npu.get_rng_state()
    with pytest.raises((ValueError, RuntimeError), match="16"):
        torch.npu.set_rng_state(torch.zeros(size, dtype=torch.uint8))
    assert torch.equal(torch.npu.get_rng_state(), before)


def test_rng_states_of_all_devices_are_saved_and_set() -> None:
    states = torch.npu.get_rng_state_all()
    assert len(states) == torch.npu.device_count()
    first = [draw("npu:0"), draw("npu:1")]
    torch.npu.set_rng_state_all(states)
    assert [draw("npu:0"), draw("npu:1")] == first


def test_devices_draw_independently() -> None:
    torch.npu.manual_seed_all(3)
    expected = draw("npu:1")
    torch.npu.manual_seed_all(3)
    draw("npu:0")
    assert draw("npu:1") == expected


def test_fork_rng_leaves_the_state_as_it_was() -> None:
    before = torch.npu.get_rng_state()
    with torch.random.fork_rng(devices=[0], device_type="npu"):
        torch.manual_seed(99)
        draw()
    assert torch.equal(torch.npu.get_rng_state(), before)


def test_generator_of_ones_own_is_independent_of_the_default() -> None:
    own = torch.Generator("npu").manual_seed(5)
    assert own.device == torch.device("npu:0")
    before = torch.npu.get_rng_state()
    first = torch.rand(16, device="npu", generator=own).cpu()
    assert torch.equal(torch.npu.get_rng_state(), before)
    own.manual_seed(5)
    assert torch.equal(torch.rand(16, device="npu", generator=own).cpu(), first)


def test_generator_survives_pickling_and_cloning() -> None:
    own = torch.Generator("npu").manual_seed(11)
    torch.rand(8, device="npu", generator=own)
    loaded = pickle.loads(pickle.dumps(own))
    copied = own.clone_state()
    expected = torch.rand(8, device="npu", generator=own).cpu()
    assert torch.equal(torch.rand(8, device="npu", generator=loaded).cpu(), expected)
    assert torch.equal(torch.rand(8, device="npu", generator=copied).cpu(), expected)


def test_seed_from_the_system_changes_the_draws() -> None:
    torch.npu.manual_seed(1)
    first = draw()
    torch.npu.seed()
    assert torch.npu.initial_seed() != 1
    assert draw() != first
    torch.npu.seed_all()
    seeds = {generator.initial_seed() for generator in torch.npu.default_generators}
    assert len(seeds) == 1


def test_checkpoint_preserves_the_random_state() -> None:
    layer = torch.nn.Dropout(0.5)
    x = torch.ones(256, device="npu", requires_grad=True)
    torch.npu.manual_seed(0)
    out = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
    out.sum().backward()
    kept = (out.detach() != 0).cpu()
    assert torch.equal((x.grad != 0).cpu(), kept)
    assert 0 < int(kept.sum()) < 256


def test_default_generator_is_one_object_per_device() -> None:
    torch.npu.manual_seed(21)
    assert torch.npu.default_generators[0].initial_seed() == 21
    assert torch.npu._get_generator("npu:0").initial_seed() == 21
