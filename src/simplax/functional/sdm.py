"""Simplex Diffusion Models (arXiv 2609.35553): a state that is a point of the simplex, and steps that keep part of it.

Given the clean token x the state at time t has the law Dir(beta_t(x)), beta_t(x) = c_t (alpha_t x + (1 - alpha_t) pi):
that of Simplax's w_t with c_t for eta_t. A reverse step with churn kappa keeps that law for every kappa.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from simplax.functional._arguments import Scalar, check_alpha, check_eta, check_order, checking, space


@dataclass(frozen=True)
class ChurnStep:
    """Parameters of a step P_s = W T + (1 - W) V, float64.

    `rho` is the share of the old state's concentration that survives. The thinned state has T_i in proportion to
    B_i P_i with B_i ~ Beta(rho `old_i`, (1 - rho) `old_i`), the fresh one is V ~ Dir(`fresh`), where zeros mean a face
    of the simplex, and W ~ Beta(`kept`, `added`).
    """

    rho: Tensor
    old: Tensor
    fresh: Tensor
    kept: Tensor
    added: Tensor


def churn_step(
    x: Tensor,
    alpha_s: Scalar,
    alpha_t: Scalar,
    c_s: Scalar,
    c_t: Scalar,
    kappa: Scalar,
    pi: Tensor | None = None,
    *,
    validate: bool = True,
) -> ChurnStep:
    """One reverse step towards the clean token x: rho = (1 - kappa) min(1, b_s / b_t) with b = c (1 - alpha).

    kappa = 1 forgets the old state, P_s ~ Dir(beta_s(x)); kappa = 0 keeps as much of it as the law allows.
    """
    k = space(pi, x=x, validate=validate)
    check_order(k, alpha_s, alpha_t, validate=validate)
    check_eta(k, c_s, validate=validate)
    check_eta(k, c_t, validate=validate)
    churn, early, late = k.exact(kappa), k.exact(c_s), k.exact(c_t)
    if checking(validate) and not bool(((churn >= 0) & (churn <= 1)).all()):
        raise ValueError("the churn kappa must lie in [0, 1]: it is the share of the state that is forgotten")
    clean = k.distribution(x).double()
    noise_s, noise_t = early * (1 - k.exact(alpha_s)), late * (1 - k.exact(alpha_t))
    rho = (1 - churn) * torch.where(noise_s < noise_t, noise_s / noise_t, 1.0)
    beta_s = early * k.exact(alpha_s) * clean + noise_s * k.pi.double()
    beta_t = late * k.exact(alpha_t) * clean + noise_t * k.pi.double()
    fresh = (beta_s - rho * beta_t).clamp(min=0.0)
    # a difference of equals is zero, and what rounding leaves of it is not a concentration
    fresh = torch.where(fresh > _ROUNDING * beta_s, fresh, 0.0)
    kept = rho * late
    return ChurnStep(rho, beta_t, fresh, kept.squeeze(-1), (early - kept).squeeze(-1))


_ROUNDING = 1e-12


def simplex_posterior(
    x_hat: Tensor,
    log_w: Tensor,
    alpha_t: Scalar,
    c_t: Scalar,
    pi: Tensor | None = None,
    *,
    validate: bool = True,
) -> Tensor:
    """p(x_i | P) out of the leave-one-out prediction `x_hat` and the position's own state, given by its logarithm.

    In proportion to x_hat_k P_k^(c alpha) Gamma(c (1 - alpha) pi_k) / Gamma(c alpha + c (1 - alpha) pi_k); the gamma
    functions cancel for the uniform pi. Cross-entropy at P has this posterior as its minimum, not x_hat.
    """
    k = space(pi, x_hat=x_hat, validate=validate)
    check_alpha(k, alpha_t, validate=validate)
    check_eta(k, c_t, validate=validate)
    signal, noise = k.exact(c_t) * k.exact(alpha_t), k.exact(c_t) * (1 - k.exact(alpha_t)) * k.pi.double()
    scale = torch.lgamma(noise) - torch.lgamma(signal + noise)
    evidence = torch.where(signal > 0, signal * log_w.double(), 0.0) + scale
    return torch.softmax(k.distribution(x_hat).double().log() + evidence, dim=-1)
