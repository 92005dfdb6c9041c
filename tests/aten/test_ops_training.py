"""Whole training steps against the CPU, without one operator falling back to it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from torch_npu.npu.utils import cpu_fallback_counts


@pytest.fixture(autouse=True)
def no_fallback() -> Iterator[None]:
    before = cpu_fallback_counts()
    yield
    assert cpu_fallback_counts() == before


class RMSNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)
        return (x.float() * scale).type_as(x) * self.weight


def rotate(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    even, odd = x.float().chunk(2, -1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([even * cos - odd * sin, even * sin + odd * cos], -1).type_as(x)


class Block(nn.Module):
    def __init__(self, width: int, heads: int, shared: int) -> None:
        super().__init__()
        self.heads, self.shared, self.size = heads, shared, width // heads
        self.norm1, self.norm2 = RMSNorm(width), nn.RMSNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key_value = nn.Linear(width, 2 * shared * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, 3 * width, bias=False)
        self.down = nn.Linear(3 * width, width, bias=False)

    def forward(self, x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        h = self.norm1(x)
        q = self.query(h).view(batch, length, self.heads, self.size).transpose(1, 2)
        k, v = self.key_value(h).view(batch, length, 2 * self.shared, self.size).transpose(1, 2).chunk(2, 1)
        attended = F.scaled_dot_product_attention(
            rotate(q, angles), rotate(k, angles), v, is_causal=True, enable_gqa=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Decoder(nn.Module):
    def __init__(self, vocabulary: int = 61, width: int = 32, depth: int = 2) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, 4, 2) for _ in range(depth))
        self.norm = RMSNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.register_buffer("frequencies", 1.0 / 100 ** torch.arange(0, 1, 0.25))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device, dtype=torch.float32)
        angles = torch.outer(positions, self.frequencies)
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, angles)
        return self.head(self.norm(x))


def train(model: nn.Module, loss_of: Callable[[nn.Module], torch.Tensor], optimizer: torch.optim.Optimizer,
          steps: int = 3, clip: bool = True) -> list[torch.Tensor]:
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        losses.append(loss.detach())
    return losses


def compare(model: nn.Module, loss_of: Callable[[nn.Module], torch.Tensor],
            optimizer_of: Callable[[nn.Module], torch.optim.Optimizer], **limits: float) -> None:
    twin = copy.deepcopy(model).npu()
    expected = train(model, loss_of, optimizer_of(model))
    actual = train(twin, loss_of, optimizer_of(twin))
    limits = limits or {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close([loss.cpu() for loss in actual], expected, **limits)
    torch.testing.assert_close({n: p.detach().cpu() for n, p in twin.named_parameters()},
                               {n: p.detach() for n, p in model.named_parameters()}, **limits)


def device_of(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


TOKENS = torch.randint(0, 61, (2, 17), generator=torch.Generator().manual_seed(1))


def decoder_loss(model: nn.Module) -> torch.Tensor:
    tokens = TOKENS.to(device_of(model))
    logits = model(tokens[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())


OPTIMIZERS: dict[str, Callable[[nn.Module], torch.optim.Optimizer]] = {
    "adamw": lambda m: torch.optim.AdamW(m.parameters(), lr=1e-3),
    "adamw_plain": lambda m: torch.optim.AdamW(m.parameters(), lr=1e-3, foreach=False),
    "adam_amsgrad": lambda m: torch.optim.Adam(m.parameters(), lr=1e-3, amsgrad=True, weight_decay=0.1),
    "sgd": lambda m: torch.optim.SGD(m.parameters(), lr=1e-2, momentum=0.9, nesterov=True, weight_decay=0.1),
    "rmsprop": lambda m: torch.optim.RMSprop(m.parameters(), lr=1e-3),
    "adagrad": lambda m: torch.optim.Adagrad(m.parameters(), lr=1e-2),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_decoder_training_equals_cpu(optimizer: str) -> None:
    torch.manual_seed(0)
    compare(Decoder(), decoder_loss, OPTIMIZERS[optimizer])


def test_decoder_in_bfloat16_autocast_stays_near_float32() -> None:
    torch.manual_seed(0)
    model = Decoder().npu()
    with torch.autocast("npu", torch.bfloat16):
        loss = decoder_loss(model)
    loss.backward()
    exact = decoder_loss(model)
    torch.testing.assert_close(loss.float(), exact, rtol=2e-2, atol=2e-2)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("norm", [nn.BatchNorm1d(16), nn.LayerNorm(16), nn.GroupNorm(4, 16), nn.RMSNorm(16)],
                         ids=lambda n: type(n).__name__)
def test_mlp_training_equals_cpu(norm: nn.Module) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), copy.deepcopy(norm), nn.GELU(), nn.Linear(16, 5))
    x, y = torch.randn(12, 8), torch.randint(0, 5, (12,))

    def loss_of(m: nn.Module) -> torch.Tensor:
        return F.cross_entropy(m(x.to(device_of(m))), y.to(device_of(m)))

    compare(model, loss_of, OPTIMIZERS["adamw"])
    for name, buffer in model.named_buffers():
        assert torch.isfinite(buffer.float()).all(), name


def test_attention_with_mask_equals_cpu() -> None:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 4, 7, 8) for _ in range(3))
    for mask in (torch.rand(7, 7) > 0.3, torch.randn(2, 1, 7, 7)):
        grads = []
        for device in ("cpu", "npu"):
            leaves = [t.detach().to(device).requires_grad_() for t in (q, k, v)]
            F.scaled_dot_product_attention(*leaves, attn_mask=mask.to(device)).square().sum().backward()
            grads.append([leaf.grad.cpu() for leaf in leaves])
        torch.testing.assert_close(grads[1], grads[0], rtol=1e-4, atol=1e-4, equal_nan=True)


def test_grad_scaler_step_equals_cpu() -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    twin = copy.deepcopy(model).npu()
    x = torch.randn(5, 4)
    for m, device in ((model, "cpu"), (twin, "npu")):
        optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler(device, init_scale=2.0**8, growth_interval=2)
        for factor in (1.0, float("inf"), 1.0, 1.0):
            optimizer.zero_grad()
            scaler.scale(m(x.to(device) * factor).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
        assert scaler.get_scale() == 2.0**8
    torch.testing.assert_close(twin.weight.detach().cpu(), model.weight.detach())
