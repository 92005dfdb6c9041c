"""A small Llama-style decoder: RMSNorm, rotary embedding, grouped-query attention, SwiGLU."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class ModelConfig:
    """Sizes of the decoder.

    Attributes:
        vocab: number of tokens; 256 for bytes.
        width: size of the residual stream.
        layers: number of decoder blocks.
        heads: query heads; must divide ``width``.
        kv_heads: key and value heads; must divide ``heads``.
        hidden: inner size of the feed-forward.
        max_sequence: longest sequence the rotary table covers.
    """

    vocab: int = 256
    width: int = 128
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    hidden: int = 344
    max_sequence: int = 512
    rope_theta: float = 10_000.0
    norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        if self.heads % self.kv_heads:
            raise ValueError(f"heads {self.heads} is not a multiple of kv_heads {self.kv_heads}")
        if (self.width // self.heads) % 2:
            raise ValueError(f"head size {self.width // self.heads} is odd: rotary embedding turns pairs")


class RMSNorm(nn.Module):
    """x / rms(x) * weight over the last dimension, computed in float32 (Zhang and Sennrich, 2019)."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)).type_as(x) * self.weight


def rotary_table(head_size: int, length: int, theta: float) -> Tensor:
    """Cosines and sines of Su et al. (2021): shape (2, length, head_size / 2), float32."""
    frequency = theta ** (-torch.arange(0, head_size, 2, dtype=torch.float32) / head_size)
    angle = torch.outer(torch.arange(length, dtype=torch.float32), frequency)
    return torch.stack((angle.cos(), angle.sin()))


def rotate(x: Tensor, table: Tensor) -> Tensor:
    """Turns each pair (x[i], x[i + half]) of ``x`` (batch, heads, length, head_size) by its position's angle."""
    cos, sin = table[0].to(x.dtype), table[1].to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class Attention(nn.Module):
    """Causal attention in which ``heads / kv_heads`` query heads share one key and value head."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.head_size = config.width // config.heads
        self.query = nn.Linear(config.width, config.heads * self.head_size, bias=False)
        self.key = nn.Linear(config.width, config.kv_heads * self.head_size, bias=False)
        self.value = nn.Linear(config.width, config.kv_heads * self.head_size, bias=False)
        self.output = nn.Linear(config.width, config.width, bias=False)

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        def split(projected: Tensor) -> Tensor:
            return projected.unflatten(-1, (-1, self.head_size)).transpose(1, 2)

        query = rotate(split(self.query(x)), table)
        key = rotate(split(self.key(x)), table)
        mixed = F.scaled_dot_product_attention(query, key, split(self.value(x)), is_causal=True, enable_gqa=True)
        return self.output(mixed.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """SwiGLU (Shazeer, 2020): down(silu(gate(x)) * up(x))."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.gate = nn.Linear(config.width, config.hidden, bias=False)
        self.up = nn.Linear(config.width, config.hidden, bias=False)
        self.down = nn.Linear(config.hidden, config.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """Attention and feed-forward, each behind a norm and beside a residual connection."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(config.width, config.norm_eps)
        self.attention = Attention(config)
        self.feed_forward_norm = RMSNorm(config.width, config.norm_eps)
        self.feed_forward = FeedForward(config)

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x), table)
        return x + self.feed_forward(self.feed_forward_norm(x))


class Decoder(nn.Module):
    """Tokens (batch, length) int64 -> logits (batch, length, vocab)."""

    rotary: Tensor

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = RMSNorm(config.width, config.norm_eps)
        self.head = nn.Linear(config.width, config.vocab, bias=False)
        table = rotary_table(config.width // config.heads, config.max_sequence, config.rope_theta)
        self.register_buffer("rotary", table, persistent=False)
        # Residual branches start small, so that the variance does not grow with depth (GPT-2's rule).
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                branch = name.endswith(("output.weight", "down.weight"))
                nn.init.normal_(weight, std=0.02 / (2 * config.layers) ** 0.5 if branch else 0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        if tokens.shape[1] > self.config.max_sequence:
            raise ValueError(f"sequence of {tokens.shape[1]} tokens, the model takes {self.config.max_sequence}")
        table = self.rotary[:, : tokens.shape[1]]
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, table)
        return self.head(self.norm(x))
