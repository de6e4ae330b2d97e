"""Two different things about time: the law of training times, and the grids samplers walk down."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from simplax.random import Keys


def stratified(count: int, seed: int, step: int, start: int = 0, stop: int | None = None) -> Tensor:
    """Positions `start:stop` of `count` low-discrepancy numbers that tile [0, 1), float64.

    Number i is uniform on [i/count, (i+1)/count) before a permutation that depends on (seed, step) alone, so that any
    split of the global batch over processes and accumulation steps sees all noise levels and together they tile [0, 1).
    """
    generator = torch.Generator().manual_seed((seed * 1_000_003 + step) % (2**63))
    order = torch.randperm(count, generator=generator)
    u = Keys.from_seeds(torch.arange(count)).stream("stratified", seed, step).uniform(1)[:, 0]
    # the sum of the last stratum may round up to one
    return ((order + u) / count).clamp_(max=1 - 2.0**-53)[start:stop]


@dataclass(frozen=True)
class TimeLaw:
    """Map of stratified numbers to training times: uniform on [low, high)."""

    low: float = 1e-3
    high: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.low < self.high <= 1:
            raise ValueError(f"training times need 0 <= low < high <= 1, got {self.low} and {self.high}")

    def __call__(self, u: Tensor) -> Tensor:
        return self.low + (self.high - self.low) * u


@dataclass(frozen=True)
class Grid:
    """`num_steps + 1` decreasing times from `start` to `end`; the paper's grid is 1, (N-1)/N, ..., 0.

    After a share u of the steps the time is `end + (start - end) (1 - u)^power`: a power over 1 takes finer steps where
    little noise is left, one below 1 where much is.
    """

    start: float = 1.0
    end: float = 0.0
    power: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.power < math.inf:
            raise ValueError(f"the power of a grid must be positive and finite, got {self.power}")
        if not 0 <= self.end < self.start <= 1:
            raise ValueError(
                f"a grid runs down: it needs 0 <= end < start <= 1, got {self.start} to {self.end}"
            )

    def __call__(self, num_steps: int) -> Tensor:
        if num_steps < 1:
            raise ValueError(f"num_steps must be at least 1, got {num_steps}")
        if self.power == 1.0:
            return torch.linspace(self.start, self.end, num_steps + 1, dtype=torch.float64)
        left = torch.linspace(1.0, 0.0, num_steps + 1, dtype=torch.float64) ** self.power
        return self.end + (self.start - self.end) * left
