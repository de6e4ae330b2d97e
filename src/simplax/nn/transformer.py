"""The diffusion transformer: rotary attention, adaptive layer norm, tanh-GELU, with the published parameter
names.

Precision: with an autocast dtype the matrix products and attention run in it; layer norms, modulation and the
residual stream stay float32. Parameters are registered in the published order, so lists of weights without
names (as in published EMA states) can be loaded.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simplax.nn.attention import Cache, for_cpu, rotate
from simplax.nn.linear import Linear

LAYER_NORM_EPS = 1e-5
SIGMA_FEATURES = 256


class LayerNorm(nn.Module):
    """Layer norm with a weight and no bias, always computed and returned in float32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, h: Tensor) -> Tensor:
        return F.layer_norm(h.float(), self.weight.shape, self.weight.float(), None, LAYER_NORM_EPS)


def sigma_features(sigma: Tensor, width: int = SIGMA_FEATURES) -> Tensor:
    """Sinusoidal features (b, width) of a scalar per sample, cosines first."""
    half = width // 2
    frequency = torch.exp(
        torch.arange(half, device=sigma.device, dtype=torch.float32) * (-math.log(10000.0) / half)
    )
    angle = sigma[:, None].float() * frequency
    return torch.cat([angle.cos(), angle.sin()], -1)


class SigmaMap(nn.Module):
    """The conditioning vector (b, cond_dim) of a noise level sigma (b,)."""

    def __init__(self, cond_dim: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(SIGMA_FEATURES, cond_dim), nn.SiLU(), nn.Linear(cond_dim, cond_dim)
        )

    def forward(self, sigma: Tensor) -> Tensor:
        return F.silu(self.mlp(sigma_features(sigma)))


def zero_linear(inputs: int, outputs: int, bias: bool = True) -> nn.Linear:
    """A linear layer that starts as the zero map."""
    layer = nn.Linear(inputs, outputs, bias)
    nn.init.zeros_(layer.weight)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def modulate(h: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """h (1 + scale) + shift in one pass over h; shift and scale are (b, 1, d)."""
    return torch.addcmul(shift, h, 1.0 + scale)


class TanhGELU(nn.Module):
    """GELU by its tanh formula."""

    def forward(self, h: Tensor) -> Tensor:
        return sigmoid_gelu(h) if torch.compiler.is_compiling() else F.gelu(h, approximate="tanh")


def sigmoid_gelu(h: Tensor) -> Tensor:
    """The same, for (1 + tanh a) / 2 is the sigmoid of 2 a; compiled for a CPU, tanh takes several times as long.

    Like torch's own, it rounds only its result to a short format.
    """
    slope, x = 2.0 * math.sqrt(2.0 / math.pi), h.to(torch.promote_types(h.dtype, torch.float32))
    return (x * torch.sigmoid(x * (slope + 0.044715 * slope * x * x))).to(h.dtype)


class Shared(NamedTuple):
    """What all blocks of one forward pass have in common.

    `cond` (b, cond_dim) or None without adaptive layer norm; `cos`, `sin` rotary tables; `seen` the boolean
    mask of `visible`; `causal` makes the attention kernel use a triangular mask instead.
    """

    cond: Tensor | None
    cos: Tensor
    sin: Tensor
    seen: Tensor | None
    causal: bool


class Block(nn.Module):
    """Attention and MLP, each normalised, modulated and gated by the conditioning vector."""

    def __init__(
        self,
        width: int,
        heads: int,
        mlp_ratio: int,
        dropout: float,
        cond_dim: int | None,
        attention_cap: float | None = None,
    ) -> None:
        super().__init__()
        self.heads, self.dropout, self.attention_cap = heads, dropout, attention_cap
        self.norm1 = LayerNorm(width)
        self.attn_qkv = Linear(width, 3 * width, bias=False)
        self.attn_out = Linear(width, width, bias=False)
        self.norm2 = LayerNorm(width)
        self.mlp = nn.Sequential(
            Linear(width, mlp_ratio * width),
            TanhGELU(),
            Linear(mlp_ratio * width, width),
        )
        self.adaLN_modulation = None if cond_dim is None else zero_linear(cond_dim, 6 * width)

    def forward(
        self,
        h: Tensor,
        shared: Shared,
        bias: Tensor | None = None,
        layer: int = 0,
        cache: Cache | None = None,
    ) -> Tensor:
        """`bias` (1, heads, q, k) is added to the scores; `layer` is this block's place in the cache."""
        if self.adaLN_modulation is None:
            h = h + self._drop(self._attention(self.norm1(h), shared, bias, layer, cache))
            return h + self._drop(self.mlp(self.norm2(h)))
        modulation = self.adaLN_modulation(shared.cond).float().unsqueeze(1)
        shift_a, scale_a, gate_a, shift_m, scale_m, gate_m = modulation.chunk(6, -1)
        attended = self._attention(modulate(self.norm1(h), shift_a, scale_a), shared, bias, layer, cache)
        h = torch.addcmul(h, gate_a, self._drop(attended))
        return torch.addcmul(h, gate_m, self._drop(self.mlp(modulate(self.norm2(h), shift_m, scale_m))))

    def _drop(self, branch: Tensor) -> Tensor:
        return F.dropout(branch, self.dropout, self.training)

    def _attention(
        self, u: Tensor, shared: Shared, bias: Tensor | None, layer: int, cache: Cache | None
    ) -> Tensor:
        # one split, so that the backward pass writes the gradient of qkv once
        q, k, v = (x.unflatten(-1, (self.heads, -1)) for x in self.attn_qkv(u).chunk(3, -1))
        q, k = rotate(q, shared.cos, shared.sin), rotate(k, shared.cos, shared.sin)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        if cache is not None:
            k, v = cache.extend(layer, k, v)
        if self.attention_cap is not None:
            out = capped_attention(q, k, v, self.attention_cap, score_mask(shared.seen, bias, q))
        elif bias is None or shared.seen is not None:
            out = attention(q, k, v, score_mask(shared.seen, bias, q), shared.causal)
        else:
            out = biased_attention(q, k, v, bias)
        return self.attn_out(out.transpose(1, 2).flatten(2))


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
    """Attention by torch's kernel; on a CPU in bfloat16, where that kernel's gradient takes up to twenty times as
    long, by two matrix products. `mask` is boolean or additive; `causal` adds a triangular one.
    """
    if not for_cpu(q) or q.dtype != torch.bfloat16:
        return F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal)
    scores = torch.matmul(q * q.shape[-1] ** -0.5, k.transpose(-2, -1))
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    return torch.matmul(torch.softmax(scores, -1), v)


