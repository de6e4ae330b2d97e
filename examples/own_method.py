"""A method of your own in one file: what it noises, its network, its loss and its sampler.

This one predicts the clean token from uniformly noised ones by plain cross-entropy. The file is a command line too:

    python examples/own_method.py methods
    python examples/own_method.py train toy-plain
    python examples/own_method.py sample runs/toy-plain
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import nn

from simplax.cli import main
from simplax.methods import METHODS, Facts, Method
from simplax.nn import Architecture, Denoiser, Network, num_categories
from simplax.objectives.fused import cross_entropy
from simplax.processes.base import Process
from simplax.processes.prior import Prior
from simplax.processes.uniform import UniformProcess
from simplax.samplers import Ancestral, Sampler
from simplax.schedules import LogLinear, Schedule
from simplax.times import TimeLaw
from simplax.typing import Batch, Loss, StepContext


@dataclass(frozen=True)
class Plain(Method):
    """Cross-entropy of the clean token at every position, whatever the time."""

    facts: ClassVar[Facts] = Facts(
        "Plain cross-entropy", "tokens, towards uniform noise", "ancestral", "an example"
    )
    process_type: ClassVar[type[Process]] = UniformProcess

    schedule: Schedule = field(default_factory=LogLinear)
    """how much of a token is left at each time"""
    times: TimeLaw = field(default_factory=TimeLaw)
    """the times that are trained on"""

    def process(self, denoiser: Any) -> UniformProcess:
        return UniformProcess(self.schedule, Prior(num_categories(denoiser)))

    def build(self, vocab_size: int, length: int, architecture: Architecture) -> nn.Module:
        return Denoiser(vocab_size, length, architecture, time=self.schedule.sigma)

    def loss(self, denoiser: nn.Module | Network, batch: Batch, context: StepContext) -> Loss:
        network = Network.of(denoiser)
        t = self.times(context.u)
        z = self.process(network.denoiser).corrupt(batch.tokens, t, context.keys.stream("corrupt"))
        z = z.where(~batch.given, batch.tokens)  # what is given is never noised
        prediction = network(z, t, batch, context)
        return Loss(cross_entropy(prediction, batch.tokens, batch.scored, None), batch.scored)

    def sampler(self, **options: Any) -> Sampler[Any]:
        return Ancestral(**options)


METHODS["plain"] = Plain  # before recipes are imported: then every open family has one of it

if __name__ == "__main__":
    sys.exit(main())
