"""Gibbs correctors: sweeps at one time that redraw a few positions from their law given all others.

As in Uniform Diffusion Models Revisited (2026): the network is called again at the time the step arrived at, positions
are chosen, and each gets a fresh token from alpha x_hat + (1 - alpha) pi.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from simplax.nn.network import Chain
from simplax.processes.prediction import Prediction
from simplax.processes.uniform import UniformProcess, draw_afresh
from simplax.random import Keys

Doubt = Callable[[Prediction, Tensor], Tensor]


def _against_margin(prediction: Prediction, z: Tensor) -> Tensor:
    """Minus the log of how much likelier the token is than the best other one."""
    own = prediction.logits.gather(-1, z.unsqueeze(-1))
    others = prediction.logits.scatter(-1, z.unsqueeze(-1), -torch.inf)
    return others.amax(-1) - own.squeeze(-1)


def _alike(prediction: Prediction, z: Tensor) -> Tensor:
    return torch.zeros_like(z, dtype=prediction.logits.dtype)


DOUBTS: dict[str, Doubt] = {"margin": _against_margin, "random": _alike}


@dataclass(frozen=True)
class Gibbs:
    """`sweeps` network calls more after every step but the last, each redrawing `count` positions.

    With the exact predictor a sweep of one random position keeps the law of the time it is made at; several at once
    do not see each other, and a choice by `margin` looks at the token it may replace.
    """

    sweeps: int = 2
    """sweeps after every step but the last; each is a network call"""
    count: int = 12
    """positions that a sweep redraws"""
    choice: str = "margin"
    """margin: the least certain positions, with Gumbel noise; random: any"""

    def __post_init__(self) -> None:
        if self.sweeps < 0 or self.count < 1:
            raise ValueError(f"Gibbs sweeps redraw at least one position, got {self.sweeps} of {self.count}")
        if self.choice not in DOUBTS:
            raise ValueError(
                f"unknown choice of positions {self.choice!r}: choose one of {', '.join(DOUBTS)}"
            )

    def corrected(self, z: Tensor, network: Chain, t: Tensor, process: UniformProcess, keys: Keys) -> Tensor:
        """`z` at time `t` after the sweeps; given positions and padding stay."""
        fixed = torch.zeros_like(z, dtype=torch.bool) if network.given is None else network.given
        fixed = fixed if network.attend is None else fixed | ~network.attend
        for number in range(self.sweeps):
            prediction = network.read(z, t, aside=True)
            where = self._chosen(prediction, z, fixed, keys.stream("choice", number))
            alpha = process.alpha(t).to(z.device)
            z = draw_afresh(z, where, prediction, alpha, process.prior, keys.stream("gibbs", number))
        return z

    def _chosen(self, prediction: Prediction, z: Tensor, fixed: Tensor, keys: Keys) -> Tensor:
        """The largest of doubt plus Gumbel noise: a draw without replacement by softmax of the doubt."""
        noise = -torch.log(-torch.log(keys.uniform(z.shape[1])))
        scores = (DOUBTS[self.choice](prediction, z).double() + noise).masked_fill(fixed, -torch.inf)
        best = scores.topk(min(self.count, z.shape[1]), dim=-1).indices
        return torch.zeros_like(fixed).scatter(-1, best, True) & ~fixed
