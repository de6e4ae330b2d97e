"""S-FLM (Deschenaux and Gulcehre 2026): a flow of unit embeddings on the hypersphere."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

from torch import Tensor, nn

from simplax.functional.continuous import truncation_alpha
from simplax.methods.base import Facts, Method
from simplax.nn import Architecture, Network, inner
from simplax.nn.sflm import Adaptation, SphereDenoiser
from simplax.objectives.fused import cross_entropy
from simplax.processes.base import Process
from simplax.processes.sphere import SphereProcess
from simplax.samplers.base import Sampler
from simplax.samplers.sflm import GeodesicEuler
from simplax.times import TimeLaw
from simplax.typing import Batch, Loss, StepContext

CITATION = "Deschenaux and Gulcehre 2026, Language Modeling with Hyperspherical Flows"


@dataclass(frozen=True)
class SphereMethod(Method, abc.ABC):
    """What both variants share: unweighted cross-entropy at points between token and noise on a great arc.

    alpha runs from 0.001 at t = 1 to its largest value at t = 0, and lives in the denoiser.
    """

    process_type: ClassVar[type[Process]] = SphereProcess

    times: TimeLaw = field(default_factory=TimeLaw)

    def sampler(self, **options: Any) -> Sampler[Any]:
        return GeodesicEuler(**options)

    def process(self, denoiser: Any) -> SphereProcess:
        return SphereProcess(inner(denoiser))

    def loss(self, denoiser: nn.Module | Network, batch: Batch, context: StepContext) -> Loss:
        network = Network.of(denoiser)
        process, t = self.process(network.denoiser), self.times(context.u)
        z = process.corrupt(batch.tokens, t, context.keys.stream("corrupt"))
        prediction = network(process.clamp(z, batch.tokens, batch.given), t, batch, context)
        return Loss(cross_entropy(prediction, batch.tokens, batch.scored), batch.scored)


@dataclass(frozen=True)
class SFLM(SphereMethod):
    """The plain method. `truncation` is the largest alpha it ever sees: 1, the default, is a clean token."""

    facts: ClassVar[Facts] = Facts("S-FLM", "points of a sphere", "geodesic Euler", CITATION)

    truncation: float = 1.0

    def build(self, vocab_size: int, length: int, architecture: Architecture) -> nn.Module:
        return SphereDenoiser(vocab_size, length, architecture, self.truncation)


@dataclass(frozen=True)
class SFLMAdaptive(SphereMethod):
    """Truncated at the alpha past which tokens are decoded anyway, with a schedule that adapts to the loss.

    `truncation=None` takes `truncation_alpha` of vocabulary and width (published Sudoku runs round it to 0.093, text
    runs to 0.121). Samplers use the adapted schedule; published evaluations fell back to the plain truncated one.
    """

    facts: ClassVar[Facts] = Facts(
        "S-FLM, truncated and adaptive", "points of a sphere, late times only", "geodesic Euler", CITATION
    )

    truncation: float | None = None
    adaptation: Adaptation = field(default_factory=Adaptation)

    def build(self, vocab_size: int, length: int, architecture: Architecture) -> nn.Module:
        largest = self.truncation
        if largest is None:
            largest = truncation_alpha(vocab_size, architecture.width)
        return SphereDenoiser(vocab_size, length, architecture, largest, self.adaptation)

    def loss(self, denoiser: nn.Module | Network, batch: Batch, context: StepContext) -> Loss:
        t = self.times(context.u)
        loss = super().loss(denoiser, batch, context)
        return replace(loss, observations={"time": t, "loss": loss.per_sequence()})

    def after_step(self, denoiser: nn.Module, observations: Mapping[str, Tensor], step: int) -> None:
        cast(SphereDenoiser, inner(denoiser)).learn(observations["time"], observations["loss"], step)
