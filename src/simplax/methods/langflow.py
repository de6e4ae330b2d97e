"""LangFlow (Chen et al. 2026): Gaussian diffusion of normalised embeddings at learned noise levels.

Its authors released a network and how to sample it, not how they trained it: training is reconstructed from the paper's
text and from public accounts of it. Decided here: schedule parameters start near the released ones and take part in the
common optimiser, and a coin for self-conditioning is tossed for each sample.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from simplax.methods.base import HasLikelihood, Method, per_sample
from simplax.methods.sflm import per_sample_mean
from simplax.methods.uniform import scored
from simplax.nn import Architecture, call
from simplax.nn.embedded import EmbeddingDenoiser
from simplax.objectives.flow import flow_nll
from simplax.processes.embedded import noised
from simplax.processes.uniform import Prediction
from simplax.samplers.base import Sampler
from simplax.samplers.langflow import EmbeddingDDIM
from simplax.schedules import Linear, Schedule
from simplax.times import TimeLaw
from simplax.typing import Batch, Loss, StepContext


@dataclass(frozen=True)
class LangFlow(Method, HasLikelihood):
    """Unweighted cross-entropy, time being the quantile of the law of noise levels.

    A share `self_conditioning` of samples reads a first prediction; the path from input to logits is faded in over
    `skip_warmup` optimiser steps. The likelihood bound integrates the flow in `likelihood_steps` steps of two network
    calls and gradients each.
    """

    noise: ClassVar[str] = "vectors"

    times: TimeLaw = field(default_factory=lambda: TimeLaw(0.0, 1.0))
    self_conditioning: float = 0.25
    skip_warmup: int = 5000
    likelihood_steps: int = 128
    # the loop asks every method for a schedule; this one's is learned and lives in its denoiser
    schedule: Schedule = field(default_factory=Linear, init=False, repr=False)

    def __post_init__(self) -> None:
        if not 0 <= self.self_conditioning <= 1:
            raise ValueError(
                f"self_conditioning is a share of samples in [0, 1], got {self.self_conditioning}"
            )
        if self.likelihood_steps < 1 or self.skip_warmup < 0:
            raise ValueError("likelihood_steps must be at least 1 and skip_warmup not negative")

    def build(self, vocab_size: int, length: int, architecture: Architecture) -> nn.Module:
        return EmbeddingDenoiser(vocab_size, length, architecture)

    def sampler(self, **options: Any) -> Sampler[Any]:
        return EmbeddingDDIM(**options)

    def loss(self, denoiser: nn.Module, batch: Batch, context: StepContext) -> Loss:
        """The value is the cross-entropy; the fit of the schedule to it adds its gradient and no value."""
        network = cast(EmbeddingDenoiser, denoiser)
        t = self.times(context.u)
        gamma, rows = network.gamma(t), network.rows()
        clean = torch.nn.functional.embedding(batch.tokens, rows)
        noise = context.keys.fold_in(0).normal(*clean.shape[1:], dtype=clean.dtype)
        z = torch.where(batch.given.unsqueeze(-1), clean, noised(clean, noise, gamma))
        skip = 1.0
        if denoiser.training:
            skip = min(1.0, context.step / max(self.skip_warmup, 1)) if self.skip_warmup else 1.0
        arguments = {"given": batch.given, "attend": batch.attend, "skip": skip}
        arguments["self_condition"] = self._first(denoiser, z, t, arguments, rows, context)
        logits = call(denoiser, z, t, **arguments)
        loss = scored(-Prediction(logits).log_at(batch.tokens), batch)
        misfit = (per_sample_mean(loss) - network.noise.expected(gamma)) ** 2
        return Loss(
            loss.per_token + torch.where(batch.scored, per_sample(misfit - misfit.detach()), 0.0).float(),
            batch.scored,
        )

    def _first(
        self,
        denoiser: nn.Module,
        z: Tensor,
        t: Tensor,
        arguments: dict[str, Any],
        rows: Tensor,
        context: StepContext,
    ) -> Tensor:
        """Means predicted without self-conditioning for the samples whose coin says so, zeros for the others."""
        means = torch.zeros_like(z)
        chosen = (context.keys.fold_in(1).uniform(1)[:, 0] < self.self_conditioning).nonzero().squeeze(-1)
        if len(chosen):
            told = {name: v[chosen] if isinstance(v, Tensor) else v for name, v in arguments.items()}
            with torch.no_grad():
                probs = torch.softmax(call(denoiser, z[chosen], t[chosen], **told).float(), dim=-1)
                means[chosen] = (probs.to(rows.dtype) @ rows).to(means.dtype)
        return means

    def nll(self, denoiser: nn.Module, batch: Batch, context: StepContext) -> Loss:
        """The whole bound, from one draw of noise and one random probe; the network reads no earlier prediction."""
        return flow_nll(denoiser, batch, context.keys, self.likelihood_steps)

    def ends(self, denoiser: nn.Module, batch: Batch, context: StepContext) -> Loss:
        return Loss(torch.zeros(batch.tokens.shape, device=batch.tokens.device), batch.scored)
