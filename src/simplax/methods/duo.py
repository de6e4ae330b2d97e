"""Duo (Sahoo et al. 2025): uniform-state diffusion as the arg-max of a Gaussian one, which gives a training curriculum.

Early in training the network reads the softmax of the Gaussian latent at a low temperature instead of its arg-max:
easier to learn from, and the loss stays that of the discrete process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from simplax.functional import duo_gamma_range
from simplax.methods.base import Facts
from simplax.methods.distillation import (
    Distillation,
    attach_teacher,
    detach_teacher,
    distillation_loss,
    renew_teacher,
)
from simplax.methods.uniform import UniformMethod
from simplax.nn import Network
from simplax.objectives.fused import rate_density
from simplax.processes.gaussian import alpha_and_slope, dense_latent, sparse_latent
from simplax.processes.prior import Prior
from simplax.processes.simplex import Atoms, Dense, Marginal, pinned
from simplax.samplers.base import Sampler
from simplax.samplers.udlm import Ancestral
from simplax.typing import Batch, Loss, StepContext, per_sample

CITATION = "Sahoo et al. 2025, The Diffusion Duality"


@dataclass(frozen=True)
class Curriculum:
    """Optimizer steps `0` to `end` train on soft inputs; log10 of their temperature goes linearly from the first to the
    second number between steps `start` and `end`.

    `gammas` is the range of the Gaussian's negative log signal-to-noise ratio, `None` the one at which alpha spans the
    published values for the vocabulary at hand. `top_k` keeps that many of the largest entries of the latent besides
    the clean token's (Duo++), drawn without ever forming a K-vector; `None` forms it, 8 bytes per category and token.
    """

    start: int = 0
    end: int = 500_000
    log10_temperature: tuple[float, float] = (-3.0, -3.0)
    gammas: tuple[float, float] | None = None
    top_k: int | None = 8

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            raise ValueError(f"a curriculum needs 0 <= start <= end, got {self.start} and {self.end}")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k must be at least 1, or None for all categories, got {self.top_k}")
        if self.gammas is not None and not self.gammas[0] < self.gammas[1]:
            raise ValueError(f"gammas must be an increasing pair, got {self.gammas}")

    def temperature(self, step: int) -> float:
        first, second = self.log10_temperature
        progress = (step - self.start) / max(self.end - self.start, 1)
        return 10.0 ** (first + (second - first) * min(max(progress, 0.0), 1.0))


@dataclass(frozen=True)
class DuoBase(UniformMethod):
    """Duo without its curriculum: the uniform-state objective, value for value that of UDLM.

    With a `distillation` it trains few-step students of the model that a run starts from instead, which may be one of
    any method with uniform noise.
    """

    facts: ClassVar[Facts] = Facts(
        "Duo, without its curriculum", "tokens, towards uniform noise", "ancestral", CITATION
    )

    distillation: Distillation | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.distillation is not None and (self.pi != "uniform" or self.rollout > 1):
            raise ValueError(
                "a distillation knows the uniform prior and single calls: leave out pi and rollout"
            )

    @property
    def needs_start(self) -> bool:
        return self.distillation is not None

    def loss(self, denoiser: nn.Module | Network, batch: Batch, context: StepContext) -> Loss:
        if self.distillation is None:
            return self.bridge_loss(denoiser, batch, context)
        process = self.process(Network.of(denoiser).denoiser)
        return distillation_loss(self.distillation, process, self.times, denoiser, batch, context)

    def prepare(self, denoiser: nn.Module) -> None:
        if self.distillation is not None:
            attach_teacher(denoiser)

    def release(self, denoiser: nn.Module) -> None:
        detach_teacher(denoiser)

    def after_average(
        self, denoiser: nn.Module, average: Callable[[], Mapping[str, Tensor]], step: int
    ) -> None:
        if self.distillation is not None and self.distillation.ends_round(step):
            kept = self.distillation.teacher == "average"
            renew_teacher(denoiser, average() if kept else denoiser.state_dict())

    def sampler(self, **options: Any) -> Sampler[Any]:
        return Ancestral(**options)


@dataclass(frozen=True)
class Duo(UniformMethod):
    """The curriculum, then the uniform-state objective; the likelihood is always that of the discrete process."""

    facts: ClassVar[Facts] = Facts("Duo", "tokens, the argmax of a Gaussian", "ancestral", CITATION)

    curriculum: Curriculum = field(default_factory=Curriculum)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pi != "uniform":
            raise ValueError("the arg-max of a Gaussian knows the uniform prior only: Duo needs pi=uniform")
        if self.rollout > 1:
            raise ValueError("the curriculum has no rollout: train duo-base with it")

    def loss(self, denoiser: nn.Module | Network, batch: Batch, context: StepContext) -> Loss:
        if not context.training or context.step > self.curriculum.end:
            return self.bridge_loss(denoiser, batch, context)
        return self._soft_loss(Network.of(denoiser), batch, context)

    def sampler(self, **options: Any) -> Sampler[Any]:
        return Ancestral(**options)

    def _soft_loss(self, network: Network, batch: Batch, context: StepContext) -> Loss:
        size, x = network.categories, batch.tokens
        low, high = self.curriculum.gammas or duo_gamma_range(size)
        gamma = low + (high - low) * self.times(context.u)
        alpha, slope = alpha_and_slope(gamma, size, low, high)
        rate = -(high - low) * slope / alpha
        soft, z = self._latent(x, gamma, size, context)
        # the network is conditioned on the noise level, in the units of its own schedule
        time = self.schedule.inverse(alpha).clamp(0.0, 1.0)
        prediction = network(_shown(soft, batch), time, batch, context)
        prior, level = Prior(size), per_sample(alpha)
        weight = per_sample(rate if self.weighting == "elbo" else torch.ones_like(rate))
        state = Marginal(z, x, level, None, prior)
        return Loss(rate_density(prediction, x, state, level, weight, prior, batch.scored), batch.scored)

    def _latent(
        self, x: Tensor, gamma: Tensor, size: int, context: StepContext
    ) -> tuple[Dense | Atoms, Tensor]:
        temperature = self.curriculum.temperature(context.step)
        keys, top_k = context.keys.stream("corrupt"), self.curriculum.top_k
        if top_k is None or top_k >= size - 1:  # few categories: the whole vector is the smaller of the two
            return dense_latent(x, gamma, size, temperature, keys)
        return sparse_latent(x, gamma, size, temperature, top_k, keys)


def _shown(soft: Dense | Atoms, batch: Batch) -> Tensor | Atoms:
    """The soft input, with given positions as they are, in the network's precision."""
    state = pinned(soft, batch.tokens, batch.given)
    return state.w.float() if isinstance(state, Dense) else Atoms(state.ids, state.weights.float())
