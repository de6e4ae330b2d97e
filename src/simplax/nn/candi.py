"""CANDI's denoiser: tokens that show, and noisy one-hot vectors of those that do not."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from simplax.functional.continuous import candi_interpolate, candi_ranks
from simplax.nn.architecture import Architecture
from simplax.nn.vectors import VectorDenoiser
from simplax.processes.hybrid import Hybrid
from simplax.processes.vectors import unit
from simplax.schedules import Schedule


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

    def shown(self, z: Hybrid) -> Tensor:
        vectors = z.vectors.to(self.table.dtype)
        scale = torch.rsqrt(1 + z.sigma**2).to(vectors.dtype).reshape(-1, 1, 1)
        mask = cast(Tensor, unit(self.table[-1]))
        hidden = self.mix * mask + (1 - self.mix) * scale * vectors
        return torch.where(z.revealed.unsqueeze(-1), vectors, hidden)
