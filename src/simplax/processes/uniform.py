"""The uniform corruption process for any strictly positive prior pi, and exact draws from it and from its bridge.

Nothing here builds a K-vector in float64. A draw from the reverse posterior is a mixture of three branches (stay, draw
from the prediction, draw from the prior) whose probabilities need the prediction at one id only; only positions that
take the second branch pay for a categorical draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from simplax.functional.process import reverse_posterior
from simplax.processes.base import TokenProcess, required
from simplax.processes.prediction import Prediction
from simplax.processes.prior import Prior
from simplax.random import Keys
from simplax.schedules import Schedule


@dataclass(frozen=True)
class UniformProcess(TokenProcess):
    """A token is itself with chance alpha_t and a draw from pi otherwise."""

    name: ClassVar[str] = "tokens drawn from a prior"

    schedule: Schedule
    prior: Prior

    @property
    def size(self) -> int:
        return self.prior.size

    @classmethod
    def around(cls, denoiser: Any, schedule: Schedule | None, prior: Prior) -> UniformProcess:
        """With the prior that the network keeps, unless another one is given."""
        kept = getattr(denoiser, "pi", None)
        if prior.probs is None and isinstance(kept, Tensor):
            prior = Prior(prior.size, kept)
        return cls(required(schedule), prior)

    def start(self, batch: int, length: int, keys: Keys) -> Tensor:
        return self.prior.draw(keys.uniform(length))

    def corrupt(self, x: Tensor, t: Tensor, keys: Keys) -> Tensor:
        return corrupt(x, self.alpha(t), self.prior, keys)

    def bridge(self, z: Tensor, prediction: Prediction, t: Tensor, s: Tensor | None, keys: Keys) -> Tensor:
        alpha_t = self.alpha(t)
        alpha_s = torch.ones_like(alpha_t) if s is None else self.alpha(s)
        return draw_bridge(z, prediction, alpha_s, alpha_t, self.prior, keys)

    def log_bridge(self, z: Tensor, prediction: Prediction, t: Tensor, s: Tensor | None) -> Tensor:
        alpha_t = self.alpha(t)
        alpha_s = torch.ones_like(alpha_t) if s is None else self.alpha(s)
        pi = None if self.prior.probs is None else self.prior.probs.double()
        x_hat = torch.softmax(prediction.logits.double(), dim=-1)
        return reverse_posterior(x_hat, z, alpha_s, alpha_t, pi, validate=False).log()

    def recover(self, z: Tensor, x: Tensor, t: Tensor, s: Tensor, keys: Keys) -> Tensor:
        return draw_towards(x, z, self.alpha(s), self.alpha(t), self.prior, keys)

    def greedy(self, z: Tensor, prediction: Prediction) -> Tensor:
        return prediction.logits.argmax(-1)

    def likeliest(self, z: Tensor, prediction: Prediction, t: Tensor) -> Tensor:
        """The posterior is x_hat with the odds of z raised by 1 + alpha / ((1 - alpha) pi(z))."""
        alpha = self.alpha(t).double()
        top, ids = prediction.logits.max(dim=-1)
        raised = torch.log1p(alpha / ((1 - alpha) * self.prior.at(z)))
        own = prediction.logits.gather(-1, z.unsqueeze(-1)).squeeze(-1)
        return torch.where(own + raised >= top, z, ids)


def corrupt(x: Tensor, alpha_t: Tensor, prior: Prior, keys: Keys) -> Tensor:
    """z_t ~ Cat(alpha_t x + (1 - alpha_t) pi) for ids `x` (batch, length); `alpha_t` broadcasts."""
    u = keys.uniform(2, *x.shape[1:])
    return torch.where(u[:, 0] < alpha_t, x, prior.draw(u[:, 1]))


def draw_marginal(prediction: Prediction, alpha: Tensor, prior: Prior, keys: Keys, count: int) -> Tensor:
    """`count` ids per position from p_hat = alpha x_hat + (1 - alpha) pi, shape (batch, length, count)."""
    u = keys.uniform(2, prediction.logits.shape[1], count)
    return prediction.draw(u[:, 0] < alpha.unsqueeze(-1), u[:, 1], otherwise=prior.draw(u[:, 1]))


def draw_afresh(
    z: Tensor, where: Tensor, prediction: Prediction | None, alpha: Tensor, prior: Prior, keys: Keys
) -> Tensor:
    """`z` with ids from p_hat = alpha x_hat + (1 - alpha) pi where `where` holds; without a prediction x_hat is pi.

    For the leave-one-out prediction this is a draw from the law of each token given the others. Only the positions
    `where` pay for it.
    """
    u = keys.uniform(2, *z.shape[1:])
    fresh = torch.where(where, prior.draw(u[:, 1]), z)
    if prediction is None:
        return fresh
    return prediction.draw(where & (u[:, 0] < alpha), u[:, 1], otherwise=fresh)


def draw_bridge(
    anchor: Tensor, prediction: Prediction, alpha_s: Tensor, alpha_t: Tensor, prior: Prior, keys: Keys
) -> Tensor:
    """z_s ~ r_{s|t}(x_hat, anchor) by its three branches; exact for every strictly positive pi."""
    stay, redraw = _branches(prediction.at(anchor).double(), prior.at(anchor), alpha_s, alpha_t)
    u = keys.uniform(2, *anchor.shape[1:])
    z = torch.where(u[:, 0] < stay, anchor, prior.draw(u[:, 1]))
    return prediction.draw((u[:, 0] >= stay) & (u[:, 0] < stay + redraw), u[:, 1], otherwise=z)


def draw_towards(x: Tensor, z: Tensor, alpha_s: Tensor, alpha_t: Tensor, prior: Prior, keys: Keys) -> Tensor:
    """z_s ~ q(z_s | z_t = z, x), the bridge at the clean ids themselves."""
    stay, redraw = _branches((z == x).double(), prior.at(z), alpha_s, alpha_t)
    u = keys.uniform(2, *x.shape[1:])
    return torch.where(u[:, 0] < stay, z, torch.where(u[:, 0] < stay + redraw, x, prior.draw(u[:, 1])))


def _branches(
    at_anchor: Tensor, pi: Tensor | float, alpha_s: Tensor, alpha_t: Tensor
) -> tuple[Tensor, Tensor]:
    """The chances to keep the anchor and to draw from the prediction, which has `at_anchor` there."""
    p_s = alpha_s * at_anchor + (1 - alpha_s) * pi
    p_t = alpha_t * at_anchor + (1 - alpha_t) * pi
    keep = alpha_t / alpha_s
    # p_t is zero at t = 0 only, at an anchor that x_hat excludes, and there is nothing left to undo
    return torch.where(p_t > 0, keep * p_s / p_t, 1.0), (1 - keep) * pi * alpha_s / p_t
