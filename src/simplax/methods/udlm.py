"""UDLM (Schiff et al. 2025): uniform discrete diffusion, the bridge anchored on z_t alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn

from simplax.methods.base import Facts
from simplax.methods.uniform import UniformMethod
from simplax.nn import Network
from simplax.objectives.bridge import FiniteStep
from simplax.samplers.base import Sampler
from simplax.samplers.udlm import Ancestral
from simplax.typing import Batch, Loss, StepContext


@dataclass(frozen=True)
class UDLM(UniformMethod):
    """Uniform discrete diffusion: the eta -> 0 member of Simplax's family.

    `num_steps` replaces the continuous-time density by the bridge over steps of length 1/num_steps, times num_steps.
    """

    facts: ClassVar[Facts] = Facts(
        "UDLM",
        "tokens, towards uniform noise",
        "ancestral",
        "Schiff et al. 2025, Simple Guidance Mechanisms for Discrete Diffusion Models",
    )

    num_steps: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.num_steps is not None and self.num_steps < 1:
            raise ValueError(
                f"num_steps must be at least 1, or None for continuous time, got {self.num_steps}"
            )
        if self.num_steps is not None and self.rollout > 1:
            raise ValueError("rollout trains in continuous time: leave num_steps out, or rollout at 1")

    def loss(self, denoiser: nn.Module | Network, batch: Batch, context: StepContext) -> Loss:
        step = None if self.num_steps is None else FiniteStep("bridge", self.num_steps)
        return self.bridge_loss(denoiser, batch, context, step)

    def sampler(self, **options: Any) -> Sampler[Any]:
        return Ancestral(**options)
