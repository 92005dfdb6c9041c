"""Random operators: Philox4x32-10 against an implementation of its own, moments, independence."""

import math

import pytest
import torch
from aclnn_driver import PARAM_INVALID, AclError, Driver

MASK = 0xFFFFFFFF


def philox(counter: list[int], key: list[int]) -> list[int]:
    """Philox4x32-10 as its paper writes it, in Python's integers."""
    c, k = list(counter), list(key)
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c[0], 1 << 32)
        high1, low1 = divmod(0xCD9E8D57 * c[2], 1 << 32)
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


# kat_vectors of the Random123 library.
KNOWN_ANSWERS = [
    ([0, 0, 0, 0], [0, 0], [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([MASK] * 4, [MASK] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN_ANSWERS)
def test_reference_gives_the_known_answers(counter: list[int], key: list[int], words: list[int]) -> None:
    assert philox(counter, key) == words


def words_of(npu: Driver, count: int, seed: int, offset: int) -> list[int]:
    out = npu.empty(count, dtype=torch.int64)
    npu.run("aclnnInplaceRandom", out, 0, 1 << 32, seed, offset)
    return out.cpu().tolist()


def signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


@pytest.mark.parametrize("seed", [0, 1, 0x299F31D0A4093822, (1 << 64) - 1])
@pytest.mark.parametrize("offset", [0, 12, 0x0370734413198A2E])
def test_words_are_those_of_philox_with_seed_as_key_and_offset_above_the_block(
    npu: Driver, seed: int, offset: int
) -> None:
    found = words_of(npu, 10, signed(seed), offset)
    expected = []
    for block in range(3):
        counter = [block, 0, offset & MASK, offset >> 32]
        expected += philox(counter, [seed & MASK, seed >> 32])
    assert found == expected[:10]


def test_numbers_do_not_depend_on_the_size_of_the_tensor(npu: Driver) -> None:
    long = words_of(npu, 100_003, 5, 8)
    assert long[:7] == words_of(npu, 7, 5, 8)


def test_numbers_do_not_depend_on_strides(npu: Driver) -> None:
    plain = npu.empty(4, 6)
    turned = npu.tensor(torch.zeros(6, 4).t())
    for target in (plain, turned):
        npu.run("aclnnInplaceUniform", target, 0.0, 1.0, 3, 4)
    assert torch.equal(plain.cpu(), turned.cpu())


def test_other_offset_gives_independent_numbers(npu: Driver) -> None:
    a, b = npu.empty(100_000), npu.empty(100_000)
    npu.run("aclnnInplaceNormal", a, 0.0, 1.0, 9, 0)
    npu.run("aclnnInplaceNormal", b, 0.0, 1.0, 9, 12)
    correlation = torch.corrcoef(torch.stack([a.cpu(), b.cpu()]))[0, 1]
    assert abs(correlation) < 4 / math.sqrt(100_000)


COUNT = 200_000


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_normal_has_the_moments_of_a_normal_distribution(npu: Driver, dtype: torch.dtype) -> None:
    out = npu.empty(COUNT, dtype=dtype)
    npu.run("aclnnInplaceNormal", out, 2.0, 0.5, 42, 16)
    z = (out.cpu().double() - 2.0) / 0.5
    margin = 5 / math.sqrt(COUNT)
    assert abs(z.mean()) < margin + 0.005
    assert abs(z.var() - 1) < 2 * margin + 0.005
    assert abs((z**3).mean()) < 4 * margin + 0.01
    assert abs((z**4).mean() - 3) < 10 * margin + 0.03
    assert z.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_uniform_fills_the_half_open_range_evenly(npu: Driver, dtype: torch.dtype) -> None:
    out = npu.empty(COUNT, dtype=dtype)
    npu.run("aclnnInplaceUniform", out, -1.0, 3.0, 7, 0)
    x = out.cpu().double()
    assert x.min() >= -1 and x.max() < 3
    counts = torch.histc(x, 8, -1, 3)
    assert (counts - COUNT / 8).abs().max() < 5 * math.sqrt(COUNT / 8) + 0.01 * COUNT / 8


@pytest.mark.parametrize(("low", "high"), [(0, 6), (-3, 3), (-(1 << 40), 1 << 40), (10, 11)])
def test_random_integers_stay_in_the_half_open_range(npu: Driver, low: int, high: int) -> None:
    out = npu.empty(COUNT, dtype=torch.int64)
    npu.run("aclnnInplaceRandom", out, low, high, 1, 4)
    x = out.cpu()
    assert x.min() >= low and x.max() < high
    middle = (low + high - 1) / 2
    spread = math.sqrt(((high - low) ** 2 - 1) / 12)
    assert abs(x.double().mean() - middle) <= 5 * spread / math.sqrt(COUNT)
    if high - low == 6:
        counts = torch.bincount(x - low)
        assert (counts - COUNT / 6).abs().max() < 5 * math.sqrt(COUNT / 6)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32, torch.int64, torch.float32, torch.bfloat16])
def test_random_without_range_covers_the_type(npu: Driver, dtype: torch.dtype) -> None:
    out = npu.empty(20_000, dtype=dtype)
    npu.run("aclnnInplaceRandomWithoutFromTo", out, 1, 4)
    x = out.cpu().double()
    top = {torch.bool: 1, torch.uint8: 255, torch.int32: 2**31 - 1, torch.int64: 2.0**63,
           torch.float32: 2.0**24, torch.bfloat16: 2.0**8}[dtype]  # fmt: skip
    assert x.min() >= 0 and x.max() <= top
    assert abs(x.mean() / top - 0.5) < 0.02


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int64, torch.bfloat16])
@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_bernoulli_has_its_probability(npu: Driver, dtype: torch.dtype, probability: float) -> None:
    out = npu.empty(COUNT, dtype=dtype)
    npu.run("aclnnInplaceBernoulli", out, probability, 11, 8)
    x = out.cpu().double()
    assert set(x.unique().tolist()) <= {0.0, 1.0}
    assert abs(x.mean() - probability) <= 5 * math.sqrt(probability * (1 - probability) / COUNT)


