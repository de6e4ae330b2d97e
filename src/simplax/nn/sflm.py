"""S-FLM's denoiser: points of the unit sphere in, with a schedule that may adapt to the losses it sees."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from simplax.functional._splines import pchip, pchip_slopes
from simplax.functional.continuous import refit_schedule
from simplax.nn.architecture import Architecture
from simplax.nn.vectors import VectorDenoiser
from simplax.processes.vectors import unit

ALPHA_MIN = 1e-3
GRID = 1000


@dataclass(frozen=True)
class Adaptation:
    """When and from how much the schedule is refitted.

    After `warmup` optimiser steps the last `buffer` pairs of time and loss are kept; every `every` steps, once there
    are so many, the schedule is refitted and averaged with the earlier ones by `decay`. Published runs keep 50 steps'
    worth: 12,800 at a batch of 256.
    """

    buffer: int = 12_800
    every: int = 50
    warmup: int = 1000
    decay: float = 0.9

    def __post_init__(self) -> None:
        if self.buffer < 100 or self.every < 1 or self.warmup < 0 or not 0 <= self.decay < 1:
            raise ValueError(
                "an adaptive schedule needs a buffer of at least 100 samples, every >= 1, warmup >= 0 and a decay "
                "in [0, 1)"
            )


class AlphaTable(nn.Module):
    """alpha on an even grid of [0, 1], interpolated by a monotone cubic; at first a line from `high` to `ALPHA_MIN`."""

    alphas: Tensor

    def __init__(self, high: float) -> None:
        super().__init__()
        if not ALPHA_MIN < high <= 1:
            raise ValueError(f"the largest alpha must lie in ({ALPHA_MIN}, 1], got {high}")
        self.high = high
        self.register_buffer("alphas", self.base(_even(GRID)))
        self._slopes: tuple[Tensor, int, Tensor] | None = None

    def base(self, t: Tensor) -> Tensor:
        """The schedule before any adaptation: log-linear, scaled to [ALPHA_MIN, high]."""
        return self.high - (self.high - ALPHA_MIN) * t.double()

    def forward(self, t: Tensor) -> Tensor:
        even = _even(GRID).to(self.alphas.device)
        known = self._slopes  # worked out again only after the table was refitted, loaded or moved
        if known is None or known[0] is not self.alphas or known[1] != self.alphas._version:
            known = self._slopes = (self.alphas, self.alphas._version, pchip_slopes(even, self.alphas))
        return pchip(even, self.alphas, t.double(), known[2]).clamp(min=ALPHA_MIN)


class Adaptive(nn.Module):
    """What refitting needs to remember. All of it is stored with the weights: a resumed run refits as if never stopped.

    Every process is handed the pairs of all, so their schedules agree.
    """

    average: Tensor
    refits: Tensor
    records: Tensor
    seen: Tensor
    refitted_at: Tensor

    def __init__(self, options: Adaptation) -> None:
        super().__init__()
        self.options = options
        self.register_buffer("average", torch.zeros(GRID, dtype=torch.float64))
        self.register_buffer("records", torch.zeros(2, options.buffer, dtype=torch.float64))
        for name in ("refits", "seen"):
            self.register_buffer(name, torch.tensor(0))
        self.register_buffer("refitted_at", torch.tensor(-1))

    @torch.no_grad()
    def record(self, t: Tensor, loss: Tensor, step: int) -> None:
        """Keep one pair per sample of all processes; nothing before the warm-up is over."""
        if step < self.options.warmup:
            return
        pairs = torch.stack([t.double(), loss.double()])[:, -self.options.buffer :]
        places = (self.seen + torch.arange(pairs.shape[1], device=pairs.device)) % self.options.buffer
        self.records[:, places] = pairs
        self.seen += pairs.shape[1]

    def due(self, step: int) -> bool:
        """Counts samples: published code waits for the ring to close on a multiple of `every`, which may never be."""
        options = self.options
        if step <= options.warmup or step % options.every:
            return False
        return int(self.seen) >= options.buffer and int(self.refitted_at) != step

    @torch.no_grad()
    def refit(self, table: AlphaTable, step: int) -> None:
        """Losses were seen under the present schedule and yet the fit composes with the base: kept as published."""
        fresh = refit_schedule(self.records[0], self.records[1], table.base, grid=GRID)
        decay = self.options.decay
        self.refits += 1
        self.refitted_at.fill_(step)
        self.average.mul_(decay).add_((1 - decay) * fresh)
        table.alphas.copy_(self.average / (1 - decay ** int(self.refits)))


class SphereDenoiser(VectorDenoiser):
    """Reads points of the sphere as they are; the table starts as N(0, 1/d), its rows are normalised at every use."""

    def __init__(
        self,
        vocab_size: int,
        length: int,
        architecture: Architecture,
        alpha_max: float = 1.0,
        adaptation: Adaptation | None = None,
    ) -> None:
        super().__init__(vocab_size, length, architecture)
        nn.init.normal_(self.table, std=1 / math.sqrt(architecture.width))
        self.noise = AlphaTable(alpha_max)
        self.adaptive = None if adaptation is None else Adaptive(adaptation)

    def rows(self) -> Tensor:
        return unit(self.table)

    def alpha(self, t: Tensor) -> Tensor:
        """The share of the arc from noise to the token that is travelled at time t, float64."""
        alpha: Tensor = self.noise(t)
        return alpha

    def level(self, t: Tensor) -> Tensor:
        return -torch.log(self.alpha(t))

    def learn(self, t: Tensor, loss: Tensor, step: int) -> None:
        """Record what step `step` observed and refit the schedule if the next step is due for it."""
        if self.adaptive is None:
            return
        self.adaptive.record(t, loss, step)
        if self.adaptive.due(step + 1):
            self.adaptive.refit(self.noise, step + 1)


def _even(count: int) -> Tensor:
    return torch.linspace(0, 1, count, dtype=torch.float64)
