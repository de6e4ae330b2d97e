"""Masked diffusion language models (Sahoo et al. 2024): absorbing noise, the SUBS parameterisation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from simplax.methods.base import HasLikelihood, Method, num_categories, per_sample
from simplax.methods.uniform import foresee
from simplax.nn import Architecture, Denoiser
from simplax.objectives.fused import surprise
from simplax.processes.masked import corrupt
from simplax.samplers import MaskedAncestral
from simplax.samplers.base import Sampler
from simplax.schedules import LogLinear, Schedule
from simplax.times import TimeLaw
from simplax.typing import Batch, Loss, StepContext


@dataclass(frozen=True)
class MDLM(Method, HasLikelihood):
    """Cross-entropy at masked positions. The mask's id is the data's K, the network has no output for it.

    `weighting="elbo"` multiplies by w(t) = -alpha' / (1 - alpha), which is 1/t for the log-linear schedule; `"low_var"`
    leaves it out. The likelihood always has it.
    """

    noise: ClassVar[str] = "masked"

    schedule: Schedule = field(default_factory=LogLinear)
    times: TimeLaw = field(default_factory=TimeLaw)
    weighting: str = "elbo"
    time_conditioning: bool = False

    def __post_init__(self) -> None:
        if self.weighting not in ("elbo", "low_var"):
            raise ValueError(f"unknown weighting {self.weighting!r}: choose elbo or low_var")

    def build(self, vocab_size: int, length: int, architecture: Architecture) -> nn.Module:
        time = self.schedule.sigma if self.time_conditioning else None
        return Denoiser(vocab_size + 1, length, architecture, output_size=vocab_size, time=time)

    def sampler(self, **options: Any) -> Sampler[Any]:
        return MaskedAncestral(**options)

    def loss(self, denoiser: nn.Module, batch: Batch, context: StepContext) -> Loss:
        t = self.times(context.u)
        weight = self._weight(t) if self.weighting == "elbo" else torch.ones_like(t)
        return Loss(self._surprise(denoiser, batch, t, context, weight), batch.scored)

    def nll(self, denoiser: nn.Module, batch: Batch, context: StepContext) -> Loss:
        t = self.times(context.u)
        weight = self._weight(t) * (self.times.high - self.times.low)
        return Loss(self._surprise(denoiser, batch, t, context, weight), batch.scored)

    def ends(self, denoiser: nn.Module, batch: Batch, context: StepContext) -> Loss:
        """Lifting all masks left at the first time, and lifting the first alpha(1) of them, both in one step each.

        The second is what is missing because the schedule does not quite end in masks only: the chain starts there.
        """
        first, last = (torch.full_like(context.u, t) for t in (self.times.low, self.times.high))
        everywhere = torch.ones_like(batch.given)
        reconstruction = self._surprise(denoiser, batch, first, context, draw=1)
        start = self._surprise(
            denoiser, batch, last, context, weight=self.schedule.alpha(last), hidden=everywhere
        )
        return Loss(reconstruction + start, batch.scored)

    def _weight(self, t: Tensor) -> Tensor:
        return -self.schedule.derivative(t) / (1 - self.schedule.alpha(t))

    def _surprise(
        self,
        denoiser: nn.Module,
        batch: Batch,
        t: Tensor,
        context: StepContext,
        weight: Tensor | None = None,
        *,
        hidden: Tensor | None = None,
        draw: int = 0,
    ) -> Tensor:
        """-weight log x_hat[x] where a scored token is masked; `hidden` says where that is instead of a draw."""
        mask_id = num_categories(denoiser)
        if hidden is None:
            alpha = per_sample(self.schedule.alpha(t))
            hidden = corrupt(batch.tokens, alpha, mask_id, context.keys.fold_in(draw)) == mask_id
        hidden = hidden & ~batch.given
        z = torch.where(hidden, mask_id, batch.tokens)
        given = foresee(denoiser, z, t, batch, context)
        if isinstance(given, Tensor):
            given = given[..., :mask_id]  # published networks also have an output for the mask
        factor = None if weight is None else per_sample(weight)
        return surprise(given, batch.tokens, hidden & batch.scored, factor)
