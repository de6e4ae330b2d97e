"""MDLM (Sahoo et al. 2024): masked diffusion."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from simplax.methods.base import Facts, HasLikelihood, Method
from simplax.nn import Architecture, Denoiser, Network, num_categories
from simplax.objectives.fused import cross_entropy
from simplax.processes.base import Process
from simplax.processes.masked import MaskedProcess
from simplax.random import Keys
from simplax.samplers.base import Sampler
from simplax.samplers.mdlm import MaskedAncestral
from simplax.schedules import LogLinear, Schedule
from simplax.times import TimeLaw
from simplax.typing import Batch, Loss, StepContext, per_sample


@dataclass(frozen=True)
class MDLM(Method, HasLikelihood):
    """Cross-entropy at masked positions. The mask's id is the data's K, the network has no output for it.

    `weighting="elbo"` multiplies by w(t) = -alpha' / (1 - alpha), which is 1/t for the log-linear schedule; `"low_var"`
    leaves it out. The likelihood always has it.
    """

    facts: ClassVar[Facts] = Facts(
        "MDLM",
        "tokens, towards a mask",
        "ancestral",
        "Sahoo et al. 2024, Simple and Effective Masked Diffusion Language Models",
    )
    process_type: ClassVar[type[Process]] = MaskedProcess

    schedule: Schedule = field(default_factory=LogLinear)
    times: TimeLaw = field(default_factory=TimeLaw)
    weighting: str = "elbo"
    time_conditioning: bool = False

    def __post_init__(self) -> None:
        if self.weighting not in ("elbo", "low_var"):
            raise ValueError(f"unknown weighting {self.weighting!r}: choose elbo or low_var")

    def process(self, denoiser: Any) -> MaskedProcess:
        return MaskedProcess(self.schedule, num_categories(denoiser))

    def build(self, vocab_size: int, length: int, architecture: Architecture) -> nn.Module:
        time = self.schedule.sigma if self.time_conditioning else None
        return Denoiser(vocab_size + 1, length, architecture, output_size=vocab_size, time=time)

    def sampler(self, **options: Any) -> Sampler[Any]:
        return MaskedAncestral(**options)

    def loss(self, denoiser: nn.Module | Network, batch: Batch, context: StepContext) -> Loss:
        t = self.times(context.u)
        weight = self._weight(t) if self.weighting == "elbo" else torch.ones_like(t)
        keys = context.keys.stream("corrupt")
        return Loss(self._cross_entropy(denoiser, batch, t, context, weight, keys), batch.scored)

    def nll(
        self, denoiser: nn.Module | Network, batch: Batch, context: StepContext, *, carry: bool = True
    ) -> Loss:
        t = self.times(context.u)
        weight = self._weight(t) * (self.times.high - self.times.low)
        keys = context.keys.stream("nll")
        return Loss(
            self._cross_entropy(denoiser, batch, t, _measuring(context, carry), weight, keys), batch.scored
        )

    def boundary_terms(
        self, denoiser: nn.Module | Network, batch: Batch, context: StepContext, *, carry: bool = True
    ) -> Loss:
        """Lifting all masks left at the first time, and lifting the first alpha(1) of them, both in one step each.

        The second is what is missing because the schedule does not quite end in masks only: the chain starts there.
        """
        first, last = (torch.full_like(context.u, t) for t in (self.times.low, self.times.high))
        measuring, keys = _measuring(context, carry), context.keys.stream("reconstruction")
        reconstruction = self._cross_entropy(denoiser, batch, first, measuring, None, keys)
        start = self._cross_entropy(denoiser, batch, last, measuring, self.schedule.alpha(last), None)
        return Loss(reconstruction + start, batch.scored)

    def _weight(self, t: Tensor) -> Tensor:
        return -self.schedule.derivative(t) / (1 - self.schedule.alpha(t))

    def _cross_entropy(
        self,
        denoiser: nn.Module | Network,
        batch: Batch,
        t: Tensor,
        context: StepContext | None,
        weight: Tensor | None,
        keys: Keys | None,
    ) -> Tensor:
        """-weight log x_hat[x] where a scored token is masked; without `keys` all of them are."""
        network = Network.of(denoiser)
        process = self.process(network.denoiser)
        if keys is None:
            z = torch.full_like(batch.tokens, process.mask_id)
        else:
            z = process.corrupt(batch.tokens, t, keys)
        z = torch.where(batch.given, batch.tokens, z)
        prediction = network(z, t, batch, context)
        factor = None if weight is None else per_sample(weight)
        return cross_entropy(prediction, batch.tokens, (z == process.mask_id) & batch.scored, factor)


def _measuring(context: StepContext, carry: bool) -> StepContext | None:
    """For a bound: the network's own first call everywhere, or an empty carry everywhere."""
    return StepContext(context.keys, context.u, context.step, training=False) if carry else None
