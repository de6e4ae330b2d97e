"""The Dirichlet concentration eta_t: constant, or a schedule.

In the sampler eta/(1 + eta) is the chance that a step re-anchors a token on a fresh draw from the previous prediction:
a corrector strength. It may be chosen at sampling time, independently of training.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass

import torch
from torch import Tensor


class Concentration(abc.ABC):
    """eta as a function of time and, for samplers, of the number of steps."""

    @abc.abstractmethod
    def __call__(self, t: Tensor, num_steps: int = 1) -> Tensor: ...

    @property
    @abc.abstractmethod
    def largest(self) -> float:
        """The largest value eta takes: it decides how many atoms a simplex state needs."""


@dataclass(frozen=True)
class Constant(Concentration):
    """The paper's choice: eta = value at every time (0.01 in its experiments)."""

    value: float = 0.01

    def __call__(self, t: Tensor, num_steps: int = 1) -> Tensor:
        return torch.full_like(t, self.value)

    @property
    def largest(self) -> float:
        return self.value


@dataclass(frozen=True)
class Vanishing(Concentration):
    """eta = value * ((t - until) / (1 - until))^power and zero before `until`: it corrects while noisy and lets go."""

    value: float = 10.0
    power: float = 1.0
    until: float = 0.0

    def __call__(self, t: Tensor, num_steps: int = 1) -> Tensor:
        return self.value * ((t - self.until) / (1.0 - self.until)).clamp(min=0.0) ** self.power

    @property
    def largest(self) -> float:
        return self.value


@dataclass(frozen=True)
class PerToken(Concentration):
    """eta such that a token expects `redraws` fresh anchors over the whole chain, whatever the number of steps."""

    redraws: float = 1.0

    def __call__(self, t: Tensor, num_steps: int = 1) -> Tensor:
        return torch.full_like(t, self._value(num_steps))

    @property
    def largest(self) -> float:
        return self._value(num_steps=1)

    def _value(self, num_steps: int) -> float:
        chance = min(self.redraws / num_steps, 1.0 - 1e-6)
        return chance / (1.0 - chance)


def as_concentration(eta: float | Concentration) -> Concentration:
    if isinstance(eta, Concentration):
        return eta
    if eta < 0:
        raise ValueError(f"the concentration eta must not be negative, got {eta}")
    return Constant(float(eta))
