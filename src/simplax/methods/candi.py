"""CANDI (Pynadath et al. 2025): discrete masking and Gaussian noise at once, on clocks tied by decoding difficulty."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import torch
from torch import nn

from simplax.methods.base import Method, per_sample
from simplax.methods.uniform import predict, scored
from simplax.nn import Architecture
from simplax.nn.onehot import Hybrid, HybridDenoiser
from simplax.processes.hybrid import revealed
from simplax.processes.onehot import projected_noise
from simplax.processes.uniform import Prediction
from simplax.samplers.base import Sampler
from simplax.samplers.candi import CachedHybrid
from simplax.schedules import LogLinear, Schedule
from simplax.times import TimeLaw
from simplax.typing import Batch, Loss, StepContext


@dataclass(frozen=True)
class CANDI(Method):
    """Cross-entropy at hidden tokens, weighted by -alpha' / (1 - alpha) as in masked diffusion.

    `ranks` is the range of the expected share of wrong coordinates above the right one (published text runs also use
    0.05 to 0.25); `mix` the share of the mask in what the network reads at hidden positions.
    """

    noise: ClassVar[str] = "vectors"

    schedule: Schedule = field(default_factory=LogLinear)
    times: TimeLaw = field(default_factory=TimeLaw)
    ranks: tuple[float, float] = (0.01, 0.25)
    mix: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.ranks[0] < self.ranks[1] < 0.5:
            raise ValueError(f"ranks must be an increasing pair strictly between 0 and 0.5, got {self.ranks}")
        if not 0 <= self.mix < 1:
            raise ValueError(f"mix must lie in [0, 1), got {self.mix}")

    def build(self, vocab_size: int, length: int, architecture: Architecture) -> nn.Module:
        return HybridDenoiser(vocab_size, length, architecture, self.schedule, self.ranks, self.mix)

    def sampler(self, **options: Any) -> Sampler[Any]:
        return CachedHybrid(**options)

    def loss(self, denoiser: nn.Module, batch: Batch, context: StepContext) -> Loss:
        network = cast(HybridDenoiser, denoiser)
        t = self.times(context.u)
        alpha, sigma, rows = self.schedule.alpha(t), network.sigma(t), network.rows()
        shown = revealed(batch.tokens, per_sample(alpha), len(rows), context.keys.fold_in(0)) | batch.given
        noise = projected_noise(rows, batch.tokens.shape[1], context.keys.fold_in(1))
        clean = torch.nn.functional.embedding(batch.tokens, rows)
        noisy = clean + sigma.to(rows.dtype).reshape(-1, 1, 1) * noise
        state = Hybrid(torch.where(shown.unsqueeze(-1), clean, noisy), shown, sigma)
        surprise = -Prediction(predict(denoiser, state, t, batch, context)).log_at(batch.tokens)
        weight = -self.schedule.derivative(t) / (1 - alpha)
        return scored(torch.where(shown, 0.0, per_sample(weight) * surprise), batch)
