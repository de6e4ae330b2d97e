"""Elementary functions in forms that keep their digits near t = 0 and t = 1."""

from __future__ import annotations

import torch
from torch import Tensor

_SERIES_RADIUS = 0.35
_SERIES_TERMS = 13


def expm1_minus(x: Tensor) -> Tensor:
    """phi(x) = exp(x) - 1 - x, non-negative, without the cancellation at small x."""
    small = x.abs() < _SERIES_RADIUS
    z = torch.where(small, torch.zeros_like(x), x)
    return torch.where(small, _series(torch.where(small, x, torch.zeros_like(x))), torch.expm1(z) - z)


def _series(x: Tensor) -> Tensor:
    total = torch.ones_like(x)
    for n in range(_SERIES_TERMS, 2, -1):
        total = 1 + total * x / n
    return 0.5 * x * x * total


def log_over_prior(x: Tensor, alpha: Tensor, pi: Tensor, rest: Tensor | None = None) -> Tensor:
    """log(p_t / pi) for p_t = alpha x + (1 - alpha) pi, accurate both where alpha -> 0 and where alpha -> 1.

    Near t = 1 the ratio is 1 + small and needs log1p; near t = 0 an absent category has ratio 1 - alpha, which
    log1p(-alpha) would round. A category that is impossible (alpha = 1, x = 0) gives -inf. `rest` is 1 - alpha from
    callers who know it more precisely than alpha does: in float32 an alpha above 1 - 3e-8 is one.
    """
    excess = alpha * (x / pi - 1)
    near = excess > -0.5
    ratio = (1 - alpha if rest is None else rest) + alpha * x / pi
    safe = torch.where(near | (ratio <= 0), torch.ones_like(ratio), ratio)
    far = torch.where(ratio > 0, torch.log(safe), torch.full_like(ratio, -torch.inf))
    return torch.where(near, torch.log1p(torch.where(near, excess, torch.zeros_like(excess))), far)


def safe_log(x: Tensor) -> Tensor:
    """log x with -inf at zero and no NaN in its gradient there."""
    positive = x > 0
    log = torch.log(torch.where(positive, x, torch.ones_like(x)))
    return torch.where(positive, log, torch.full_like(x, -torch.inf))


def divergence(p: Tensor, q: Tensor, log_q_over_p: Tensor) -> Tensor:
    """p log(p / q) - p + q, category by category: non-negative, q where p = 0.

    The logarithm is an argument because callers know it more accurately than a quotient would; it may be anything
    where p = 0. Small values of it go through a series, large ones through the definition, whose q cannot overflow.
    """
    present = p > 0
    delta = torch.where(present, log_q_over_p, torch.zeros_like(log_q_over_p))
    small = delta.abs() < _SERIES_RADIUS
    near = p * _series(torch.where(small, delta, torch.zeros_like(delta)))
    far = q - p - p * torch.where(small, torch.zeros_like(delta), delta)
    return torch.where(present, torch.where(small, near, far), q)


def kl(p: Tensor, q: Tensor, log_q_over_p: Tensor) -> Tensor:
    """KL divergence over the last axis between p and q, which both sum to one, as a sum of non-negative terms."""
    return divergence(p, q, log_q_over_p).sum(-1)


def inner(weights: Tensor, values: Tensor) -> Tensor:
    """Inner product over the last axis with 0 * (anything, also infinity) = 0."""
    used = weights != 0
    return torch.where(used, weights * torch.where(used, values, torch.zeros_like(values)), 0.0).sum(-1)


def scale(rate: Tensor, value: Tensor) -> Tensor:
    """rate * value, and zero where an infinite rate meets a value that has vanished."""
    vanished = torch.isinf(rate) & (value == 0)
    return torch.where(vanished, torch.zeros_like(rate), rate) * value
