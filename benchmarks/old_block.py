"""The transformer block as it was before the changes of November 2026, kept as a contestant of `step_share.py`."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from simplax.nn import Denoiser
from simplax.nn.attention import Cache
from simplax.nn.transformer import Shared


def use_old_blocks(denoiser: nn.Module) -> None:
    """Replace the blocks of a network, whose weights stay. Without dropout, caps, masks and labels."""
    assert isinstance(denoiser, Denoiser)
    a = denoiser.architecture
    blocks = [OldBlock(a.width, a.heads, a.mlp_ratio, a.cond_dim) for _ in denoiser.blocks]
    for old, new in zip(blocks, denoiser.blocks):
        old.load_state_dict(new.state_dict())
    denoiser.blocks = nn.ModuleList(blocks)


class Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, h: Tensor) -> Tensor:
        return F.layer_norm(h.float(), self.weight.shape, self.weight.float(), None, 1e-5)


class OldBlock(nn.Module):
    def __init__(self, width: int, heads: int, mlp_ratio: int, cond_dim: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = Norm(width)
        self.attn_qkv = nn.Linear(width, 3 * width, bias=False)
        self.attn_out = nn.Linear(width, width, bias=False)
        self.norm2 = Norm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, mlp_ratio * width),
            nn.GELU(approximate="tanh"),
            nn.Linear(mlp_ratio * width, width),
        )
        self.adaLN_modulation = nn.Linear(cond_dim, 6 * width)

    def forward(
        self,
        h: Tensor,
        shared: Shared,
        bias: Tensor | None = None,
        layer: int = 0,
        cache: Cache | None = None,
    ) -> Tensor:
        assert bias is not None and cache is None and shared.seen is None
        modulation = self.adaLN_modulation(shared.cond).float().unsqueeze(1)
        shift_a, scale_a, gate_a, shift_m, scale_m, gate_m = modulation.chunk(6, -1)
        u = torch.addcmul(shift_a, self.norm1(h), 1.0 + scale_a)
        h = torch.addcmul(h, gate_a, self._attention(u, shared.cos, shared.sin, bias))
        u = torch.addcmul(shift_m, self.norm2(h), 1.0 + scale_m)
        return torch.addcmul(h, gate_m, self.mlp(u))

    def _attention(self, u: Tensor, cos: Tensor, sin: Tensor, bias: Tensor) -> Tensor:
        q, k, v = (x.unflatten(-1, (self.heads, -1)) for x in self.attn_qkv(u).chunk(3, -1))
        q, k = _rotate(q, cos, sin).transpose(1, 2), _rotate(k, cos, sin).transpose(1, 2)
        scores = torch.matmul(q * q.shape[-1] ** -0.5, k.transpose(-2, -1))
        out = torch.matmul(torch.softmax(scores.float() + bias, -1).to(v.dtype), v.transpose(1, 2))
        return self.attn_out(out.transpose(1, 2).flatten(2))


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return torch.addcmul(x * cos.to(x.dtype), x.roll(x.shape[-1] // 2, -1), sin.to(x.dtype))
