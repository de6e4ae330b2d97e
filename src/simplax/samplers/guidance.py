"""Guidance: samples pulled towards a label, by the network itself or by a classifier (Schiff et al. 2025).

Both tilt the law of every token in a reverse step and renormalise it there, position by position.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from simplax.functional.guidance import check_strength, classifier_based, classifier_free
from simplax.processes.base import TokenProcess
from simplax.processes.prediction import GuidedPrediction, Prediction
from simplax.processes.uniform import UniformProcess
from simplax.random import Keys, categorical

LogClassifier = Callable[[Tensor, Tensor], Tensor]
_ELEMENTS = 2**24  # probabilities alive at once


@dataclass(frozen=True)
class Guide(abc.ABC):
    """How a reverse step is tilted; `strength` 0 is no guidance."""

    strength: float

    def __post_init__(self) -> None:
        check_strength(self.strength)

    @property
    def compares(self) -> float | None:
        """The strength if every network call is to be made with and without the labels."""
        return None

    @property
    def tilts_steps(self) -> bool:
        """Whether whole steps are tilted: they must be drawn by `bridge`, on a grid of times, up to their end."""
        return False

    @abc.abstractmethod
    def bridge(
        self,
        process: TokenProcess,
        z: Tensor,
        prediction: Prediction,
        t: Tensor,
        s: Tensor | None,
        keys: Keys,
    ) -> Tensor:
        """z_s given z_t = `z` and x_hat; `s=None` is time zero."""


@dataclass(frozen=True)
class ClassifierFree(Guide):
    """Classifier-free guidance: p(z_s | z_t, y)^gamma p(z_s | z_t)^(1 - gamma), renormalised at every position.

    The network reads every state twice, with the labels and without, in one call of twice as many sequences: two
    evaluations per step are counted. At 0 and at 1 it reads it once. Under uniform noise the bridges themselves are
    combined; masks are lifted as often as without guidance and filled in from the combined predictions, as published.
    `on="prediction"` combines predictions under uniform noise too; so do all other methods.
    """

    on: str = "bridge"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.on not in ("bridge", "prediction"):
            raise ValueError(f"guidance works on the bridge or on the prediction, not on {self.on!r}")

    @property
    def compares(self) -> float | None:
        return None if self.strength in (0, 1) else self.strength

    def bridge(
        self,
        process: TokenProcess,
        z: Tensor,
        prediction: Prediction,
        t: Tensor,
        s: Tensor | None,
        keys: Keys,
    ) -> Tensor:
        if self.on == "prediction" or not isinstance(prediction, GuidedPrediction):
            return process.bridge(z, prediction, t, s, keys)
        if not isinstance(process, UniformProcess):
            return process.bridge(z, prediction, t, s, keys)
        u, drawn = keys.uniform(z.shape[1]), []
        few = max(1, _ELEMENTS // (z.shape[1] * prediction.size))
        for rows in torch.arange(len(z), device=z.device).split(few):
            with_labels, without = (
                process.log_bridge(z[rows], Prediction(part.logits[rows]), t, s)
                for part in (prediction.conditional, prediction.unconditional)
            )
            law = classifier_free(with_labels, without, self.strength)
            drawn.append(categorical(law.exp(), u[rows]))
        return torch.cat(drawn)


@dataclass(frozen=True)
class ByClassifier(Guide):
    """Guidance by a classifier of noisy sequences: p(z_s | z_t) p(y | z_s)^gamma, renormalised at every position.

    `log_prob(z, t)` gives log p(y | z) (batch,) for ids (batch, length) at times (batch,); a mask is the id K. A
    position's factor is that of the present state with this position alone replaced. `exact=True` asks the classifier
    about all of them, length times K sequences for each; `exact=False` takes a first-order expansion at the present
    state: one call and its gradient, on one-hot vectors (batch, length, K or K + 1) instead of ids.
    `batch_size` sequences at a time. Networks need no labels for it, and are called once per step.
    """

    log_prob: LogClassifier
    exact: bool = True
    batch_size: int = 4096

    @property
    def tilts_steps(self) -> bool:
        return True

    def bridge(
        self,
        process: TokenProcess,
        z: Tensor,
        prediction: Prediction,
        t: Tensor,
        s: Tensor | None,
        keys: Keys,
    ) -> Tensor:
        law = process.log_bridge(z, prediction, t, s)
        width = law.shape[-1]
        tilt = (self._replaced if self.exact else self._expanded)(z, t, width)
        guided = classifier_based(law, tilt.to(law), self.strength)
        return categorical(guided.exp(), keys.uniform(z.shape[1]))

    def _replaced(self, z: Tensor, t: Tensor, width: int) -> Tensor:
        """log p(y | z with one position replaced), (batch, length, width)."""
        batch, length = z.shape
        ids = torch.arange(width, device=z.device)
        places = torch.arange(length, device=z.device)
        cells = torch.cartesian_prod(torch.arange(batch, device=z.device), places, ids)
        values = []
        for row, place, value in (part.unbind(1) for part in cells.split(self.batch_size)):
            changed = z[row].scatter(1, place.unsqueeze(1), value.unsqueeze(1))
            values.append(self._checked(self.log_prob(changed, _times(t, z)[row]), len(row)))
        return torch.cat(values).view(batch, length, width)

    def _expanded(self, z: Tensor, t: Tensor, width: int) -> Tensor:
        """The same to first order, up to a constant for each sequence."""
        with torch.enable_grad():
            w = torch.nn.functional.one_hot(z, width).float().requires_grad_()
            value = self._checked(self.log_prob(w, _times(t, z)), len(z))
            (gradient,) = torch.autograd.grad(value.sum(), w)
        return gradient

    @staticmethod
    def _checked(value: Any, number: int) -> Tensor:
        if not isinstance(value, Tensor) or tuple(value.shape) != (number,):
            raise ValueError(f"a classifier gives one log-probability per sequence: {number} numbers here")
        return value


def as_guide(guidance: float | Guide | None) -> Guide | None:
    """A number is the strength of classifier-free guidance."""
    if guidance is None or isinstance(guidance, Guide):
        return guidance
    return ClassifierFree(float(guidance))


def _times(t: Tensor, z: Tensor) -> Tensor:
    return t.to(z.device, torch.float32).expand(len(z))
