"""Simplax (Sakurai et al. 2026): uniform discrete diffusion relaxed through a simplex state."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from simplax.concentration import Concentration, PerToken, as_concentration
from simplax.methods.base import Facts
from simplax.methods.uniform import UniformMethod
from simplax.nn import Network
from simplax.objectives.bridge import FiniteStep
from simplax.processes.simplex import (
    Atoms,
    Dense,
    Marginal,
    SimplexState,
    draw_atoms,
    form,
    num_atoms,
    pinned,
    readable,
    vertex,
)
from simplax.processes.uniform import UniformProcess, draw_marginal
from simplax.random import Keys
from simplax.samplers.base import Sampler
from simplax.samplers.simplax import Simplax as SimplaxSampler
from simplax.typing import Batch, Loss, StepContext, per_sample


@dataclass(frozen=True)
class Simplax(UniformMethod):
    """Simplex relaxation: the bridge averaged over decodes of w_t, of concentration eta.

    `form` is how w_t is represented (`marginal` integrates it out exactly); `reads_w` feeds w_t instead of z_t to the
    network; `step` replaces the continuous-time density by a surrogate over a finite step.
    """

    facts: ClassVar[Facts] = Facts(
        "Simplax",
        "tokens, a simplex state beside each",
        "stochastic, re-anchoring",
        "Sakurai et al. 2026, Simplex Relaxation for Discrete Diffusion",
    )

    concentration: float | Concentration = 0.01
    form: str = "marginal"
    reads_w: bool = False
    step: FiniteStep | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen, concentration = form(self.form, self.reads_w), as_concentration(self.concentration)
        if isinstance(concentration, PerToken):
            raise ValueError(
                "PerToken counts the steps of a sampler: give training a constant or vanishing eta"
            )
        if self.rollout > 1 and (self.reads_w or self.step is not None):
            raise ValueError("rollout follows tokens in continuous time: use it without reads_w and step")
        if self.step is None:
            return
        if not (self.step.linear or chosen.readable):
            raise ValueError(f"{self.step.surrogate} is not linear in w: use form='atoms' or form='dense'")
        earliest = torch.tensor(self.step.earliest, dtype=torch.float64)
        if self.step.has_simplex_target and not concentration(earliest) > 0:
            raise ValueError(
                f"{self.step.surrogate} has a simplex state as its target: eta must be above zero"
            )

    def loss(self, denoiser: nn.Module | Network, batch: Batch, context: StepContext) -> Loss:
        return self.bridge_loss(denoiser, batch, context, self.step)

    def sampler(self, **options: Any) -> Sampler[Any]:
        defaults = {
            "eta": self.concentration,
            "form": "atoms" if self.reads_w else "marginal",
            "reads_w": self.reads_w,
        }
        return SimplaxSampler(**{**defaults, **options})

    def network_reads_w(self) -> bool:
        return self.reads_w

    def eta(self, t: Tensor) -> Tensor:
        return per_sample(as_concentration(self.concentration)(t))

    def state(
        self, process: UniformProcess, x: Tensor, t: Tensor, context: StepContext
    ) -> tuple[SimplexState, Tensor]:
        largest = as_concentration(self.concentration).largest
        return form(self.form).draw(x, process.alpha(t), self.eta(t), largest, process.prior, context.keys)

    def relaxed(self, process: UniformProcess, z: Tensor, x: Tensor, t: Tensor) -> SimplexState:
        return Marginal(z, x, process.alpha(t), self.eta(t), process.prior)

    def shown(self, state: SimplexState, z: Tensor, batch: Batch) -> Any:
        if not self.reads_w:
            return z
        assert isinstance(state, Dense | Atoms)
        return readable(pinned(state, batch.tokens, batch.given))

    def _measured(
        self,
        network: Network,
        process: UniformProcess,
        z: Tensor,
        t: Tensor,
        batch: Batch,
        context: StepContext,
        carry: bool,
    ) -> Any:
        """A network that reads w is shown what the sampler would show it: a state drawn around z_t by its own first
        prediction. The state never depends on x but through z_t, so the value stays a bound.
        """
        if not self.reads_w:
            return super()._measured(network, process, z, t, batch, context, carry)
        count = max(2, num_atoms(as_concentration(self.concentration).largest))
        first = network(readable(vertex(z)), t, batch)

        def more(keys: Keys, number: int) -> Tensor:
            return draw_marginal(first, process.alpha(t), process.prior, keys, number)

        w = draw_atoms(z, more, self.eta(t), count, context.keys.stream("measured state"))
        measuring = replace(context, training=False) if carry else None
        return network(readable(pinned(w, batch.tokens, batch.given)), t, batch, measuring)
