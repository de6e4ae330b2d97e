"""The law of the arg-max of a Gaussian diffusion: uniform-state diffusion in disguise (Sahoo et al. 2025, Duo).

A clean one-hot row e_x becomes w = a e_x + s eps with a^2 = sigmoid(-gamma), s^2 = sigmoid(gamma). Its arg-max is x
with probability P(gamma) and any other id with the rest shared evenly, so it follows the uniform process at
alpha(gamma) = (K P - 1) / (K - 1), where P = int phi(u - mu) Phi(u)^(K - 1) du and mu = a / s = exp(-gamma / 2).
"""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor

REACH = 12.0
"""phi(12) is 2e-32: nothing is lost by cutting the integral there."""

STEP = 0.05
"""At K = 50,000 the integrand is tame in a strip of half-width 0.36, so the trapezoid errs by e^(-2 pi 0.36 / 0.05)."""

PUBLISHED_VOCABULARY = 50257
PUBLISHED_RANGE = (-3.55, -1.85)


def duo_alpha(gamma: Tensor | float, vocab_size: int) -> Tensor:
    """alpha(gamma), the uniform-state signal of a Gaussian latent at negative log signal-to-noise ratio `gamma`.

    Float64, of the shape of `gamma`, accurate to about 1e-14; Phi^(K-1) is formed in log space.
    """
    gaussian, _, _ = _integrand(gamma, vocab_size)
    chance = STEP * gaussian.sum(-1)
    return (vocab_size * chance - 1) / (vocab_size - 1)


def duo_alpha_derivative(gamma: Tensor | float, vocab_size: int) -> Tensor:
    """d alpha / d gamma, negative, by the same quadrature."""
    gaussian, offset, mu = _integrand(gamma, vocab_size)
    slope = STEP * (-0.5 * mu * offset * gaussian).sum(-1)
    return vocab_size / (vocab_size - 1) * slope


@functools.lru_cache(maxsize=64)
def duo_gamma_range(vocab_size: int) -> tuple[float, float]:
    """(gamma_min, gamma_max) between which alpha spans what the published range spans at K = 50,257, [0.049, 0.945].

    The published numbers themselves would leave a small vocabulary almost without noise: at K = 12 alpha never falls
    below 0.77.
    """
    if vocab_size == PUBLISHED_VOCABULARY:
        return PUBLISHED_RANGE
    least, most = (_gamma_of(float(duo_alpha(g, PUBLISHED_VOCABULARY)), vocab_size) for g in PUBLISHED_RANGE)
    return least, most


def _gamma_of(alpha: float, vocab_size: int) -> float:
    """Bisection: alpha falls strictly in gamma."""
    low, high = -20.0, 20.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if float(duo_alpha(middle, vocab_size)) > alpha else (low, middle)
    return 0.5 * (low + high)


def _integrand(gamma: Tensor | float, vocab_size: int) -> tuple[Tensor, Tensor, Tensor]:
    """phi(u - mu) Phi(u)^(K - 1) on nodes u = mu + offset along a new last axis; the offsets; mu."""
    if vocab_size < 2:
        raise ValueError(f"the arg-max law needs at least two categories, got vocab_size = {vocab_size}")
    gamma = torch.as_tensor(gamma, dtype=torch.float64)
    mu = torch.exp(-0.5 * gamma).unsqueeze(-1)
    half = round(REACH / STEP)
    offset = STEP * torch.arange(-half, half + 1, dtype=torch.float64, device=gamma.device)
    log_density = -0.5 * offset**2 - 0.5 * math.log(2 * math.pi)
    log_below = (vocab_size - 1) * torch.special.log_ndtr(mu + offset)
    return torch.exp(log_density + log_below), offset, mu
