"""S-FLM (Deschenaux and Gulcehre 2026): a flow of unit embeddings on the hypersphere."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn

from simplax.functional.continuous import truncation_alpha
from simplax.methods.base import Method
from simplax.methods.uniform import predict, scored
from simplax.nn import Architecture
from simplax.nn.sphere import Adaptation, SphereDenoiser
from simplax.processes.sphere import corrupt
from simplax.processes.uniform import Prediction
from simplax.samplers.base import Sampler
from simplax.samplers.sflm import GeodesicEuler
from simplax.schedules import LogLinear, Schedule
from simplax.times import TimeLaw
from simplax.typing import Batch, Loss, StepContext


@dataclass(frozen=True)
class SphereMethod(Method, abc.ABC):
    """What both variants share: unweighted cross-entropy at points between token and noise on a great arc.

    alpha runs from 0.001 at t = 1 to its largest value at t = 0, and lives in the denoiser.
    """

    noise: ClassVar[str] = "vectors"

    times: TimeLaw = field(default_factory=TimeLaw)
    # the loop asks every method for a schedule; what counts is the denoiser's own
    schedule: Schedule = field(default_factory=LogLinear, init=False, repr=False)

    def sampler(self, **options: Any) -> Sampler[Any]:
        return GeodesicEuler(**options)

    def loss(self, denoiser: nn.Module, batch: Batch, context: StepContext) -> Loss:
        network = cast(SphereDenoiser, denoiser)
        training = denoiser.training and torch.is_grad_enabled()
        if training:
            network.refit_if_due(context.step)
        t = self.times(context.u)
        clean = torch.nn.functional.embedding(batch.tokens, network.rows())
        z = torch.where(
            batch.given.unsqueeze(-1), clean, corrupt(clean, network.alpha(t), context.keys.fold_in(0))
        )
        loss = scored(-Prediction(predict(denoiser, z, t, batch, context)).log_at(batch.tokens), batch)
        if training:
            network.record(t, per_sample_mean(loss), context.step)
        return loss


@dataclass(frozen=True)
class SFLM(SphereMethod):
    """The plain method. `truncation` is the largest alpha it ever sees: 1, the default, is a clean token."""

    truncation: float = 1.0

    def build(self, vocab_size: int, length: int, architecture: Architecture) -> nn.Module:
        return SphereDenoiser(vocab_size, length, architecture, self.truncation)


@dataclass(frozen=True)
class SFLMAdaptive(SphereMethod):
    """Truncated at the alpha past which tokens are decoded anyway, with a schedule that adapts to the loss.

    `truncation=None` takes `truncation_alpha` of vocabulary and width (published Sudoku runs round it to 0.093, text
    runs to 0.121). Samplers use the adapted schedule; published evaluations fell back to the plain truncated one.
    """

    truncation: float | None = None
    adaptation: Adaptation = field(default_factory=Adaptation)

    def build(self, vocab_size: int, length: int, architecture: Architecture) -> nn.Module:
        largest = self.truncation
        if largest is None:
            largest = truncation_alpha(vocab_size, architecture.width)
        return SphereDenoiser(vocab_size, length, architecture, largest, self.adaptation)


def per_sample_mean(loss: Loss) -> Tensor:
    """(batch,) means over scored tokens, without a gradient."""
    return loss.per_token.detach().sum(-1) / loss.scored.sum(-1).clamp(min=1)
