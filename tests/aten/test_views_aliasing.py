"""Views share memory: what is written through one is seen through the other."""

import pytest
import torch

import torch_npu  # noqa: F401

VIEWS = {
    "view": lambda t: t.view(-1),
    "as_strided": lambda t: t.as_strided((2, 3), (5, 2), 1),
    "unfold": lambda t: t.unfold(1, 2, 1)[:, ::2],
    "transpose": lambda t: t.t(),
    "select": lambda t: t[1],
    "slice": lambda t: t[:, 1::2],
    "narrow": lambda t: t.narrow(0, 1, 2),
    "diagonal": lambda t: t.diagonal(),
    "unsqueeze": lambda t: t.unsqueeze(1),
    "squeeze": lambda t: t.view(4, 1, 5).squeeze(1),
    "permute": lambda t: t.view(4, 5, 1).permute(2, 0, 1),
    "split": lambda t: t.split(2)[1],
    "chunk": lambda t: t.chunk(2, 1)[1],
    "unbind": lambda t: t.unbind(1)[3],
    "unflatten": lambda t: t.unflatten(0, (2, 2)),
    "swapaxes": lambda t: t.swapaxes(0, 1),
    "detach": lambda t: t.detach(),
    "reshape": lambda t: t.reshape(2, 10),
    "view_dtype": lambda t: t.view(torch.int32).view(torch.float32),
    "alias": lambda t: torch.ops.aten.alias(t),
    "expand_of_part": lambda t: t[:, :1].expand(4, 1),
    "movedim": lambda t: t.movedim(0, 1),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_writing_through_view_changes_base(name: str) -> None:
    view = VIEWS[name]
    host = torch.arange(20.0).reshape(4, 5)
    device = host.npu()
    assert torch.equal(view(device).cpu(), view(host))
    view(device).fill_(-1)
    view(host).fill_(-1)
    assert torch.equal(device.cpu(), host)
    assert view(device).untyped_storage().data_ptr() == device.untyped_storage().data_ptr()


def test_views_complex_as_real_share_memory() -> None:
    host = torch.tensor([1 + 2j, 3 - 4j, -5 + 0j])
    device = host.npu()
    torch.view_as_real(device)[1].zero_()
    device.real.mul_(2)
    device.imag.add_(1)
    torch.view_as_real(host)[1].zero_()
    host.real.mul_(2)
    host.imag.add_(1)
    assert torch.equal(device.cpu(), host)
    pairs = torch.arange(6.0).reshape(3, 2)
    there = pairs.npu()
    torch.view_as_complex(there).mul_(1j)
    torch.view_as_complex(pairs).mul_(1j)
    assert torch.equal(there.cpu(), pairs)


def test_views_invalid_arguments_raise_as_on_cpu() -> None:
    for device in ("cpu", "npu"):
        tensor = torch.zeros(4, 5, device=device)
        with pytest.raises(RuntimeError, match="invalid for input of size"):
            tensor.view(7)
        with pytest.raises(RuntimeError, match="compatible"):
            tensor.t().view(-1)
        with pytest.raises(RuntimeError, match="out of bounds for storage"):
            tensor.as_strided((100,), (1,))


def test_views_is_set_to_tells_identity() -> None:
    tensor = torch.zeros(4, device="npu")
    assert tensor.is_set_to(tensor.view(4))
    assert not tensor.is_set_to(tensor[:2])
    assert not tensor.is_set_to(tensor.clone())


def test_views_autograd_through_views_matches_cpu() -> None:
    grads = []
    for device in ("cpu", "npu"):
        leaf = torch.arange(12.0, device=device).reshape(3, 4).requires_grad_()
        (leaf.unfold(1, 2, 2)[..., 0].sum() + (leaf.t()[1:] ** 2).sum() + leaf.as_strided((2,), (5,)).sum()).backward()
        grads.append(leaf.grad.cpu())
    assert torch.equal(*grads)


def test_views_in_place_on_view_of_leaf_with_grad_matches_cpu() -> None:
    grads = []
    for device in ("cpu", "npu"):
        leaf = torch.arange(6.0, device=device, requires_grad=True)
        work = leaf * 2
        work[1:3] *= 5
        work.sum().backward()
        grads.append(leaf.grad.cpu())
    assert torch.equal(*grads)
