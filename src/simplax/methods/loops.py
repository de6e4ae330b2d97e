"""What a network is trained on if a call goes through its blocks several times."""

from __future__ import annotations

from torch import nn

from simplax.methods.base import Method
from simplax.nn import Architecture, Network
from simplax.nn.replay import Replay
from simplax.random import Keys
from simplax.typing import Batch, Loss, StepContext


def training_loss(method: Method, denoiser: nn.Module | Network, batch: Batch, context: StepContext) -> Loss:
    """The method's loss with as many loops as this step has, and the terms of the earlier loops if they are trained.

    With a loss at every loop the gradient is that of sum_r (r / R) L_r over the loops r = 1..R. What is reported stays
    the loss after the last one: the other terms are `auxiliary`.
    """
    plain = Network.of(denoiser)
    architecture = getattr(plain.inner, "architecture", None)
    if not isinstance(architecture, Architecture) or architecture.loops == 1:
        return method.loss(denoiser, batch, context)
    network = Network(plain.denoiser, plain.size, drawn_loops(architecture, context.step))
    if not architecture.loop_loss:
        return method.loss(network, batch, context)
    network.record = []
    last = method.loss(network, batch, context)
    total, auxiliary = network.loops or architecture.loops, last.auxiliary
    for loop in range(total - 1):
        early = method.loss(Replay(network, loop), batch, context).per_token.sum()
        term = (loop + 1) / total * early
        auxiliary = term if auxiliary is None else auxiliary + term
    return Loss(last.per_token, last.scored, auxiliary, last.observations)


def drawn_loops(architecture: Architecture, step: int) -> int | None:
    """The number of loops of a training step, the same on every process; None for all of them."""
    if architecture.fewest_loops is None:
        return None
    choices = architecture.loops - architecture.fewest_loops + 1
    drawn = Keys.from_seeds([step]).stream("loops").randint(choices, 1)
    return architecture.fewest_loops + int(drawn)
