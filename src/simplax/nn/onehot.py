"""Denoisers of noisy one-hot vectors, which they read through their embedding: FLM's and CANDI's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from simplax.functional.continuous import candi_interpolate, candi_ranks, flm_interpolate, flm_knots
from simplax.nn.architecture import Architecture
from simplax.nn.vectors import VectorDenoiser, unit
from simplax.schedules import Schedule


class OneHotDenoiser(VectorDenoiser):
    """FLM's: reads y = z E for z in R^K, with the embedding E as it is; `clock` is the table of its schedule."""

    clock: Tensor

    def __init__(self, vocab_size: int, length: int, architecture: Architecture) -> None:
        super().__init__(vocab_size, length, architecture)
        self.register_buffer("clock", flm_knots(vocab_size).clone())

    def rows(self) -> Tensor:
        return self.table

    def gamma(self, t: Tensor) -> Tensor:
        """The share of the clean token in z, float64; the decoding accuracy is FLM's own time, one minus ours."""
        return flm_interpolate(1 - t.double(), self.clock)

    def level(self, t: Tensor) -> Tensor:
        return 1 - t

    def forward(
        self,
        z: Tensor,
        t: Tensor,
        *,
        given: Tensor | None = None,
        attend: Tensor | None = None,
        self_condition: Tensor | None = None,
    ) -> Tensor:
        return self._logits(z, t, given, attend, self_condition)


@dataclass(frozen=True)
class Hybrid:
    """CANDI's state: `vectors` (batch, length, width) are the token's own row where `revealed`, and elsewhere those of
    its one-hot vector with Gaussian noise of size `sigma` (a number, or one per sample)."""

    vectors: Tensor
    revealed: Tensor
    sigma: Tensor


class HybridDenoiser(VectorDenoiser):
    """CANDI's: rows of norm one, the last one a mask that hidden positions are mixed with in the share `mix`.

    Published networks also have an output for the mask, and drop it; ours has none.
    """

    rank_table: Tensor

    def __init__(
        self,
        vocab_size: int,
        length: int,
        architecture: Architecture,
        schedule: Schedule,
        ranks: tuple[float, float],
        mix: float,
    ) -> None:
        super().__init__(vocab_size, length, architecture, extra_rows=1)
        self.schedule, self.ranks, self.mix = schedule, ranks, mix
        self.register_buffer("rank_table", candi_ranks(vocab_size).clone())

    def rows(self) -> Tensor:
        return unit(self.table[:-1])

    def sigma(self, t: Tensor) -> Tensor:
        """The Gaussian noise at time t, float64."""
        return candi_interpolate(self.schedule.alpha(t.double()), self.rank_table, self.ranks)

    def level(self, t: Tensor) -> Tensor:
        return self.schedule.sigma(t)

    def forward(
        self,
        z: Hybrid,
        t: Tensor,
        *,
        given: Tensor | None = None,
        attend: Tensor | None = None,
        self_condition: Tensor | None = None,
    ) -> Tensor:
        return self._logits(self._mixed(z), t, given, attend, self_condition)

    def _mixed(self, z: Hybrid) -> Tensor:
        vectors = z.vectors.to(self.table.dtype)
        scale = torch.rsqrt(1 + z.sigma**2).to(vectors.dtype).reshape(-1, 1, 1)
        mask = cast(Tensor, unit(self.table[-1]))
        hidden = self.mix * mask + (1 - self.mix) * scale * vectors
        return torch.where(z.revealed.unsqueeze(-1), vectors, hidden)
