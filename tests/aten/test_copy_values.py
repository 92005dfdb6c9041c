"""Copies between host and device give the values that a copy on the CPU gives."""

import itertools

import pytest
import torch

import torch_npu  # noqa: F401

LAYOUTS = {
    "contiguous": lambda t: t.contiguous(),
    "transposed": lambda t: t.transpose(0, -1).contiguous().transpose(0, -1),
    "sliced": lambda t: torch.stack([t, t], -1).flatten(-2)[..., ::2],
    "offset": lambda t: torch.cat([t[:1], t])[1:],
}
DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
    torch.complex128,
)


def make(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    values = torch.arange(1, 1 + torch.Size(shape).numel()).reshape(shape) % 50
    if dtype.is_complex:
        return torch.complex(values.float(), values.float() - 2).to(dtype)
    return values.to(dtype)


def place(host: torch.Tensor, layout: str) -> torch.Tensor:
    """The values of ``host`` on the device, laid out like ``LAYOUTS[layout](host)``."""
    wanted = LAYOUTS[layout](host)
    whole = torch.empty(max(1, wanted.untyped_storage().nbytes() // host.element_size()), dtype=host.dtype)
    whole.as_strided(wanted.shape, wanted.stride(), wanted.storage_offset()).copy_(host)
    return whole.npu().as_strided(wanted.shape, wanted.stride(), wanted.storage_offset())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_copy_round_trip_any_layout_keeps_values_and_dtype(dtype: torch.dtype, layout: str) -> None:
    host = LAYOUTS[layout](make(dtype, 3, 4, 5))
    device = host.to("npu")
    back = device.to("cpu")
    assert device.dtype == back.dtype == dtype
    assert back.stride() == host.clone().stride()
    assert torch.equal(back, host)
    assert torch.equal(place(host, layout).cpu(), host)


@pytest.mark.parametrize("source,target", itertools.product(LAYOUTS, LAYOUTS))
@pytest.mark.parametrize("way", ["up", "down", "across"])
def test_copy_between_layouts_gives_values(source: str, target: str, way: str) -> None:
    values = make(torch.float32, 3, 4, 5)
    empty = torch.zeros_like(values)
    src = place(values, source) if way != "up" else LAYOUTS[source](values)
    dst = place(empty, target) if way != "down" else LAYOUTS[target](empty)
    dst.copy_(src)
    assert torch.equal(dst.cpu(), values)


@pytest.mark.parametrize("source,target", itertools.permutations(DTYPES, 2), ids=str)
@pytest.mark.filterwarnings("ignore:Casting complex values to real")
def test_copy_with_conversion_matches_cpu(source: torch.dtype, target: torch.dtype) -> None:
    host = make(source, 4, 3)
    expected = torch.zeros(4, 3, dtype=target).copy_(host)
    up = torch.zeros(4, 3, dtype=target, device="npu").copy_(host)
    across = torch.zeros(3, 4, dtype=target, device="npu").t().copy_(host.npu())
    down = torch.zeros(4, 3, dtype=target).copy_(host.npu())
    for name, result in (("up", up), ("across", across), ("down", down)):
        assert result.dtype == target, name
        assert torch.equal(result.cpu(), expected), name


@pytest.mark.parametrize("dtype", [torch.complex32, torch.float8_e5m2, torch.float8_e4m3fn], ids=str)
def test_copy_of_types_beyond_aclnn_copy_keeps_bits(dtype: torch.dtype) -> None:
    host = torch.arange(24, dtype=torch.uint8).reshape(2, 12).view(dtype)
    device = host.npu()
    assert torch.equal(device.cpu().view(torch.uint8), host.view(torch.uint8))
    assert torch.equal(device.t().contiguous().cpu().view(torch.uint8), host.t().contiguous().view(torch.uint8))


def test_copy_float8_conversions_match_cpu() -> None:
    host = torch.linspace(-3, 3, 13)
    for dtype in (torch.float8_e5m2, torch.float8_e4m3fn, torch.float8_e4m3fnuz):
        there = host.npu().to(dtype)
        assert there.device.type == "npu"
        assert torch.equal(there.cpu().view(torch.uint8), host.to(dtype).view(torch.uint8)), dtype
        assert torch.equal(there.float().cpu(), host.to(dtype).float()), dtype


@pytest.mark.parametrize("way", ["up", "down", "across"])
def test_copy_broadcasts_source(way: str) -> None:
    source = make(torch.float32, 4, 1)
    src = source if way == "up" else source.npu()
    dst = torch.zeros(2, 4, 3, device="cpu" if way == "down" else "npu")
    dst.copy_(src)
    assert torch.equal(dst.cpu(), source.expand(2, 4, 3))
    expanded = src.expand(4, 6)
    assert torch.equal(expanded.to("cpu" if way == "down" else "npu").cpu(), source.expand(4, 6))


@pytest.mark.parametrize("shape", [(0,), (3, 0, 2), ()])
def test_copy_of_empty_and_single_elements(shape: tuple[int, ...]) -> None:
    host = torch.full(shape, 3.5)
    device = host.npu()
    assert device.shape == host.shape
    assert torch.equal(device.half().cpu(), host.half())
    device.copy_(torch.full(shape, 1.25))
    assert torch.equal(device.cpu(), torch.full(shape, 1.25))


def test_copy_shape_mismatch_raises() -> None:
    for dst, src in ((torch.zeros(3, device="npu"), torch.zeros(4)), (torch.zeros(0, device="npu"), torch.zeros(4))):
        with pytest.raises(RuntimeError, match="must match the existing size"):
            dst.copy_(src)
        with pytest.raises(RuntimeError, match="must match"):
            dst.copy_(src.npu())


def test_copy_overlapping_destination_raises_as_on_cpu() -> None:
    for device in ("cpu", "npu"):
        dst = torch.zeros(1, device=device).expand(3)
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            dst.copy_(torch.ones(3))
        whole = torch.arange(6.0, device=device)
        with pytest.raises(RuntimeError, match="overlap|single memory location"):
            whole[1:].copy_(whole[:-1])


def test_copy_onto_itself_changes_nothing() -> None:
    device = torch.arange(6.0, device="npu").reshape(2, 3)
    device.copy_(device)
    device.view(6).copy_(device.flatten())
    assert torch.equal(device.cpu(), torch.arange(6.0).reshape(2, 3))


@pytest.mark.parametrize("lazy_source", [False, True])
@pytest.mark.parametrize("lazy_target", [False, True])
@pytest.mark.parametrize("bit", ["conj", "neg"])
@pytest.mark.parametrize("way", ["up", "down", "across"])
def test_copy_resolves_conj_and_neg_bits(lazy_source: bool, lazy_target: bool, bit: str, way: str) -> None:
    def lazily(tensor: torch.Tensor, wanted: bool) -> torch.Tensor:
        if not wanted:
            return tensor
        return tensor.conj() if bit == "conj" else torch._neg_view(tensor)

    values = make(torch.complex64, 3, 4)
    base = values.clone() if way == "up" else values.npu()
    target = torch.zeros(3, 4, dtype=torch.complex64, device="cpu" if way == "down" else "npu")
    source = lazily(base, lazy_source)
    lazily(target, lazy_target).copy_(source)
    expected = torch.zeros(3, 4, dtype=torch.complex64)
    lazily(expected, lazy_target).copy_(lazily(values, lazy_source))
    assert torch.equal(target.cpu(), expected)
    assert torch.equal(source.cpu(), lazily(values, lazy_source).resolve_conj().resolve_neg())
    assert torch.equal(base.cpu(), values)


def test_copy_real_part_of_conjugate_matches_cpu() -> None:
    host = make(torch.complex64, 5)
    for part in ("real", "imag"):
        assert torch.equal(getattr(host.npu().conj(), part).cpu(), getattr(host.conj(), part).resolve_neg())
    assert torch.equal(host.npu().conj().to("cpu", torch.bool), host.conj().to(torch.bool))


def test_copy_channels_last_layout_is_kept() -> None:
    host = torch.arange(2 * 3 * 4 * 5.0).reshape(2, 3, 4, 5).to(memory_format=torch.channels_last)
    device = host.npu()
    assert device.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(device.contiguous().cpu(), host.contiguous())


def test_copy_keeps_autograd_graph() -> None:
    host = torch.arange(4.0, requires_grad=True)
    (host.npu() * 3).cpu().sum().backward()
    assert torch.equal(host.grad, torch.full((4,), 3.0))


def test_copy_of_sparse_tensor_raises_not_implemented() -> None:
    with pytest.raises((NotImplementedError, RuntimeError)):
        torch.eye(3).to_sparse().npu()