def test_bernoulli_with_a_tensor_has_a_probability_for_each_element(npu: Driver) -> None:
    p = torch.tensor([0.0, 0.25, 1.0])
    out = npu.empty(COUNT, 3)
    npu.run("aclnnInplaceBernoulliTensor", out, npu.tensor(p), 1, 0)
    torch.testing.assert_close(out.cpu().mean(0), p, atol=0.01, rtol=0)


def test_probability_out_of_range_is_refused(npu: Driver) -> None:
    with pytest.raises(AclError, match=r"expected a value in \[0, 1\]") as error:
        npu.run("aclnnInplaceBernoulli", npu.empty(2), 1.5, 0, 0)
    assert error.value.code == PARAM_INVALID


@pytest.mark.parametrize("n", [0, 1, 1000])
def test_randperm_is_a_permutation_that_seed_and_offset_choose(npu: Driver, n: int) -> None:
    orders = []
    for seed, offset in [(1, 0), (1, 0), (1, 4), (2, 0)]:
        out = npu.empty(n, dtype=torch.int64)
        npu.run("aclnnRandperm", n, seed, offset, out)
        orders.append(out.cpu())
    assert all(torch.equal(o.sort().values, torch.arange(n)) for o in orders)
    assert torch.equal(orders[0], orders[1])
    if n > 1:
        assert not torch.equal(orders[0], orders[2])
        assert not torch.equal(orders[0], orders[3])


