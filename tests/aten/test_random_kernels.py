"""Random operators: distributions, ranges, and what the seed decides."""

import math

import pytest
import torch

import torch_npu  # noqa: F401

pytestmark = pytest.mark.filterwarnings("ignore:.*has no npu kernel")
N = 40_000

DRAWS = {
    "randn": lambda: torch.randn(100, device="npu"),
    "rand": lambda: torch.rand(100, device="npu"),
    "randint": lambda: torch.randint(0, 1000, (100,), device="npu"),
    "random_": lambda: torch.empty(100, device="npu", dtype=torch.int64).random_(),
    "bernoulli": lambda: torch.full((100,), 0.5).npu().bernoulli(),
    "bernoulli_": lambda: torch.empty(100, device="npu").bernoulli_(0.5),
    "randperm": lambda: torch.randperm(100, device="npu"),
    "dropout": lambda: torch.nn.functional.dropout(torch.ones(100).npu(), 0.5),
    # on the CPU, with a generator drawn from the npu's
    "exponential_": lambda: torch.empty(100, device="npu").exponential_(),
    "multinomial": lambda: torch.ones(200).npu().multinomial(100),
    "poisson": lambda: torch.poisson(torch.full((100,), 5.0).npu()),
    "cauchy_": lambda: torch.empty(100, device="npu").cauchy_(),
    "gamma": lambda: torch._standard_gamma(torch.full((100,), 2.0).npu()),
    "rrelu": lambda: torch.nn.functional.rrelu(-torch.ones(100).npu(), training=True),
}


@pytest.mark.parametrize("name", DRAWS)
def test_random_same_seed_repeats_and_calls_differ(name: str) -> None:
    draw = DRAWS[name]
    torch.npu.manual_seed(7)
    first, second = draw().cpu(), draw().cpu()
    torch.npu.manual_seed(7)
    assert torch.equal(draw().cpu(), first)
    assert torch.equal(draw().cpu(), second)
    assert not torch.equal(first, second)
    torch.npu.manual_seed(8)
    assert not torch.equal(draw().cpu(), first)


@pytest.mark.parametrize("name", DRAWS)
def test_random_state_is_saved_and_restored(name: str) -> None:
    draw = DRAWS[name]
    state = torch.npu.get_rng_state()
    first = draw().cpu()
    torch.npu.set_rng_state(state)
    assert torch.equal(draw().cpu(), first)


@pytest.mark.parametrize("name", DRAWS)
def test_random_leaves_the_cpu_generator_alone(name: str) -> None:
    state = torch.get_rng_state()
    DRAWS[name]()
    assert torch.equal(torch.get_rng_state(), state)


def test_random_torch_manual_seed_seeds_npu_too() -> None:
    torch.manual_seed(3)
    first = torch.randn(10, device="npu").cpu()
    torch.manual_seed(3)
    assert torch.equal(torch.randn(10, device="npu").cpu(), first)


def test_random_explicit_generator_is_used() -> None:
    default = torch.npu.get_rng_state()
    generator = torch.Generator("npu").manual_seed(5)
    first = torch.randn(10, device="npu", generator=generator).cpu()
    other = torch.empty(10, device="npu").exponential_(generator=generator).cpu()
    generator.manual_seed(5)
    assert torch.equal(torch.randn(10, device="npu", generator=generator).cpu(), first)
    assert torch.equal(torch.empty(10, device="npu").exponential_(generator=generator).cpu(), other)
    assert torch.equal(torch.npu.get_rng_state(), default)


def test_random_generator_of_other_device_raises() -> None:
    for name in ("normal_", "exponential_", "random_"):
        with pytest.raises(RuntimeError, match="(?i)generator"):
            getattr(torch.empty(3, device="npu"), name)(generator=torch.Generator())
        with pytest.raises(RuntimeError, match="(?i)generator"):
            getattr(torch.empty(3), name)(generator=torch.Generator("npu"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_random_normal_has_its_moments(dtype: torch.dtype) -> None:
    torch.npu.manual_seed(0)
    drawn = torch.empty(N, dtype=dtype, device="npu").normal_(1.5, 2.0).cpu().double()
    # standard errors: sigma / sqrt(N) of the mean, sigma / sqrt(2 N) of the deviation; 5 of them
    assert abs(drawn.mean() - 1.5) < 5 * 2 / math.sqrt(N) + 0.01
    assert abs(drawn.std() - 2.0) < 5 * 2 / math.sqrt(2 * N) + 0.01
    standard = (drawn - 1.5) / 2
    assert abs((standard**3).mean()) < 5 * math.sqrt(15 / N)
    assert abs((standard**4).mean() - 3) < 5 * math.sqrt(96 / N) + 0.02


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_random_uniform_has_its_moments_and_bounds(dtype: torch.dtype) -> None:
    torch.npu.manual_seed(0)
    drawn = torch.empty(N, dtype=dtype, device="npu").uniform_(-1, 3).cpu().double()
    assert drawn.min() >= -1
    assert drawn.max() <= 3
    if dtype in (torch.float32, torch.float64):
        assert drawn.max() < 3
    assert abs(drawn.mean() - 1) < 5 * math.sqrt(16 / 12 / N) + 0.01
    counts = torch.histc(drawn, 16, -1, 3)
    assert ((counts - N / 16) ** 2 / (N / 16)).sum() < 60  # chi-square, 15 degrees: below 60 but for 1e-6


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.float32], ids=str)
def test_random_integers_fill_the_half_open_range(dtype: torch.dtype) -> None:
    torch.npu.manual_seed(0)
    drawn = torch.empty(N, dtype=dtype, device="npu").random_(3, 11).cpu()
    assert sorted(drawn.unique().tolist()) == list(range(3, 11))
    counts = torch.bincount(drawn.long())[3:].double()
    assert ((counts - N / 8) ** 2 / (N / 8)).sum() < 45
    assert sorted(torch.empty(N, dtype=dtype, device="npu").random_(4).cpu().unique().tolist()) == [0, 1, 2, 3]


