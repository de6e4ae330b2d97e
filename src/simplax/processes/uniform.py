"""The uniform corruption process for any strictly positive prior pi, and exact draws from it and from its bridge.

Nothing here builds a K-vector in float64. A draw from the reverse posterior is a mixture of three branches (stay, draw
from the prediction, draw from the prior) whose probabilities need the prediction at one id only; only positions that
take the second branch pay for a categorical draw.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import torch
from torch import Tensor

from simplax.random import Keys, categorical


@dataclass(frozen=True)
class Prior:
    """pi over `size` categories; `probs=None` is the uniform one."""

    size: int
    probs: Tensor | None = None

    def __post_init__(self) -> None:
        if self.probs is not None and not _is_positive_law(self.probs, self.size):
            raise ValueError(
                f"pi must hold one positive probability for each of {self.size} categories and sum to one"
            )

    def at(self, ids: Tensor) -> Tensor | float:
        return 1.0 / self.size if self.probs is None else self.probs.to(ids.device)[ids]

    def dense(self, like: Tensor) -> Tensor:
        if self.probs is None:
            return torch.full((self.size,), 1.0 / self.size, dtype=like.dtype, device=like.device)
        return self.probs.to(like)

    def draw(self, u: Tensor) -> Tensor:
        """Ids from pi by inverse CDF at the uniforms `u`."""
        if self.probs is None:
            return (u * self.size).long().clamp(max=self.size - 1)
        cumulative = self.probs.double().cumsum(0).to(u.device)
        return torch.searchsorted(cumulative, u.double() * cumulative[-1], right=True).clamp(
            max=self.size - 1
        )


def _is_positive_law(probs: Tensor, size: int) -> bool:
    return probs.shape == (size,) and bool((probs > 0).all()) and abs(float(probs.double().sum()) - 1) < 1e-4


class Prediction:
    """x_hat held as logits and one normaliser per position; the dense form is built only when asked for."""

    def __init__(self, logits: Tensor) -> None:
        self.logits = logits

    @functools.cached_property
    def log_normaliser(self) -> Tensor:
        return log_normaliser(self.logits)

    @property
    def size(self) -> int:
        return self.logits.shape[-1]

    def at(self, ids: Tensor) -> Tensor:
        """x_hat at one id per position, or at several when `ids` has one more axis."""
        if ids.dim() == self.logits.dim():
            return torch.exp(self.logits.gather(-1, ids) - self.log_normaliser.unsqueeze(-1))
        return torch.exp(self.log_at(ids))

    def log_at(self, ids: Tensor) -> Tensor:
        """log x_hat at one id per position; -inf where it is impossible."""
        return self.logits.gather(-1, ids.unsqueeze(-1)).squeeze(-1) - self.log_normaliser

    def probs(self) -> Tensor:
        return torch.exp(self.logits - self.log_normaliser.unsqueeze(-1))

    def draw(self, where: Tensor, u: Tensor) -> Tensor:
        """One id per True entry of `where` (leading shape, or leading shape x J), by inverse CDF."""
        rows = where if where.dim() < self.logits.dim() else where.any(-1)
        logits, chosen = self.logits.flatten(0, -2), rows.flatten().nonzero().squeeze(-1)
        few = max(1, _DRAW_ELEMENTS // self.size)
        parts = zip(chosen.split(few), u[rows].split(few))
        ids = torch.cat([categorical(torch.softmax(logits[part], dim=-1), v) for part, v in parts])
        return ids if rows is where else ids[where[rows]]


_DRAW_ELEMENTS = 2**20  # probabilities alive at once however many positions are drawn
_BLOCK_ELEMENTS = 2**17  # logits worked on at once: they and a copy of them fit a processor's cache


def log_normaliser(logits: Tensor) -> Tensor:
    """logsumexp over the last axis without a copy of all logits, unless a gradient is needed."""
    if logits.requires_grad or logits.device.type != "cpu" or logits.numel() <= _BLOCK_ELEMENTS:
        return torch.logsumexp(logits, dim=-1)
    few = max(1, _BLOCK_ELEMENTS // logits.shape[-1])
    parts = [torch.logsumexp(part, dim=-1) for part in logits.flatten(0, -2).split(few)]
    return torch.cat(parts).view(logits.shape[:-1])


def corrupt(x: Tensor, alpha_t: Tensor, prior: Prior, keys: Keys) -> Tensor:
    """z_t ~ Cat(alpha_t x + (1 - alpha_t) pi) for ids `x` (batch, length); `alpha_t` broadcasts."""
    u = keys.uniform(2, *x.shape[1:])
    return torch.where(u[:, 0] < alpha_t, x, prior.draw(u[:, 1]))


def draw_marginal(prediction: Prediction, alpha: Tensor, prior: Prior, keys: Keys, count: int) -> Tensor:
    """`count` ids per position from p_hat = alpha x_hat + (1 - alpha) pi, shape (batch, length, count)."""
    u = keys.uniform(2, prediction.logits.shape[1], count)
    from_prediction = u[:, 0] < alpha.unsqueeze(-1)
    ids = prior.draw(u[:, 1])
    ids[from_prediction] = prediction.draw(from_prediction, u[:, 1])
    return ids


def draw_bridge(
    anchor: Tensor, prediction: Prediction, alpha_s: Tensor, alpha_t: Tensor, prior: Prior, keys: Keys
) -> Tensor:
    """z_s ~ r_{s|t}(x_hat, anchor) by its three branches; exact for every strictly positive pi."""
    at_anchor, pi = prediction.at(anchor).double(), prior.at(anchor)
    p_s = alpha_s * at_anchor + (1 - alpha_s) * pi
    p_t = alpha_t * at_anchor + (1 - alpha_t) * pi
    keep = alpha_t / alpha_s
    # p_t is zero at t = 0 only, at an anchor that x_hat excludes, and there is nothing left to undo
    stay = torch.where(p_t > 0, keep * p_s / p_t, 1.0)
    redraw = (1 - keep) * pi * alpha_s / p_t
    u = keys.uniform(2, *anchor.shape[1:])
    z = torch.where(u[:, 0] < stay, anchor, prior.draw(u[:, 1]))
    from_prediction = (u[:, 0] >= stay) & (u[:, 0] < stay + redraw)
    z[from_prediction] = prediction.draw(from_prediction, u[:, 1])
    return z
