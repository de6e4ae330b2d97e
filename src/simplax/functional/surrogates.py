"""Appendix E of the paper: the family of surrogate objectives around the relaxed bridge."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from simplax.functional._arguments import (
    Scalar,
    Space,
    check_eta,
    check_simplex_step,
    check_step,
    check_time,
    checking,
    space,
)
from simplax.functional._stable import expm1_minus, inner, kl, safe_log
from simplax.functional.distributions import DirichletMixture
from simplax.functional.objectives import log_ratio, relaxed_bridge
from simplax.functional.process import lift, mix


def tight_discrete(
    x: Tensor,
    x_hat: Tensor,
    w_t: Tensor,
    alpha_s: Scalar,
    alpha_t: Scalar,
    pi: Tensor | None = None,
    *,
    validate: bool = True,
) -> Tensor:
    """KL(q(z_s | w_t, x) || q(z_s | w_t, x_hat)): match the lifted posterior directly (eq. 69).

    Second order in the step for w_t strictly inside the simplex; at a vertex it equals the relaxed bridge.
    """
    k = space(pi, x=x, x_hat=x_hat, w_t=w_t, validate=validate)
    check_step(k, alpha_s, alpha_t, validate=validate)
    w = k.distribution(w_t)
    rho = lift(k, k.distribution(x), w, alpha_s, alpha_t)
    rho_hat = lift(k, k.distribution(x_hat), w, alpha_s, alpha_t)
    return kl(rho, rho_hat, safe_log(rho_hat) - safe_log(rho))


def dirichlet_kl(concentration: Tensor, concentration_hat: Tensor, *, validate: bool = True) -> Tensor:
    """KL(Dir(concentration) || Dir(concentration_hat)) by lgamma and digamma; the totals may differ (eq. 110).

    Computed in float64, as large terms cancel, and returned in float32 at least.
    """
    for name, value in (("concentration", concentration), ("concentration_hat", concentration_hat)):
        _check_concentration(name, value, validate)
    dtype = torch.promote_types(
        torch.promote_types(concentration.dtype, concentration_hat.dtype), torch.float32
    )
    a, b = concentration.double(), concentration_hat.double()
    normalisers = (
        torch.lgamma(a.sum(-1)) - torch.lgamma(b.sum(-1)) + (torch.lgamma(b) - torch.lgamma(a)).sum(-1)
    )
    moments = torch.digamma(a) - torch.digamma(a.sum(-1, keepdim=True))
    return (normalisers + ((a - b) * moments).sum(-1)).to(dtype)


def shifted_log_moments(concentration: Tensor, *, validate: bool = True) -> Tensor:
    """E[log w_j] under Dir(concentration + e_k) as a matrix with rows k and columns j (eq. 102)."""
    _check_concentration("concentration", concentration, validate)
    a = concentration.to(torch.promote_types(concentration.dtype, torch.float32))
    shifted = a.unsqueeze(-2) + torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    return torch.digamma(shifted) - torch.digamma(a.sum(-1) + 1)[..., None, None]


def _check_concentration(name: str, value: Tensor, validate: bool) -> None:
    if checking(validate) and not bool(((value > 0) & (value < torch.inf)).all()):
        raise ValueError(f"{name} must be positive and finite")


def simplex_matching(
    x: Tensor,
    x_hat: Tensor,
    w_t: Tensor,
    alpha_s: Scalar,
    alpha_t: Scalar,
    eta_s: Scalar,
    pi: Tensor | None = None,
    *,
    validate: bool = True,
) -> Tensor:
    """E over z_s given w_t of KL(q(w_s | z_s, x) || q(w_s | z_s, x_hat)), in closed form (eqs. 75 and 103)."""
    k = space(pi, x=x, x_hat=x_hat, w_t=w_t, validate=validate)
    check_simplex_step(k, alpha_s, alpha_t, eta_s, validate=validate)
    x, x_hat, w = k.distribution(x), k.distribution(x_hat), k.distribution(w_t)
    rho = lift(k, x, w, alpha_s, alpha_t)
    return _matching(k, x, x_hat, rho, alpha_s, eta_s)


def tight_joint(
    x: Tensor,
    x_hat: Tensor,
    w_t: Tensor,
    alpha_s: Scalar,
    alpha_t: Scalar,
    eta_s: Scalar,
    pi: Tensor | None = None,
    *,
    validate: bool = True,
) -> Tensor:
    """KL between the joint bridges of (z_s, w_s) given w_t (eqs. 71 and 73)."""
    matching = simplex_matching(x, x_hat, w_t, alpha_s, alpha_t, eta_s, pi, validate=validate)
    return tight_discrete(x, x_hat, w_t, alpha_s, alpha_t, pi, validate=False) + matching


def loose_joint(
    x: Tensor,
    x_hat: Tensor,
    w_t: Tensor,
    alpha_s: Scalar,
    alpha_t: Scalar,
    eta_s: Scalar,
    pi: Tensor | None = None,
    *,
    validate: bool = True,
) -> Tensor:
    """The joint bridge of (z_s, w_s) averaged over decodes of w_t (eqs. 72 and 74)."""
    matching = simplex_matching(x, x_hat, w_t, alpha_s, alpha_t, eta_s, pi, validate=validate)
    return relaxed_bridge(x, x_hat, w_t, alpha_s, alpha_t, pi, validate=False) + matching


def simplex_limit(
    x: Tensor,
    x_hat: Tensor,
    w_t: Tensor,
    alpha_t: Scalar,
    eta_t: Scalar,
    pi: Tensor | None = None,
    *,
    validate: bool = True,
) -> Tensor:
    """S_t, the value the simplex-matching term keeps as the step goes to zero (eq. 115)."""
    k = space(pi, x=x, x_hat=x_hat, w_t=w_t, validate=validate)
    check_time(k, alpha_t, validate=validate)
    check_eta(k, eta_t, validate=validate)
    return _matching(k, k.distribution(x), k.distribution(x_hat), k.distribution(w_t), alpha_t, eta_t)


def _matching(k: Space, x: Tensor, x_hat: Tensor, law: Tensor, alpha: Scalar, eta: Scalar) -> Tensor:
    """KL(Dir(eta p) || Dir(eta p_hat)) - <law, phi(log p_hat - log p)> with phi(y) = exp(y) - 1 - y."""
    concentration = k.scalar(eta) * mix(k, x, alpha)
    concentration_hat = k.scalar(eta) * mix(k, x_hat, alpha)
    unshifted = dirichlet_kl(concentration, concentration_hat, validate=False)
    return unshifted - inner(law, expm1_minus(log_ratio(k, x, x_hat, alpha)))


@dataclass(frozen=True)
class Estimate:
    """A Monte-Carlo mean and its standard error."""

    value: Tensor
    standard_error: Tensor


def estimate_simplex_kl(
    x: Tensor,
    x_hat: Tensor,
    w_t: Tensor,
    alpha_s: Scalar,
    alpha_t: Scalar,
    eta_s: Scalar,
    pi: Tensor | None = None,
    *,
    decoded: bool = False,
    num_samples: int = 1024,
    generator: torch.Generator | None = None,
    validate: bool = True,
) -> Estimate:
    """Monte-Carlo estimate of the simplex bridge KL, which has no closed form.

    Directly KL(q(w_s | w_t, x) || q(w_s | w_t, x_hat)) (eqs. 13 and 68); with `decoded` the same given a decode of
    w_t, averaged over decodes (eq. 87).
    """
    k = space(pi, x=x, x_hat=x_hat, w_t=w_t, validate=validate)
    check_simplex_step(k, alpha_s, alpha_t, eta_s, validate=validate)
    if num_samples < 2:
        raise ValueError("num_samples must be at least 2: one draw has no standard error")
    x, x_hat, w = k.distribution(x), k.distribution(x_hat), k.distribution(w_t)
    p, p_hat = mix(k, x, alpha_s), mix(k, x_hat, alpha_s)
    shape = (num_samples, *torch.broadcast_shapes(p.shape, p_hat.shape, w.shape))
    state = _decodes(w.expand(shape), generator) if decoded else w
    law, law_hat = (lift(k, clean, state, alpha_s, alpha_t) for clean in (x, x_hat))
    concentration = k.scalar(eta_s)
    target = DirichletMixture(law.expand(shape), concentration * p)
    model = DirichletMixture(law_hat.expand(shape), concentration * p_hat)
    with torch.no_grad():
        log_w = target.log_sample(generator)
    log_density_ratio = target.log_density(log_w) - model.log_density(log_w)
    mean, deviation = log_density_ratio.mean(0), log_density_ratio.std(0)
    return Estimate(mean.to(k.dtype), (deviation / num_samples**0.5).to(k.dtype))


def _decodes(w: Tensor, generator: torch.Generator | None) -> Tensor:
    """One-hot draws, one from every row of w."""
    rows = w.double().reshape(w.shape[:-1].numel(), w.shape[-1])
    z = torch.multinomial(rows, 1, replacement=True, generator=generator).reshape(w.shape[:-1])
    return torch.nn.functional.one_hot(z, w.shape[-1]).to(w.dtype)