def test_random_without_bounds_covers_the_type() -> None:
    for dtype, highest in ((torch.uint8, 255), (torch.int8, 127), (torch.bool, 1), (torch.int16, 2**15 - 1)):
        drawn = torch.empty(N, dtype=dtype, device="npu").random_().cpu().long()
        assert drawn.min() == 0 or dtype is torch.int16
        assert 0.99 * highest <= drawn.max() <= highest
    drawn = torch.empty(N, dtype=torch.int64, device="npu").random_(-(2**63), None).cpu()
    assert (drawn < 0).float().mean().sub(0.5).abs() < 0.02
    assert (drawn & 1).float().mean().sub(0.5).abs() < 0.02
    assert drawn.unique().numel() == N


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.int64, torch.bfloat16, torch.float16], ids=str)
def test_random_bernoulli_has_its_probability(dtype: torch.dtype) -> None:
    torch.npu.manual_seed(0)
    drawn = torch.empty(N, dtype=dtype, device="npu").bernoulli_(0.3).cpu().double()
    assert set(drawn.unique().tolist()) == {0.0, 1.0}
    assert abs(drawn.mean() - 0.3) < 5 * math.sqrt(0.21 / N)
    probabilities = torch.tensor([0.0, 0.25, 1.0])
    for p in (probabilities, probabilities.npu()):
        drawn = torch.empty(N // 4, 3, dtype=dtype, device="npu").bernoulli_(p).cpu().double().mean(0)
        assert drawn[0] == 0
        assert drawn[2] == 1
        assert abs(drawn[1] - 0.25) < 5 * math.sqrt(0.1875 / (N / 4))


def test_random_complex_normal_has_unit_variance() -> None:
    torch.npu.manual_seed(0)
    drawn = torch.randn(N, dtype=torch.complex64, device="npu").cpu()
    assert abs(drawn.abs().pow(2).mean() - 1) < 0.05
    assert abs(drawn.real.var() - 0.5) < 0.05


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.float32], ids=str)
def test_random_permutation_is_one(n: int, dtype: torch.dtype) -> None:
    drawn = torch.randperm(n, dtype=dtype, device="npu").cpu()
    assert drawn.dtype == dtype
    assert sorted(drawn.tolist()) == list(range(n))


def test_random_strided_and_empty_targets() -> None:
    base = torch.zeros(100, 4).npu()
    base[:, 1].normal_()
    base.t()[3].uniform_(1, 2)
    host = base.cpu()
    assert not host[:, 0].any()
    assert not host[:, 2].any()
    assert host[:, 1].unique().numel() == 100
    assert ((host[:, 3] >= 1) & (host[:, 3] < 2)).all()
    state = torch.npu.get_rng_state()
    torch.empty(0, device="npu").normal_()
    assert torch.equal(torch.npu.get_rng_state(), state)


def test_random_bad_arguments_raise() -> None:
    x = torch.empty(3, device="npu")
    for call in (
        lambda: x.normal_(0, -1), lambda: x.uniform_(2, 1), lambda: x.random_(5, 5), lambda: x.bernoulli_(1.5),
        lambda: x.bernoulli_(torch.tensor([1, 0, 1])), lambda: torch.empty(3, dtype=torch.int8, device="npu").random_(0, 1000),
        lambda: torch.empty(3, dtype=torch.int64, device="npu").normal_(), lambda: torch.empty(3, dtype=torch.int64, device="npu").uniform_(),
        lambda: torch.zeros(1).npu().expand(3).normal_(), lambda: torch.randperm(-1, device="npu"),
        lambda: torch.randperm(300, dtype=torch.uint8, device="npu"),
    ):  # fmt: skip
        with pytest.raises((RuntimeError, ValueError)):
            call()


def test_random_dropout_scales_and_matches_its_mask_in_backward() -> None:
    torch.npu.manual_seed(0)
    x = torch.ones(N).npu().requires_grad_()
    y = torch.nn.functional.dropout(x, 0.25)
    kept = y.detach().cpu() != 0
    assert abs(kept.double().mean() - 0.75) < 5 * math.sqrt(0.1875 / N)
    torch.testing.assert_close(y.detach().cpu()[kept], torch.full((int(kept.sum()),), 1 / 0.75))
    y.sum().backward()
    torch.testing.assert_close(x.grad.cpu(), y.detach().cpu())
    out, mask = torch.native_dropout(x, 0.5, True)
    assert mask.dtype == torch.bool
    assert torch.equal(out.cpu() != 0, mask.cpu())
    for p, train, expected in ((0.5, False, 1.0), (1.0, True, 0.0), (0.0, True, 1.0)):
        assert torch.equal(torch.native_dropout(x, p, train)[0].cpu(), torch.full((N,), expected))


def test_random_elements_are_uncorrelated_between_and_within_calls() -> None:
    torch.npu.manual_seed(0)
    a, b = torch.randn(N, device="npu").cpu().double(), torch.randn(N, device="npu").cpu().double()
    for left, right in ((a, b), (a[:-1], a[1:]), (a[:-4], a[4:]), (a[:-1], b[1:])):
        assert abs((left * right).mean()) < 5 / math.sqrt(len(left))
