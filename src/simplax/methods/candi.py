"""CANDI (Pynadath et al. 2025): discrete masking and Gaussian noise at once, on clocks tied by decoding difficulty."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import nn

from simplax.methods.base import Facts, Method
from simplax.nn import Architecture, Network, inner
from simplax.nn.candi import HybridDenoiser
from simplax.objectives.fused import cross_entropy
from simplax.processes.base import Process
from simplax.processes.hybrid import HybridProcess
from simplax.samplers.base import Sampler
from simplax.samplers.candi import CachedHybrid
from simplax.schedules import LogLinear, Schedule
from simplax.times import TimeLaw
from simplax.typing import Batch, Loss, StepContext, per_sample


@dataclass(frozen=True)
class CANDI(Method):
    """Cross-entropy at hidden tokens, weighted by -alpha' / (1 - alpha) as in masked diffusion.

    `ranks` is the range of the expected share of wrong coordinates above the right one (published text runs also use
    0.05 to 0.25); `mix` the share of the mask in what the network reads at hidden positions.
    """

    facts: ClassVar[Facts] = Facts(
        "CANDI",
        "tokens and a Gaussian at once",
        "hybrid, cached",
        "Pynadath et al. 2025, CANDI: Hybrid Discrete-Continuous Diffusion Models",
    )
    process_type: ClassVar[type[Process]] = HybridProcess

    schedule: Schedule = field(default_factory=LogLinear)
    times: TimeLaw = field(default_factory=TimeLaw)
    ranks: tuple[float, float] = (0.01, 0.25)
    mix: float = 0.5

    def __post_init__(self) -> None:
        if not 0 < self.ranks[0] < self.ranks[1] < 0.5:
            raise ValueError(f"ranks must be an increasing pair strictly between 0 and 0.5, got {self.ranks}")
        if not 0 <= self.mix < 1:
            raise ValueError(f"mix must lie in [0, 1), got {self.mix}")

    def process(self, denoiser: Any) -> HybridProcess:
        return HybridProcess(inner(denoiser))

    def build(self, vocab_size: int, length: int, architecture: Architecture) -> nn.Module:
        return HybridDenoiser(vocab_size, length, architecture, self.schedule, self.ranks, self.mix)

    def sampler(self, **options: Any) -> Sampler[Any]:
        return CachedHybrid(**options)

    def loss(self, denoiser: nn.Module | Network, batch: Batch, context: StepContext) -> Loss:
        network = Network.of(denoiser)
        t = self.times(context.u)
        state = self.process(network.denoiser).hidden(batch.tokens, t, batch.given, context.keys)
        weight = -self.schedule.derivative(t) / (1 - self.schedule.alpha(t))
        prediction = network(state, t, batch, context)
        where = batch.scored & ~state.revealed
        return Loss(cross_entropy(prediction, batch.tokens, where, per_sample(weight)), batch.scored)
