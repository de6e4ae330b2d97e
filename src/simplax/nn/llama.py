"""A denoiser of the Llama shape: the trunk of autoregressive language models, with attention opened in both directions.

RMS norm, rotary positions, grouped-query attention, gated MLP. It exists to be started from the weights of a causal
language model, whose knowledge of text a diffusion model then adapts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simplax.errors import UserError
from simplax.nn.attention import Rotary, rotate, visible
from simplax.nn.cost import linear_weights, shape_of
from simplax.nn.inputs import State, TokenEmbedding
from simplax.nn.transformer import attention


@dataclass(frozen=True)
class LlamaShape:
    """Sizes of the network; `kv_heads` keys and values are shared by the `heads` queries in equal groups."""

    vocab_size: int
    width: int
    hidden: int
    depth: int
    heads: int
    kv_heads: int
    head_dim: int
    rope_base: float = 10000.0
    norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        numbers = (
            self.vocab_size,
            self.width,
            self.hidden,
            self.depth,
            self.heads,
            self.kv_heads,
            self.head_dim,
        )
        if min(numbers) < 1 or self.heads % self.kv_heads or self.head_dim % 2:
            raise UserError("sizes must be positive, heads a multiple of kv_heads and head_dim even.")


class RMSNorm(nn.Module):
    """x / rms(x) times a weight, computed in float32."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, h: Tensor) -> Tensor:
        return F.rms_norm(h.float(), self.weight.shape, self.weight.float(), self.eps)


class LlamaAttention(nn.Module):
    """Rotary attention in which groups of heads share keys and values."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.head_dim, self.group = shape.head_dim, shape.heads // shape.kv_heads
        inner, shared = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        self.q_proj = nn.Linear(shape.width, inner, bias=False)
        self.k_proj = nn.Linear(shape.width, shared, bias=False)
        self.v_proj = nn.Linear(shape.width, shared, bias=False)
        self.o_proj = nn.Linear(inner, shape.width, bias=False)

    def forward(self, u: Tensor, cos: Tensor, sin: Tensor, seen: Tensor | None) -> Tensor:
        q, k, v = (
            project(u).unflatten(-1, (-1, self.head_dim))
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = (x.repeat_interleave(self.group, 2) for x in (k, v))
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return self.o_proj(attention(q, k, v, seen, causal=False).transpose(1, 2).flatten(2))


class LlamaMLP(nn.Module):
    """silu(gate) times up, and down again."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.width, shape.hidden, bias=False)
        self.up_proj = nn.Linear(shape.width, shape.hidden, bias=False)
        self.down_proj = nn.Linear(shape.hidden, shape.width, bias=False)

    def forward(self, u: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(u)) * self.up_proj(u))


class LlamaBlock(nn.Module):
    """Attention and MLP, each normalised before and added to what came in."""

    def __init__(self, shape: LlamaShape) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(shape.width, shape.norm_eps)
        self.self_attn = LlamaAttention(shape)
        self.post_attention_layernorm = RMSNorm(shape.width, shape.norm_eps)
        self.mlp = LlamaMLP(shape)

    def forward(self, h: Tensor, cos: Tensor, sin: Tensor, seen: Tensor | None) -> Tensor:
        h = h + self.self_attn(self.input_layernorm(h), cos, sin, seen)
        return h + self.mlp(self.post_attention_layernorm(h))


class LlamaDenoiser(nn.Module):
    """Logits of every token from all the others, by the trunk of a causal language model.

    A causal model's output at one position is about the *next* token. The shift is kept: the sequence is read behind
    the start symbol `bos`, and what comes out at position i is the prediction for token i, as it was before. With
    `causal=True` the network is the original one, exactly; `causal=False` lets every position see all others, which is
    what a denoiser needs, and what training then has to make use of. `mask` adds an input row for a mask token (id
    `vocab_size`), started at the mean of all rows. The time is not an input.
    """

    def __init__(
        self, shape: LlamaShape, length: int, *, bos: int, mask: bool = True, causal: bool = False
    ) -> None:
        super().__init__()
        if not 0 <= bos < shape.vocab_size:
            raise UserError(f"the start symbol {bos} is not one of the {shape.vocab_size} ids.")
        self.shape, self.length, self.bos, self.causal = shape, length, bos, causal
        self.vocab_size, self.output_size = shape.vocab_size + mask, shape.vocab_size
        self.vocab_embed = TokenEmbedding(self.vocab_size, shape.width)
        self.rotary_emb = Rotary(shape.head_dim, length + 1, shape.rope_base)
        self.layers = nn.ModuleList(LlamaBlock(shape) for _ in range(shape.depth))
        self.norm = RMSNorm(shape.width, shape.norm_eps)
        self.lm_head = nn.Linear(shape.width, self.output_size, bias=False)

    @property
    def block_passes(self) -> int:
        """Transformer blocks that a sequence goes through in one call."""
        return len(self.layers)

    def multiply_adds(self, z: State, **keywords: Any) -> int:
        """Multiply-adds of the matrix products of a call; the start symbol is one position more."""
        batch, positions = shape_of(z)
        inner = self.shape.heads * self.shape.head_dim
        attention = 2 * (positions + 1) * inner * len(self.layers)
        dense = z.shape[-1] * self.shape.width if isinstance(z, Tensor) and z.is_floating_point() else 0
        blocks = (positions + 1) * (linear_weights(self.layers) + attention)
        return batch * (blocks + positions * (self.lm_head.weight.numel() + dense))

    def forward(
        self, z: State, t: Tensor | None = None, *, given: Tensor | None = None, attend: Tensor | None = None
    ) -> Tensor:
        """Float32 logits (b, l, K) of ids (b, l), atoms or a dense state; `t` and `given` are not looked at."""
        h: Tensor = self.vocab_embed(z)
        start = self.vocab_embed.embedding[self.bos].expand(len(h), 1, -1)
        h = torch.cat([start, h], 1)
        stop = h.shape[1]
        if stop > self.length + 1:
            raise ValueError(
                f"{stop - 1} positions are more than the {self.length} this denoiser was built for."
            )
        everywhere = None if attend is None else F.pad(attend, (1, 0), value=True)
        seen = visible(0, stop, self.causal, everywhere, h.device)
        cos, sin = self.rotary_emb(0, stop)
        for layer in self.layers:
            h = layer(h, cos, sin, seen)
        return self.lm_head(self.norm(h[:, :-1])).float()
