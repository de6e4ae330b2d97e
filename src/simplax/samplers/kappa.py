"""How much of a psi step is the reverse posterior: kappa for every point of a time grid.

kappa = 1 is ancestral, kappa = 0 denoises fully and adds noise again. The remasking rules fix sigma_r, the chance that
a visible token is masked in a step, as ReMDM does (Wang et al. 2025): kappa = 1 - sigma_r / (1 - alpha_s).
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, field

import torch
from torch import Tensor

from simplax.concentration import Concentration, as_concentration
from simplax.schedules import Schedule


class Kappa(abc.ABC):
    """One weight per point of `times`: entry i belongs to the step that starts there."""

    @staticmethod
    def from_text(text: str) -> Kappa | None:
        """A number is the same kappa everywhere."""
        try:
            value = float(text)
        except ValueError:
            return None
        return Fixed(value)

    @abc.abstractmethod
    def __call__(self, times: Tensor, schedule: Schedule, num_steps: int) -> Tensor: ...


@dataclass(frozen=True)
class Fixed(Kappa):
    """The same kappa everywhere: 1 is `pure-posterior`, 0 is `pure-pc`, others `constant-kappa`."""

    kappa: float = 1.0
    """weight of the reverse posterior: 1 is ancestral, 0 redraws every token"""

    def __post_init__(self) -> None:
        if not 0 <= self.kappa <= 1:
            raise ValueError(f"kappa must lie in [0, 1], got {self.kappa}")

    def __call__(self, times: Tensor, schedule: Schedule, num_steps: int) -> Tensor:
        return torch.full_like(times, self.kappa)


@dataclass(frozen=True)
class FromEta(Kappa):
    """kappa = 1 / (1 + eta): a token is redrawn as often as Simplax's sampler re-anchors it at concentration eta."""

    eta: float | Concentration = 0.01
    """concentration: eta/(1 + eta) is the chance that a step redraws a token"""

    def __post_init__(self) -> None:
        as_concentration(self.eta)

    def __call__(self, times: Tensor, schedule: Schedule, num_steps: int) -> Tensor:
        return 1 / (1 + as_concentration(self.eta)(times, num_steps))


@dataclass(frozen=True)
class _Remask(Kappa):
    """Rules that fix the chance sigma_r of remasking; the last point of their range is ancestral."""

    eta: float = 0.01
    """chance that a step masks a visible token, or the most it may be"""

    def __post_init__(self) -> None:
        if not 0 <= self.eta <= 1:
            raise ValueError(f"eta is a chance of remasking and must lie in [0, 1], got {self.eta}")

    def __call__(self, times: Tensor, schedule: Schedule, num_steps: int) -> Tensor:
        alpha = schedule.alpha(times)
        early, late = alpha[1:], alpha[:-1]
        noise = 1 - early
        chance = self.chance(noise / late.clamp(min=torch.finfo(late.dtype).tiny))
        # at time zero there is no noise to come back to, and every kappa is the same step
        kappa = torch.where(noise > 0, 1 - chance / noise.clamp(min=torch.finfo(noise.dtype).tiny), 1.0)
        return torch.cat([kappa.clamp(0, 1), torch.ones_like(times[:1])])

    @abc.abstractmethod
    def chance(self, largest: Tensor) -> Tensor:
        """sigma_r, where `largest` = (1 - alpha_s) / alpha_t is the most that keeps the marginals."""


@dataclass(frozen=True)
class Remask(_Remask):
    """sigma_r = eta (`constant-remdm-eta`)."""

    def chance(self, largest: Tensor) -> Tensor:
        return torch.full_like(largest, self.eta)


@dataclass(frozen=True)
class MaxCapped(_Remask):
    """sigma_r = min(eta, largest) (`max-capped-eta`)."""

    def chance(self, largest: Tensor) -> Tensor:
        return largest.clamp(max=self.eta)


@dataclass(frozen=True)
class MaxRescale(_Remask):
    """sigma_r = eta min(1, largest), as in ReMDM; published code for psi samplers caps by eta as well."""

    cap_too: bool = False
    """cap by eta as well, as published code for psi samplers does"""

    def chance(self, largest: Tensor) -> Tensor:
        return self.eta * largest.clamp(max=self.eta if self.cap_too else 1.0)


@dataclass(frozen=True)
class Segments(Kappa):
    """Three rules for high, middle and low noise; fractions are of the N + 1 points of the grid."""

    high: Kappa = field(default_factory=Fixed)
    """rule while there is much noise"""
    middle: Kappa = field(default_factory=Fixed)
    """rule in between"""
    low: Kappa = field(default_factory=Fixed)
    """rule while there is little noise"""
    high_fraction: float = 0.2
    """share of the grid that the first rule has"""
    middle_fraction: float = 0.6
    """share of the grid that the second rule has"""

    def __call__(self, times: Tensor, schedule: Schedule, num_steps: int) -> Tensor:
        pieces = times.split(segment_sizes(len(times), self.high_fraction, self.middle_fraction))
        rules = (self.high, self.middle, self.low)
        return torch.cat(
            [rule(piece, schedule, num_steps) for rule, piece in zip(rules, pieces) if len(piece)]
        )


@dataclass(frozen=True)
class Plateau:
    """A time grid that falls linearly to `level`, stays there while correctors work, and falls to `end`."""

    level: float = 0.1
    """time at which the grid stays"""
    high_fraction: float = 0.45
    """share of the grid before it stays there"""
    middle_fraction: float = 0.5
    """share of the grid that stays there"""
    start: float = 1.0
    """first time"""
    end: float = 1e-5
    """last time"""

    def __call__(self, num_steps: int) -> Tensor:
        high, middle, low = segment_sizes(num_steps + 1, self.high_fraction, self.middle_fraction)
        pieces = (
            torch.linspace(self.start, self.level, high, dtype=torch.float64),
            torch.full((middle,), self.level, dtype=torch.float64),
            torch.linspace(self.level, self.end, low, dtype=torch.float64),
        )
        times = torch.cat(pieces)
        # a segment of one point would stop at its first time: a grid always begins at `start` and comes to its `end`
        times[0], times[-1] = self.start, self.end
        return times


def segment_sizes(points: int, high_fraction: float, middle_fraction: float) -> list[int]:
    """Numbers of grid points in the three segments, rounded half to even; the last takes what is left."""
    if high_fraction < 0 or middle_fraction < 0 or high_fraction + middle_fraction > 1:
        raise ValueError(
            "the fractions of high and middle noise must not be negative, nor more than one together"
        )
    high = min(round(high_fraction * points), points)
    middle = min(round(middle_fraction * points), points - high)
    return [high, middle, points - high - middle]
