"""The paper's quantities from their definitions: enumeration over categories, with no formula of the package.

Everything takes a clean *distribution* so that the same function serves x and x_hat; all float64, one position.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import Dirichlet, kl_divergence


def joint(clean: Tensor, alpha_s: float, alpha_t: float, pi: Tensor) -> Tensor:
    """q(z_s = i, z_t = j | clean) as a matrix, by walking from z_s to z_t."""
    size = pi.shape[-1]
    keep = alpha_t / alpha_s
    table = torch.zeros(size, size, dtype=torch.float64)
    for i in range(size):
        start = alpha_s * clean[i] + (1 - alpha_s) * pi[i]
        for j in range(size):
            table[i, j] = start * (keep * (i == j) + (1 - keep) * pi[j])
    return table


def posterior(clean: Tensor, j: int, alpha_s: float, alpha_t: float, pi: Tensor) -> Tensor:
    """q(z_s | z_t = j, clean) by Bayes' rule on the joint."""
    column = joint(clean, alpha_s, alpha_t, pi)[:, j]
    return column / column.sum()


def lifted(clean: Tensor, w: Tensor, alpha_s: float, alpha_t: float, pi: Tensor) -> Tensor:
    """q(z_s | w_t, clean): the posterior averaged over decodes of w_t."""
    return sum(w[j] * posterior(clean, j, alpha_s, alpha_t, pi) for j in range(len(w)))  # type: ignore[return-value]


def kl(p: Tensor, q: Tensor) -> Tensor:
    total = torch.zeros((), dtype=torch.float64)
    for a, b in zip(p.tolist(), q.tolist()):
        if a > 0:
            total += a * (math.log(a) - math.log(b)) if b > 0 else math.inf
    return total


def bridge_kl(clean: Tensor, hat: Tensor, j: int, alpha_s: float, alpha_t: float, pi: Tensor) -> Tensor:
    return kl(posterior(clean, j, alpha_s, alpha_t, pi), posterior(hat, j, alpha_s, alpha_t, pi))


def relaxed_bridge(
    clean: Tensor, hat: Tensor, w: Tensor, alpha_s: float, alpha_t: float, pi: Tensor
) -> Tensor:
    terms = [w[j] * bridge_kl(clean, hat, j, alpha_s, alpha_t, pi) for j in range(len(w)) if w[j] > 0]
    return torch.stack(terms).sum()


def jump_rates(clean: Tensor, alpha_t: float, rate: float, pi: Tensor) -> Tensor:
    """Rates of the time-reversed jump process from j to k, rows j: forward rate from k to j times p_k / p_j."""
    size = pi.shape[-1]
    p = alpha_t * clean + (1 - alpha_t) * pi
    table = torch.zeros(size, size, dtype=torch.float64)
    for j in range(size):
        for k in range(size):
            if j != k:
                table[j, k] = rate * pi[j] * p[k] / p[j]
    return table


def jump_divergence(a: Tensor, b: Tensor) -> Tensor:
    """The rate of KL divergence between two jump processes leaving each state: sum over targets."""
    size = a.shape[0]
    rows = torch.zeros(size, dtype=torch.float64)
    for j in range(size):
        for k in range(size):
            if j != k:
                rows[j] += a[j, k] * (torch.log(a[j, k]) - torch.log(b[j, k])) - a[j, k] + b[j, k]
    return rows


def marginal_at(clean: Tensor, alpha: float, pi: Tensor) -> Tensor:
    return alpha * clean + (1 - alpha) * pi


def shifted_kls(clean: Tensor, hat: Tensor, alpha: float, eta: float, pi: Tensor) -> Tensor:
    """KL(Dir(eta p + e_k) || Dir(eta p_hat + e_k)) for every k."""
    eye = torch.eye(pi.shape[-1], dtype=torch.float64)
    p, p_hat = marginal_at(clean, alpha, pi), marginal_at(hat, alpha, pi)
    return kl_divergence(Dirichlet(eta * p + eye), Dirichlet(eta * p_hat + eye))


def shifted_density(clean: Tensor, w: Tensor, alpha: float, eta: float, pi: Tensor) -> Tensor:
    """Dir(w; eta p + e_k) for every k."""
    eye = torch.eye(pi.shape[-1], dtype=torch.float64)
    return Dirichlet(eta * marginal_at(clean, alpha, pi) + eye).log_prob(w).exp()
