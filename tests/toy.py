"""A problem small enough to enumerate: two tokens over three categories with a known joint law.

`Uniform(schedule)` and `Masked()` are the exact networks of this problem, callables `(z, t) -> logits` in float64 that
every method and sampler accepts. `leave_one_out=True` predicts p(x_i | z_-i), the optimum of uniform-state objectives;
`leave_one_out=False` predicts p(x_i | z), the posterior mean. `perturbed(denoiser)` is a network that is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from simplax.schedules import LogLinear, Schedule

K = 3
L = 2
MASK = K
JOINT = torch.tensor([[0.30, 0.02, 0.05], [0.04, 0.20, 0.06], [0.03, 0.08, 0.22]], dtype=torch.float64)
ENTROPY = float(-(JOINT * JOINT.log()).sum())
"""Nats per sequence of two tokens."""


def states(size: int = K) -> Tensor:
    """All sequences over `size` ids, (size ** 2, 2), in the order of `index`; `size = K + 1` includes the mask."""
    return torch.cartesian_prod(torch.arange(size), torch.arange(size))


def index(z: Tensor, size: int = K) -> Tensor:
    """Row of each sequence in `states(size)`."""
    return z[..., 0] * size + z[..., 1]


def data(count: int, seed: int = 0) -> Tensor:
    """Sequences drawn from the joint law, (count, 2)."""
    generator = torch.Generator().manual_seed(seed)
    return states()[torch.multinomial(JOINT.flatten(), count, replacement=True, generator=generator)]


def law(z: Tensor, size: int = K) -> Tensor:
    """Counts of each state among the sequences `z`, (size ** 2,)."""
    return torch.bincount(index(z, size), minlength=size**2).double()


@dataclass(frozen=True)
class Uniform:
    """The exact network under uniform noise."""

    schedule: Schedule = field(default_factory=LogLinear)
    leave_one_out: bool = True
    vocab_size: int = K

    def __call__(self, z: Tensor, t: Tensor) -> Tensor:
        alpha = self.schedule.alpha(t.double())[:, None, None]
        evidence = alpha * torch.nn.functional.one_hot(z, K) + (1 - alpha) / K
        return _predict(evidence, self.leave_one_out)


@dataclass(frozen=True)
class Masked:
    """The exact network under masking; it does not depend on the time."""

    leave_one_out: bool = True
    vocab_size: int = K

    def __call__(self, z: Tensor, t: Tensor) -> Tensor:
        seen = torch.nn.functional.one_hot(z, K + 1)[..., :K].double()
        return _predict(torch.where((z == MASK).unsqueeze(-1), 1.0, seen), self.leave_one_out)


def _predict(evidence: Tensor, leave_one_out: bool) -> Tensor:
    """Logits (batch, 2, K) from the likelihoods q(z_i | x_i) of each clean category."""
    others = torch.stack([evidence[:, 1] @ JOINT.T, evidence[:, 0] @ JOINT], dim=1)
    return (others if leave_one_out else others * evidence).log()


@dataclass(frozen=True)
class perturbed:
    """A wrong network: the exact logits plus a fixed pattern of size `amount`."""

    denoiser: Callable[[Tensor, Tensor], Tensor]
    amount: float = 0.5
    vocab_size: int = K

    def __call__(self, z: Tensor, t: Tensor) -> Tensor:
        pattern = torch.tensor([[1.0, -0.5, 0.2], [-0.7, 0.4, 0.9]], dtype=torch.float64)
        return self.denoiser(z, t) + self.amount * pattern
