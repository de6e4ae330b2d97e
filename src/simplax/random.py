"""Randomness as an argument: noise keyed by sample, never by batch, rank or call order.

`Keys` is a counter-based generator. Every sample owns a 64-bit seed; a draw is a hash of (seed, path, position), so the
noise of one sample is the same whatever batch it travels in, on whichever process, after whichever resume. The hash is
SplitMix64 (Steele, Lea and Flood 2014), which is a full-period generator of good quality and costs a dozen integer
operations per number on any device.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

_GOLDEN = -7046029254386353131  # 0x9E3779B97F4A7C15 as a signed 64-bit integer
_MIX_1 = -4658895280553007687  # 0xBF58476D1CE4E5B9
_MIX_2 = -7723592293110705685  # 0x94D049BB133111EB


def _shift_right(x: Tensor, bits: int) -> Tensor:
    """Logical shift; torch's `>>` on signed integers copies the sign."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def mix64(x: Tensor) -> Tensor:
    """The SplitMix64 finaliser, a bijection of 64-bit integers."""
    x = (x ^ _shift_right(x, 30)) * _MIX_1
    x = (x ^ _shift_right(x, 27)) * _MIX_2
    return x ^ _shift_right(x, 31)


@dataclass(frozen=True)
class Keys:
    """One 64-bit key per sample, shape `(batch,)`, from which any number of independent draws can be made.

    Two draws from the *same* keys are identical. So every draw takes the keys of a stream of its own, which has a name:
    `keys.stream("corrupt")`, `keys.stream("step", n)`.
    """

    state: Tensor

    @staticmethod
    def from_seeds(seeds: Tensor | Sequence[int], device: torch.device | str | None = None) -> Keys:
        """Keys from integer seeds, one per sample (for instance the sample's global index)."""
        seeds = torch.as_tensor(seeds, dtype=torch.int64, device=device)
        return Keys(mix64(seeds * _GOLDEN + 1))

    @staticmethod
    def from_generator(batch: int, generator: torch.Generator | None = None) -> Keys:
        """Fresh keys drawn from a torch generator (the global one when `None`)."""
        device = generator.device if generator is not None else None
        return Keys(torch.randint(-(2**63), 2**63 - 1, (batch,), generator=generator, device=device))

    @property
    def batch(self) -> int:
        return self.state.shape[0]

    def fold_in(self, *path: int) -> Keys:
        """Keys of the draw numbered `path`, independent of those of every other path."""
        state = self.state
        for number in path:
            state = mix64(
                state ^ mix64(torch.full((), number + 1, dtype=torch.int64, device=state.device) * _GOLDEN)
            )
        return Keys(state)

    def stream(self, *path: str | int) -> Keys:
        """Keys of the draw called `path`, independent of those of every other name."""
        return self.fold_in(*(_number(part) if isinstance(part, str) else part for part in path))

    def rows(self, rows: Tensor) -> Keys:
        """The keys of some of the samples."""
        return Keys(self.state[rows])

    def to(self, device: torch.device | str) -> Keys:
        return Keys(self.state.to(device))

    def bits(self, *shape: int) -> Tensor:
        """`(batch, *shape)` uniformly distributed 64-bit integers."""
        count = math.prod(shape)
        counter = torch.arange(1, count + 1, dtype=torch.int64, device=self.state.device) * _GOLDEN
        return mix64(self.state[:, None] + counter).reshape(self.batch, *shape)

    def uniform(self, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
        """`(batch, *shape)` numbers in the *open* interval (0, 1): their logarithm is finite."""
        if dtype == torch.float64:
            # 52 bits and a half: with 53 the half would be rounded away, and the largest number up to one
            return (_shift_right(self.bits(*shape), 12).to(torch.float64) + 0.5) * 2.0**-52
        return (_shift_right(self.bits(*shape), 41).to(torch.float32) + 0.5) * 2.0**-23

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """`(batch, *shape)` standard normal numbers by the inverse CDF, accurate in both tails."""
        return torch.special.ndtri(self.uniform(*shape)).to(dtype)

    def randint(self, high: int, *shape: int) -> Tensor:
        """`(batch, *shape)` integers in [0, high); the bias is below `high / 2**52`."""
        return (self.uniform(*shape) * high).long().clamp_(max=high - 1)

    def log_gamma(self, shape: Tensor) -> Tensor:
        """log G for G ~ Gamma(`shape`, 1), float64, one per entry of `shape` (batch, ...), however small those are.

        Marsaglia and Tsang's rejection (2000) at shape + 1, whose candidates are accepted with chance 0.95 or more, and
        G(a) = G(a + 1) U^(1/a). Twelve candidates fail together with chance 2e-16; then the mode takes their place.
        """
        a = shape.double()
        d = a + (1.0 - 1.0 / 3.0)
        log_v = torch.zeros_like(a)
        waiting = torch.ones_like(a, dtype=torch.bool)
        for attempt in range(_GAMMA_ATTEMPTS):
            x = self.stream("gamma", attempt).normal(*a.shape[1:], dtype=torch.float64)
            u = self.stream("accept", attempt).uniform(*a.shape[1:])
            base = 1.0 + x / torch.sqrt(9.0 * d)
            candidate = 3.0 * torch.log(base.clamp(min=1e-300))
            accepted = (base > 0) & (u.log() < 0.5 * x * x + d * (1.0 - candidate.exp() + candidate))
            log_v = torch.where(waiting & accepted, candidate, log_v)
            waiting = waiting & ~accepted
            if a.device.type == "cpu" and not bool(waiting.any()):
                break
        return d.log() + log_v + self.stream("power").uniform(*a.shape[1:]).log() / a


_GAMMA_ATTEMPTS = 12


@functools.cache
def _number(name: str) -> int:
    """A 62-bit number for the name of a stream; small numbers are left to those who count."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest()) >> 2 | 1 << 61


def categorical(probs: Tensor, u: Tensor) -> Tensor:
    """Index drawn from each row of `probs` (last axis, need not be normalised) by inverse CDF at the uniforms `u`.

    `u` has the leading shape of `probs`, or one more axis for several draws from each row. Exact to float64 in the
    cumulative sum. For long rows the sum is taken in two levels (block totals, then one block), so that no float64
    copy of the whole row exists and rare categories keep their probability: a float32 exponential race cannot see
    events rarer than 6e-8.
    """
    if u.dim() < probs.dim():
        return categorical(probs, u.unsqueeze(-1)).squeeze(-1)
    k = probs.shape[-1]
    if k <= 512:
        return _invert(probs.double(), u)
    width = 1 << max(6, math.isqrt(k).bit_length())
    blocks = torch.nn.functional.pad(probs, (0, -k % width)).unflatten(-1, (-1, width))
    # a few blocks at a time, because torch makes a float64 copy of what it sums
    totals = torch.cat([few.sum(-1, dtype=torch.float64) for few in blocks.split(32, dim=-2)], dim=-1)
    cumulative = totals.cumsum(-1)
    target = u.double() * cumulative[..., -1:]
    block = _first_above(cumulative, target, totals > 0)
    before = cumulative.gather(-1, block) - totals.gather(-1, block)
    row = blocks.gather(-2, block.unsqueeze(-1).expand(*block.shape, width)).double()
    rest = ((target - before) / row.sum(-1)).clamp(0.0, 1.0)
    return block * width + _invert(row, rest.unsqueeze(-1)).squeeze(-1)


def _invert(probs: Tensor, u: Tensor) -> Tensor:
    cumulative = probs.cumsum(-1)
    return _first_above(cumulative, u.double() * cumulative[..., -1:], probs > 0)


def _first_above(cumulative: Tensor, target: Tensor, has_mass: Tensor) -> Tensor:
    index = torch.searchsorted(cumulative, target, right=True)
    # rounding may push the target onto the total: step back to the last entry that has mass
    last = has_mass.int().cumsum(-1).argmax(-1, keepdim=True)
    return torch.minimum(index, last)
