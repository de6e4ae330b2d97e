"""Noise schedules: alpha(t), its derivative, its inverse, and the rate lambda(t) = -d log alpha / dt.

t = 0 is clean (alpha = 1), t = 1 is noise. Every schedule is a frozen dataclass of floats and works on floats'
tensors of any shape; it holds no tensor, so it needs no device and hashes.
"""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass

import torch
from torch import Tensor


class Schedule(abc.ABC):
    """alpha on [0, 1]: strictly decreasing from alpha(0) = 1."""

    @abc.abstractmethod
    def alpha(self, t: Tensor) -> Tensor:
        """Probability that no noising event has happened by time t."""

    @abc.abstractmethod
    def derivative(self, t: Tensor) -> Tensor:
        """d alpha / dt, negative."""

    @abc.abstractmethod
    def inverse(self, alpha: Tensor) -> Tensor:
        """The time t at which alpha(t) has the given value."""

    def rate(self, t: Tensor) -> Tensor:
        """lambda(t) = -alpha'(t) / alpha(t): the jump rate of the forward process."""
        return -self.derivative(t) / self.alpha(t)

    def sigma(self, t: Tensor) -> Tensor:
        """-log alpha(t), what the denoiser is conditioned on."""
        return -torch.log(self.alpha(t))


@dataclass(frozen=True)
class LogLinear(Schedule):
    """alpha(t) = 1 - (1 - eps) t, the schedule of every published text run; alpha(1) = eps, not zero."""

    eps: float = 1e-3

    def alpha(self, t: Tensor) -> Tensor:
        return 1.0 - (1.0 - self.eps) * t

    def derivative(self, t: Tensor) -> Tensor:
        return -(1.0 - self.eps) * torch.ones_like(t)

    def inverse(self, alpha: Tensor) -> Tensor:
        return (1.0 - alpha) / (1.0 - self.eps)

    def sigma(self, t: Tensor) -> Tensor:
        return -torch.log1p(-(1.0 - self.eps) * t)


@dataclass(frozen=True)
class Linear(Schedule):
    """alpha(t) = 1 - t, the paper's boundary values exactly: the rate is infinite at t = 1."""

    def alpha(self, t: Tensor) -> Tensor:
        return 1.0 - t

    def derivative(self, t: Tensor) -> Tensor:
        return -1.0 * torch.ones_like(t)

    def inverse(self, alpha: Tensor) -> Tensor:
        return 1.0 - alpha


@dataclass(frozen=True)
class Cosine(Schedule):
    """alpha(t) = 1 - cos(pi/2 (1 - (1 - eps) t)) with the chain-rule factor kept in its derivative."""

    eps: float = 1e-3

    def _angle(self, t: Tensor) -> Tensor:
        return 0.5 * math.pi * (1.0 - (1.0 - self.eps) * t)

    def alpha(self, t: Tensor) -> Tensor:
        # 1 - cos a = 2 sin^2(a/2) keeps precision near t = 1, where alpha is small
        return 2.0 * torch.sin(0.5 * self._angle(t)) ** 2

    def derivative(self, t: Tensor) -> Tensor:
        return -0.5 * math.pi * (1.0 - self.eps) * torch.sin(self._angle(t))

    def inverse(self, alpha: Tensor) -> Tensor:
        angle = 2.0 * torch.asin(torch.sqrt(0.5 * alpha))
        return (1.0 - angle / (0.5 * math.pi)) / (1.0 - self.eps)


@dataclass(frozen=True)
class Polynomial(Schedule):
    """alpha(t) = 1 - (1 - eps) t^power: a power above one keeps the sequence clean for longer."""

    power: float = 2.0
    """power of t"""
    eps: float = 1e-3

    def alpha(self, t: Tensor) -> Tensor:
        return 1.0 - (1.0 - self.eps) * t**self.power

    def derivative(self, t: Tensor) -> Tensor:
        return -(1.0 - self.eps) * self.power * t ** (self.power - 1.0)

    def inverse(self, alpha: Tensor) -> Tensor:
        return ((1.0 - alpha) / (1.0 - self.eps)) ** (1.0 / self.power)
