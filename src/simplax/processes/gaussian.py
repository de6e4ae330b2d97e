"""Gaussian diffusion of one-hot rows, w = a e_x + s eps, with its softmax and its arg-max: Duo's latent.

`sparse_latent` draws the few largest entries of w alone, through uniform order statistics, and accounts for all others
in the softmax's denominator by their mean given that they are smaller.
"""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor

from simplax.functional import duo_alpha, duo_alpha_derivative
from simplax.processes.simplex import Atoms, Dense
from simplax.random import Keys

TABLE_CELLS = 2048


def alpha_and_slope(gamma: Tensor, size: int, low: float, high: float) -> tuple[Tensor, Tensor]:
    """`duo_alpha` and its derivative at `gamma` in [low, high], interpolated in a table made once.

    Cubic in each cell with the exact derivatives at its edges: good to 1e-10 in alpha and 1e-8 in the derivative over
    any useful range, and thousands of times cheaper than a quadrature for each sample of each step.
    """
    alphas, slopes = (table.to(gamma.device) for table in _table(size, low, high))
    width = (high - low) / TABLE_CELLS
    place = ((gamma.double() - low) / width).clamp(0, TABLE_CELLS)
    cell = place.long().clamp(max=TABLE_CELLS - 1)
    u = place - cell
    rise = alphas[cell + 1] - alphas[cell]
    left, right = width * slopes[cell], width * slopes[cell + 1]
    bend, twist = 3 * rise - 2 * left - right, left + right - 2 * rise
    value = alphas[cell] + u * (left + u * (bend + u * twist))
    return value, (left + u * (2 * bend + 3 * u * twist)) / width


@functools.lru_cache(maxsize=16)
def _table(size: int, low: float, high: float) -> tuple[Tensor, Tensor]:
    gamma = torch.linspace(low, high, TABLE_CELLS + 1, dtype=torch.float64)
    return duo_alpha(gamma, size), duo_alpha_derivative(gamma, size)


def dense_latent(x: Tensor, gamma: Tensor, size: int, temperature: float, keys: Keys) -> tuple[Dense, Tensor]:
    """softmax(w / temperature) and arg-max w for ids `x` (batch, length) at `gamma` (batch,)."""
    signal, noise = (scale[:, None, None] for scale in signal_and_noise(gamma))
    w = noise * keys.stream("latent").normal(*x.shape[1:], size, dtype=torch.float64)
    w = w + signal * torch.nn.functional.one_hot(x, size)
    return Dense(torch.softmax(w / temperature, dim=-1)), w.argmax(-1)


def sparse_latent(
    x: Tensor, gamma: Tensor, size: int, temperature: float, top_k: int, keys: Keys
) -> tuple[Atoms, Tensor]:
    """The same, with the softmax on the clean token and the `top_k` largest other entries only.

    The kept weights are those of the full softmax but for the tail's fluctuation, and are not renormalised. The
    arg-max has exactly the law of the dense latent's: the clean token's entry is always kept and competes with the
    others', whose ids are drawn in uniform order.
    """
    if not 1 <= top_k < size:
        raise ValueError(
            f"top_k must lie between 1 and the number of other categories {size - 1}, got {top_k}"
        )
    signal, noise = (scale[:, None] for scale in signal_and_noise(gamma))
    own = signal + noise * keys.stream("own").normal(*x.shape[1:], dtype=torch.float64)
    others = noise.unsqueeze(-1) * largest_normals(
        size - 1, keys.stream("others").uniform(*x.shape[1:], top_k)
    )
    ids = torch.cat(
        [x.unsqueeze(-1), other_ids(x, size, keys.stream("ids").uniform(*x.shape[1:], top_k))], dim=-1
    )
    values = torch.cat([own.unsqueeze(-1), others], dim=-1)
    scaled = values / temperature
    tail = log_tail(scaled[..., -1], noise / temperature, size - 1 - top_k)
    log_total = torch.logsumexp(torch.cat([scaled, tail.unsqueeze(-1)], dim=-1), dim=-1, keepdim=True)
    z = ids.gather(-1, values.argmax(-1, keepdim=True)).squeeze(-1)
    return Atoms(ids, torch.exp(scaled - log_total)), z


def signal_and_noise(gamma: Tensor) -> tuple[Tensor, Tensor]:
    """a and s of the variance-preserving process: a^2 = sigmoid(-gamma), s^2 = sigmoid(gamma)."""
    gamma = gamma.double()
    return torch.sigmoid(-gamma).sqrt(), torch.sigmoid(gamma).sqrt()


def largest_normals(count: int, u: Tensor) -> Tensor:
    """The k largest of `count` standard normals in decreasing order, from k uniforms along the last axis.

    The largest of n uniforms is U^(1/n); the next is the largest of n - 1 below it. Near one the complement carries the
    digits.
    """
    left = count - torch.arange(u.shape[-1], dtype=torch.float64, device=u.device)
    log_level = torch.cumsum(torch.log(u.double()) / left, dim=-1)
    below, above = torch.exp(log_level), -torch.expm1(log_level)
    return torch.where(below < 0.5, torch.special.ndtri(below), -torch.special.ndtri(above))


def other_ids(x: Tensor, size: int, u: Tensor) -> Tensor:
    """Distinct ids other than `x`, as many as `u` is long, every ordered choice equally likely."""
    taken = x.unsqueeze(-1)
    for j in range(u.shape[-1]):
        # the r-th id not taken: walk past the taken ones in increasing order
        r = (u[..., j] * (size - 1 - j)).long().clamp(max=size - 2 - j)
        for passed in taken.sort(-1).values.unbind(-1):
            r = r + (r >= passed)
        taken = torch.cat([taken, r.unsqueeze(-1)], dim=-1)
    return taken[..., 1:]


def log_tail(cut: Tensor, scale: Tensor, count: int) -> Tensor:
    """log of `count` times E[exp(X) | X < cut] for X normal with standard deviation `scale`."""
    if count == 0:
        return torch.full_like(cut, -torch.inf)
    log_ndtr = torch.special.log_ndtr
    mean = 0.5 * scale**2 + log_ndtr(cut / scale - scale) - log_ndtr(cut / scale)
    return math.log(count) + mean