def biased_attention(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
    """Attention with a learned bias on every score and no mask.

    No fused kernel differentiates its mask, and the fallback guards each row against being fully masked with
    four more passes over the scores; a finite bias cannot mask a row.
    """
    scores = torch.matmul(q * q.shape[-1] ** -0.5, k.transpose(-2, -1))
    return torch.matmul(torch.softmax(scores.float() + bias, -1).to(v.dtype), v)


def capped_attention(q: Tensor, k: Tensor, v: Tensor, cap: float, mask: Tensor | None) -> Tensor:
    """Attention with scores kept in (-cap, cap) by a tanh before the mask, boolean or additive, applies."""
    scores = torch.matmul(q * q.shape[-1] ** -0.5, k.transpose(-2, -1)).float()
    scores = cap * torch.tanh(scores / cap)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
    return torch.matmul(torch.softmax(scores, -1).to(v.dtype), v)


def score_mask(seen: Tensor | None, bias: Tensor | None, q: Tensor) -> Tensor | None:
    """One mask for the attention kernel out of who-sees-whom and the additive bias."""
    if bias is None:
        return seen
    bias = bias.to(q.dtype)
    return bias if seen is None else torch.where(seen, bias, -math.inf)


class OutputLayer(nn.Module):
    """Final norm and modulation (`forward`) and the projection to logits (`linear`), which starts at zero."""

    def __init__(self, width: int, output_size: int, cond_dim: int | None) -> None:
        super().__init__()
        self.norm_final = LayerNorm(width)
        self.linear = zero_linear(width, output_size)
        self.adaLN_modulation = None if cond_dim is None else zero_linear(cond_dim, 2 * width)

    def forward(self, h: Tensor, cond: Tensor | None) -> Tensor:
        h = self.norm_final(h)
        if self.adaLN_modulation is None:
            return h
        shift, scale = self.adaLN_modulation(cond).float().unsqueeze(1).chunk(2, -1)
        return modulate(h, shift, scale)
