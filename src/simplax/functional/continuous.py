"""Noise schedules and geometry of the methods whose state is a vector: CANDI, FLM, LangFlow, S-FLM.

Schedules are functions of quantities that have no direction in time (a decoding accuracy, alpha, a quantile), so the
reversed time of the flow papers appears nowhere. Everything is computed in float64.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from simplax.functional._splines import pchip, pchip_slopes, smooth

FLM_KNOTS = 10_000
FLM_NODES = 100
"""A hundred Gauss-Hermite nodes, as published: 7e-5 off in accuracy at K = 50,000, where exact quadrature is costly."""

CANDI_KNOTS = 1000
CANDI_SIGMAS = (0.2, 4.0)

SPHERE_MARGIN = 1e-6
"""Cosines stay this far from one and sines this far from zero."""

LANGFLOW_TAIL = 1e-5


def _double(value: Tensor | float) -> Tensor:
    return torch.as_tensor(value, dtype=torch.float64)


def flm_gamma(accuracy: Tensor | float, vocab_size: int) -> Tensor:
    """FLM's clock: the gamma at which the largest entry of (1 - gamma) xi + gamma e_x is x as often as `accuracy` says.

    `accuracy` is rescaled so that 0 is chance and 1 is certainty; it is FLM's own time and one minus ours. Inverts
    V / (V - 1) (E[Phi(u + gamma / (1 - gamma))^(V - 1)] - 1 / V), u standard normal, by monotone interpolation.
    """
    return flm_interpolate(_double(accuracy), flm_knots(vocab_size))


def flm_interpolate(accuracy: Tensor, knots: Tensor, slopes: Tensor | None = None) -> Tensor:
    """gamma at `accuracy` given the accuracies at even knots of gamma; exactly 0 at chance and 1 at certainty."""
    accuracy, gamma = accuracy.double(), _even_gamma(knots)
    inside = pchip(knots, gamma, accuracy, slopes).clamp(0, 1)
    return torch.where(accuracy <= 0, 0.0, torch.where(accuracy >= 1, 1.0, inside))


def _even_gamma(knots: Tensor) -> Tensor:
    return torch.linspace(0, 1, len(knots), dtype=torch.float64, device=knots.device)


def flm_slopes(knots: Tensor) -> Tensor:
    """What `flm_interpolate` would work out at every call."""
    return pchip_slopes(knots, _even_gamma(knots))


@functools.lru_cache(maxsize=16)
def flm_knots(vocab_size: int) -> Tensor:
    """Accuracies at `FLM_KNOTS` even values of gamma, made strictly increasing by a slope of 1e-10 as published."""
    if vocab_size < 2:
        raise ValueError(f"decoding needs at least two categories, got vocab_size = {vocab_size}")
    nodes, weights = (torch.from_numpy(part) for part in np.polynomial.hermite.hermgauss(FLM_NODES))
    gamma = torch.linspace(0, 1, FLM_KNOTS, dtype=torch.float64)
    shift = gamma / (1 - gamma).clamp(min=1e-12)
    log_below = (vocab_size - 1) * torch.special.log_ndtr(math.sqrt(2) * nodes + shift.unsqueeze(-1))
    chance = (log_below.exp() * weights).sum(-1) / math.sqrt(math.pi)
    return (vocab_size * chance - 1) / (vocab_size - 1) + (gamma - 1) * 1e-10


def candi_sigma(
    alpha_t: Tensor | float, vocab_size: int, ranks: tuple[float, float] = (0.01, 0.25)
) -> Tensor:
    """CANDI's Gaussian noise at the level where tokens survive with chance `alpha_t`.

    The expected share of wrong coordinates of e_x + sigma xi that exceed the right one goes linearly from the first of
    `ranks` at alpha = 1 to the second at alpha = 0. `vocab_size` counts the data's categories, without the mask.
    """
    return candi_interpolate(_double(alpha_t), candi_ranks(vocab_size), ranks)


@functools.lru_cache(maxsize=16)
def candi_ranks(vocab_size: int) -> Tensor:
    """Expected ranks (K - 1) / K Phi(-1 / (sigma sqrt 2)) at `CANDI_KNOTS` even values of sigma."""
    sigma = torch.linspace(*CANDI_SIGMAS, CANDI_KNOTS, dtype=torch.float64)
    return (vocab_size - 1) / vocab_size * torch.special.ndtr(-1 / (sigma * math.sqrt(2)))


def candi_interpolate(alpha_t: Tensor, table: Tensor, ranks: tuple[float, float]) -> Tensor:
    """sigma by linear interpolation in a table of ranks, and by extrapolation beyond it, as published."""
    low, high = ranks
    rank = (1 - alpha_t.double()) * (high - low) + low
    sigma = torch.linspace(*CANDI_SIGMAS, len(table), dtype=torch.float64, device=table.device)
    k = torch.searchsorted(table, rank.contiguous(), right=True).clamp(1, len(table) - 1)
    share = (rank - table[k - 1]) / (table[k] - table[k - 1] + 1e-8)
    return sigma[k - 1] + share * (sigma[k] - sigma[k - 1])


def langflow_gamma(
    quantile: Tensor | float, loc: Tensor | float = 4.723, scale: Tensor | float = 0.852
) -> Tensor:
    """LangFlow's gamma (log noise-to-signal ratio) at a quantile of its Gumbel law; the defaults are the released ones.

    Kept between the quantile 1e-5 and the small-tail approximation of the quantile 1 - 1e-5, as published. The quantile
    is the time: 0 is clean.
    """
    q, loc, scale = _double(quantile), _double(loc), _double(scale)
    gamma = loc - scale * torch.log(-torch.log(q))
    low = loc - scale * math.log(-math.log(LANGFLOW_TAIL))
    high = loc - scale * math.log(LANGFLOW_TAIL)
    return torch.minimum(torch.maximum(gamma, low), high)


def langflow_skip(gamma: Tensor | float) -> Tensor:
    """alpha / sigma^2: what multiplies <z, e_v> in the exact log-likelihood of z = alpha e_v + sigma eps over v."""
    gamma = _double(gamma)
    return torch.exp(0.5 * (torch.nn.functional.softplus(-gamma) - gamma))


def slerp(clean: Tensor, noise: Tensor, fraction: Tensor | float) -> Tensor:
    """The point that has gone `fraction` of the great arc from `clean` to `noise`, unit vectors (..., d).

    `fraction` is a float or broadcasts against the leading shape.
    """
    clean, noise = clean.double(), noise.double()
    fraction = torch.as_tensor(fraction, dtype=torch.float64, device=clean.device).unsqueeze(-1)
    angle = _angle((clean * noise).sum(-1, keepdim=True))
    sine = angle.sin().clamp(min=SPHERE_MARGIN)
    return ((1 - fraction) * angle).sin() / sine * clean + (fraction * angle).sin() / sine * noise


def sphere_velocity(z: Tensor, rows: Tensor, probs: Tensor) -> Tensor:
    """sum_k p_k Log_z(e_k): the mean tangent vector from z (..., d) to the unit rows e (K, d) under p (..., K).

    The logarithms are never formed one by one; the largest tensors have K entries per position.
    """
    z, rows, probs = z.double(), rows.double(), probs.double()
    angle = _angle(z @ rows.T)
    stretched = probs * angle / angle.sin().clamp(min=SPHERE_MARGIN)
    return stretched @ rows - z * (stretched * angle.cos()).sum(-1, keepdim=True)


def sphere_exp(z: Tensor, velocity: Tensor) -> Tensor:
    """The point reached from z (..., d) by following the tangent vector for unit time along its great circle."""
    z, velocity = z.double(), velocity.double()
    norm = velocity.norm(dim=-1, keepdim=True)
    return norm.cos() * z + norm.sin() * velocity / norm.clamp(min=SPHERE_MARGIN)


def _angle(cosine: Tensor) -> Tensor:
    return torch.acos(cosine.clamp(SPHERE_MARGIN - 1, 1 - SPHERE_MARGIN))


def truncation_alpha(vocab_size: int, width: int, delta: float = 0.1) -> float:
    """S-FLM's alpha*: (2 / pi) arcsin sqrt(2 ln(2 (V - 1) / delta) / d), past which a token is decoded but with chance
    `delta`. One, which truncates nothing, where the sphere has too few dimensions for it.
    """
    return 2 / math.pi * math.asin(math.sqrt(min(1.0, 2 * math.log(2 * (vocab_size - 1) / delta) / width)))


def refit_schedule(
    t: Tensor, loss: Tensor, base: Callable[[Tensor], Tensor], *, grid: int = 1000, knots: int = 20
) -> Tensor:
    """S-FLM's adaptive schedule: alpha on an even grid of [0, 1] under which the loss grows about evenly in time.

    `t` and `loss` (n,) are observations, `base` the schedule that the new one composes with. Times are kept in [0, 1]:
    published code lets the first one fall below, and alpha with it above its bound.
    """
    return base(warped_times(t, loss, grid, knots).clamp(0, 1))


def warped_times(t: Tensor, loss: Tensor, grid: int, knots: int, mix: float = 1e-3) -> Tensor:
    """The inverse of the normalised increase of a smooth fit of loss on t, at `grid` even points; may start below 0."""
    even = torch.linspace(0, 1, grid, dtype=torch.float64, device=t.device)
    fit = smooth(t.double(), loss.double(), even, knots)
    (slope,) = torch.gradient(fit, spacing=(even,))
    importance = (1 - mix) * slope.clamp(min=0) + mix
    cumulative = importance.cumsum(0)
    return pchip(cumulative / cumulative[-1], even, even)
