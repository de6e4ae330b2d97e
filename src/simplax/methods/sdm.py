"""SDM (arXiv 2609.35553): diffusion of points of the simplex, trained by plain cross-entropy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import nn

from simplax.concentration import Concentration, Normalised, PerToken, as_concentration
from simplax.methods.base import Facts, Method
from simplax.nn import Architecture, Denoiser, Network, num_categories
from simplax.objectives.fused import cross_entropy
from simplax.processes.base import Process
from simplax.processes.dirichlet import SimplexProcess, clamped
from simplax.processes.prior import Prior
from simplax.samplers.base import Sampler
from simplax.samplers.sdm import SimplexChurn
from simplax.schedules import LogLinear, Schedule
from simplax.times import TimeLaw
from simplax.typing import Batch, Loss, StepContext


@dataclass(frozen=True)
class SDM(Method):
    """The simplex state of Simplax at concentrations between 0.3 and 4, as the network's input and the sampler's state.

    `concentration` is c_t, `input` what the network reads of the state: the `expectation` of its embedding, or that of
    its `argmax`. The loss has no weight, and its minimum is the posterior given the whole state, a position's own
    evidence included, where uniform-state methods learn the prediction from all others
    (`simplax.functional.simplex_posterior` relates the two). The published bound is a sum over the steps of a grid and
    grows with their number, so no likelihood is reported.
    """

    facts: ClassVar[Facts] = Facts(
        "SDM",
        "points of the simplex, around a noised token",
        "churn of the state",
        "Simplex Diffusion Models, 2026, arXiv 2609.35553",
    )
    process_type: ClassVar[type[Process]] = SimplexProcess

    schedule: Schedule = field(default_factory=LogLinear)
    times: TimeLaw = field(default_factory=TimeLaw)
    concentration: float | Concentration = field(default_factory=Normalised)
    """Dirichlet concentration c_t of the simplex state"""
    input: str = "expectation"
    """what the network reads of the state: the expectation of its embedding, or that of its argmax"""
    time_conditioning: bool = True

    def __post_init__(self) -> None:
        concentration = as_concentration(self.concentration)
        if isinstance(concentration, PerToken):
            raise ValueError(
                "PerToken counts the steps of a sampler: give a normalised or constant concentration"
            )
        if not bool((concentration(torch.linspace(0, 1, 101, dtype=torch.float64)) > 0).all()):
            raise ValueError("the concentration of a simplex state must be above zero at every time")
        SimplexProcess(self.schedule, Prior(2), self.concentration, self.input)

    def process(self, denoiser: Any) -> SimplexProcess:
        return SimplexProcess(self.schedule, Prior(num_categories(denoiser)), self.concentration, self.input)

    def build(self, vocab_size: int, length: int, architecture: Architecture) -> nn.Module:
        time = self.schedule.sigma if self.time_conditioning else None
        return Denoiser(vocab_size, length, architecture, time=time)

    def sampler(self, **options: Any) -> Sampler[Any]:
        return SimplexChurn(**options)

    def loss(self, denoiser: nn.Module | Network, batch: Batch, context: StepContext) -> Loss:
        network = Network.of(denoiser)
        process, t = self.process(network.denoiser), self.times(context.u)
        w = process.corrupt(batch.tokens, t, context.keys.stream("corrupt"))
        shown = process.shown(clamped(w, batch.tokens, batch.given))
        prediction = network(shown, t, batch, context)
        return Loss(cross_entropy(prediction, batch.tokens, batch.scored), batch.scored)