@pytest.mark.parametrize("probability", [0.0, 0.1, 1.0])
def test_dropout_by_mask_keeps_and_scales(npu: Driver, probability: float) -> None:
    x = torch.randn(100, 301)
    mask = npu.empty((x.numel() + 127) // 128 * 16, dtype=torch.uint8)
    out = npu.empty(100, 301)
    npu.run("aclnnDropoutGenMask", list(x.shape), probability, 5, 4, mask)
    npu.run("aclnnDropoutDoMask", npu.tensor(x), mask, probability, out)
    kept = out.cpu() != 0
    share = kept.double().mean()
    assert abs(share - (1 - probability)) <= 5 * math.sqrt(probability * (1 - probability) / x.numel())
    if probability < 1:
        torch.testing.assert_close(out.cpu()[kept], x[kept] / (1 - probability))


def test_dropout_gradient_uses_the_mask_of_the_forward(npu: Driver) -> None:
    x = torch.ones(1000)
    mask = npu.empty(1024 // 8, dtype=torch.uint8)
    out, gradient = npu.empty(1000), npu.empty(1000)
    npu.run("aclnnDropoutV3", npu.tensor(x), None, 0.25, 5, 4, out, mask)
    npu.run("aclnnDropoutV3Grad", npu.tensor(x), mask, 1 / 0.75, gradient)
    assert torch.equal(out.cpu(), gradient.cpu())
    assert 0 < (out.cpu() == 0).sum() < 1000


def test_exponential_has_its_rate(npu: Driver) -> None:
    out = npu.empty(COUNT)
    npu.run("aclnnSimThreadExponential", out, COUNT, 4.0, 1, 0)
    x = out.cpu().double()
    assert x.min() >= 0
    assert abs(x.mean() - 0.25) < 5 * 0.25 / math.sqrt(COUNT)


@pytest.mark.parametrize("operator", ["Normal", "Uniform", "Random", "RandomWithoutFromTo"])
def test_seed_and_offset_in_tensors_give_the_numbers_of_seed_and_offset(npu: Driver, operator: str) -> None:
    limits = {"Normal": [1.0, 2.0], "Uniform": [-1.0, 3.0], "Random": [-5, 1 << 40]}.get(operator, [])
    dtype = torch.int64 if operator.startswith("Random") else torch.float32
    tensor_operator = {
        "Normal": "aclnnInplaceNormalTensor", "Uniform": "aclnnInplaceUniformTensor",
        "Random": "aclnnInplaceRandomTensor", "RandomWithoutFromTo": "aclnnInplaceRandomWithoutFromToTensor",
    }[operator]  # fmt: skip
    plain, counted = npu.empty(50, 3, dtype=dtype), npu.empty(50, 3, dtype=dtype)
    npu.run(f"aclnnInplace{operator}", plain, *limits, 21, 44)
    npu.run(tensor_operator, counted, *limits, npu.tensor(torch.tensor([21])), npu.tensor(torch.tensor([40])), 4)
    assert torch.equal(plain.cpu(), counted.cpu())


def test_mask_of_each_generator_is_the_same_for_the_same_seed_and_offset(npu: Driver) -> None:
    first, second, third = [npu.empty(64, dtype=torch.uint8) for _ in range(3)]
    seed, offset = npu.tensor(torch.tensor([5])), npu.tensor(torch.tensor([8]))
    npu.run("aclnnDropoutGenMask", [20, 25], 0.3, 5, 12, first)
    npu.run("aclnnDropoutGenMaskV2", [20, 25], 0.3, 5, 12, torch.float32, second)
    npu.run("aclnnDropoutGenMaskV2Tensor", [20, 25], 0.3, seed, offset, 4, torch.float32, third)
    assert torch.equal(first.cpu()[:62], second.cpu()[:62])
    assert torch.equal(first.cpu()[:62], third.cpu()[:62])


def test_normal_with_tensors_shifts_and_scales_the_standard_numbers(npu: Driver) -> None:
    mean, std = torch.arange(12.0).reshape(3, 4), torch.tensor([0.5, 1.0, 2.0, 4.0]).expand(3, 4)
    z, *found = [npu.empty(3, 4) for _ in range(5)]
    npu.run("aclnnInplaceNormal", z, 0.0, 1.0, 3, 8)
    npu.run("aclnnNormalFloatFloat", 2.0, 0.5, 3, 8, found[0])
    npu.run("aclnnNormalFloatTensor", 2.0, npu.tensor(std), 3, 8, found[1])
    npu.run("aclnnNormalTensorFloat", npu.tensor(mean), 0.5, 3, 8, found[2])
    npu.run("aclnnNormalTensorTensor", npu.tensor(mean), npu.tensor(std[0]), 3, 8, found[3])
    noise = z.cpu()
    expected = [2 + 0.5 * noise, 2 + std * noise, mean + 0.5 * noise, mean + std * noise]
    for one, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(one.cpu(), wanted)
