"""What attention needs besides matrix products: rotary positions, who sees whom, the key-value cache."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Rotary(nn.Module):
    """Rotary position embedding, half-split: coordinates j and j + head_dim / 2 turn as one plane.

    `inv_freq` is stored with the weights because published checkpoints do so; the tables are not.
    """

    inv_freq: Tensor
    cos: Tensor
    sin: Tensor

    def __init__(self, head_dim: int, length: int, base: float = 10000.0) -> None:
        super().__init__()
        inv_freq = base ** (-torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
        angle = torch.outer(torch.arange(length, dtype=torch.float32), inv_freq)
        cos, sin = angle.cos(), angle.sin()
        self.register_buffer("inv_freq", inv_freq)
        # (length, 1, head_dim); the sign of the rotation is inside the sine, so `rotate` needs no negation
        self.register_buffer("cos", torch.cat([cos, cos], -1).unsqueeze(1), persistent=False)
        self.register_buffer("sin", torch.cat([-sin, sin], -1).unsqueeze(1), persistent=False)

    def forward(self, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Tables for positions start..stop, each (stop - start, 1, head_dim)."""
        return self.cos[start:stop], self.sin[start:stop]


class _Forms:
    """A plain attribute, which the compiler can read; it cannot read a context variable."""

    of_gpus = False


@contextmanager
def as_on_gpus() -> Iterator[None]:
    """Inside, a CPU computes in the forms of GPUs, which keep less for the backward pass: for estimates of memory."""
    before, _Forms.of_gpus = _Forms.of_gpus, True
    try:
        yield
    finally:
        _Forms.of_gpus = before


def for_cpu(x: Tensor) -> bool:
    """Whether to compute with x in a form that is faster on CPUs and takes more memory."""
    return x.device.type == "cpu" and not _Forms.of_gpus


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn x (b, l, h, head_dim) by its position: three passes over memory, in the precision of x.

    A CPU has the tables repeated for all heads: it multiplies long rows several times as fast as many short ones.
    """
    heads, width = x.shape[-2:]
    if not for_cpu(x):
        return torch.addcmul(x * cos.to(x.dtype), x.roll(width // 2, -1), sin.to(x.dtype))
    cos, sin = (table.to(x.dtype).expand(-1, heads, -1).flatten(1) for table in (cos, sin))
    turned = x.roll(width // 2, -1)
    return torch.addcmul(x.flatten(2) * cos, turned.flatten(2), sin).unflatten(-1, (heads, width))


class Cache:
    """Keys and values of the positions a causal network has read, each (depth, b, h, length, head_dim).

    Passed to the denoiser with only the *new* tokens, it grows by them. It is written in place: no gradients.
    """

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        self.keys, self.values, self.length = keys, values, 0

    def extend(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write the new keys and values of one layer and return all so far; `length` moves in `advance`."""
        stop = self.length + k.shape[-2]
        self.keys[layer, :, :, self.length : stop] = k
        self.values[layer, :, :, self.length : stop] = v
        return self.keys[layer, :, :, :stop], self.values[layer, :, :, :stop]

    def advance(self, count: int) -> None:
        self.length += count


def visible(
    start: int, stop: int, causal: bool, attend: Tensor | None, device: torch.device
) -> Tensor | None:
    """Which keys 0..stop the queries start..stop see: boolean, broadcasts to (b, h, q, k); None for all.

    Every position sees itself, even a padded one whose output nobody uses: a softmax over nothing is NaN.
    """
    if attend is None and (not causal or stop - start == 1):
        return None
    query = torch.arange(start, stop, device=device)[:, None]
    key = torch.arange(stop, device=device)[None, :]
    if attend is None:
        return (key <= query)[None, None]
    seen = attend[:, None, None, :] | (key == query)
    return seen & (key <= query) if causal else seen
