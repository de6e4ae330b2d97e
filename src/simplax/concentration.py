"""The Dirichlet concentration eta_t: constant, or a schedule.

In the sampler eta/(1 + eta) is the chance that a step re-anchors a token on a fresh draw from the previous prediction:
a corrector strength. It may be chosen at sampling time, independently of training.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from simplax.errors import UserError


class Concentration(abc.ABC):
    """eta as a function of time and, for samplers, of the number of steps."""

    @staticmethod
    def from_text(text: str) -> Concentration | None:
        """`vanish:10:2:0.1` and `pertoken:5`, as `parse` reads them."""
        return as_concentration(parse(text)) if ":" in text else None

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
    """eta at every time"""

    def __post_init__(self) -> None:
        _check(self.value)

    def __call__(self, t: Tensor, num_steps: int = 1) -> Tensor:
        return torch.full_like(t, self.value)

    @property
    def largest(self) -> float:
        return self.value


@dataclass(frozen=True)
class Vanishing(Concentration):
    """eta = value * ((t - until) / (1 - until))^power and zero before `until`: it corrects while noisy and lets go.

    It never falls below `least`; with a power of 0 it is `value` first and `least` from `until` on.
    """

    value: float = 10.0
    """eta at time 1"""
    power: float = 1.0
    """how it falls from there; 0 for a step"""
    until: float = 0.0
    """time before which it is zero"""
    least: float = 0.0
    """value it never falls below"""

    def __post_init__(self) -> None:
        _check(self.value)
        _check(self.least)
        if not 0 <= self.power < math.inf or not 0 <= self.until < 1:
            raise ValueError(
                f"a vanishing eta needs a power of at least 0 and an end in [0, 1), got {self.power} and {self.until}"
            )

    def __call__(self, t: Tensor, num_steps: int = 1) -> Tensor:
        left = ((t - self.until) / (1.0 - self.until)).clamp(min=0.0)
        return torch.where(left > 0, self.value * left**self.power, 0.0).clamp(min=self.least)

    @property
    def largest(self) -> float:
        return max(self.value, self.least)


@dataclass(frozen=True)
class PerToken(Concentration):
    """eta such that a token expects `redraws` fresh anchors over the whole chain, whatever the number of steps."""

    redraws: float = 1.0
    """expected number of times that a token is re-anchored"""

    def __post_init__(self) -> None:
        if not 0 <= self.redraws < math.inf:
            raise ValueError(
                f"the expected number of redraws must be finite and not negative, got {self.redraws}"
            )

    def __call__(self, t: Tensor, num_steps: int = 1) -> Tensor:
        return torch.full_like(t, self._value(num_steps))

    @property
    def largest(self) -> float:
        return self._value(num_steps=1)

    def _value(self, num_steps: int) -> float:
        chance = min(self.redraws / num_steps, 1.0 - 1e-6)
        return chance / (1.0 - chance)


@dataclass(frozen=True)
class Normalised(Concentration):
    """Through nu = 1 / (1 + eta), a state's share of the largest variance it could have: eta = 1 / nu - 1.

    nu is `nu_0` until the time `bend`, and changes linearly to `nu_1` at time 1 from there (SDM, arXiv 2609.35553).
    """

    nu_0: float = 0.4
    """share of the largest variance until `bend`"""
    nu_1: float = 0.75
    """share of the largest variance at time 1"""
    bend: float = 0.8
    """time at which it begins to change"""

    def __post_init__(self) -> None:
        if not (0 < self.nu_0 < 1 and 0 < self.nu_1 < 1):
            raise ValueError(f"shares of the largest variance lie in (0, 1), got {self.nu_0} and {self.nu_1}")
        if not 0 <= self.bend < 1:
            raise ValueError(f"the time at which nu begins to change must lie in [0, 1), got {self.bend}")

    def __call__(self, t: Tensor, num_steps: int = 1) -> Tensor:
        late = ((t - self.bend) / (1.0 - self.bend)).clamp(min=0.0)
        return 1.0 / (self.nu_0 + late * (self.nu_1 - self.nu_0)) - 1.0

    @property
    def largest(self) -> float:
        return 1.0 / min(self.nu_0, self.nu_1) - 1.0


def as_concentration(eta: float | Concentration) -> Concentration:
    return eta if isinstance(eta, Concentration) else Constant(float(eta))


# how a concentration is typed: its name and the numbers of its fields, all but the first optional
SPELLINGS: dict[str, type[Concentration]] = {
    "constant": Constant,
    "vanish": Vanishing,
    "pertoken": PerToken,
    "normalised": Normalised,
}
SYNTAX = "a number, vanish:VALUE:POWER:UNTIL:LEAST, pertoken:REDRAWS or normalised:NU0:NU1:BEND"


def parse(text: str) -> float | Concentration:
    """A concentration as people type it: `10`, `vanish:10:2:0.1`, `pertoken:5`."""
    name, *words = text.strip().split(":")
    if not words:
        name, words = "constant", [name]
    kind = SPELLINGS.get(name)
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        numbers = []
    if kind is None or not 1 <= len(numbers) <= len(dataclasses.fields(kind)):  # type: ignore[arg-type]
        raise UserError(f"{text!r} is not a concentration: write {SYNTAX}.")
    try:
        made = kind(*numbers)
    except ValueError as error:
        raise UserError(f"{error}.") from error
    return made.value if isinstance(made, Constant) else made


def spell(eta: float | Concentration) -> str:
    """The shortest text that `parse` reads as `eta`."""
    if not isinstance(eta, Concentration) or isinstance(eta, Constant):
        return _digits(eta.value if isinstance(eta, Constant) else eta)
    (name,) = (name for name, kind in SPELLINGS.items() if type(eta) is kind)
    values = [getattr(eta, field.name) for field in dataclasses.fields(eta)]  # type: ignore[arg-type]
    return ":".join([name, *map(_digits, values)])


def _digits(value: float) -> str:
    return repr(float(value)).removesuffix(".0")


def _check(value: float) -> None:
    if value < 0:
        raise ValueError(f"the concentration eta must not be negative, got {value}")
    if not math.isfinite(value):
        raise ValueError(f"the concentration eta must be a finite number, got {value}")
