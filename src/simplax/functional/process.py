"""Section 2 and proposition 1 of the paper: the corruption process and its reverse posteriors."""

from __future__ import annotations

from torch import Tensor

from simplax.functional._arguments import Scalar, Space, check_alpha, check_order, check_step, space


def marginal(x: Tensor, alpha_t: Scalar, pi: Tensor | None = None, *, validate: bool = True) -> Tensor:
    """p_t = alpha_t x + (1 - alpha_t) pi, the law of z_t given x (eq. 1)."""
    k = space(pi, x=x, validate=validate)
    check_alpha(k, alpha_t, validate=validate)
    return mix(k, k.distribution(x), alpha_t)


def forward_transition(
    z_s: Tensor, alpha_s: Scalar, alpha_t: Scalar, pi: Tensor | None = None, *, validate: bool = True
) -> Tensor:
    """The law of z_t given z_s: keep z_s + (1 - keep) pi with keep = alpha_t / alpha_s (eq. 2)."""
    k = space(pi, z_s=z_s, validate=validate)
    check_order(k, alpha_s, alpha_t, validate=validate)
    keep, fresh = transition(k, alpha_s, alpha_t)
    return keep * k.distribution(z_s) + fresh * k.pi


def reverse_posterior(
    x: Tensor,
    z_t: Tensor,
    alpha_s: Scalar,
    alpha_t: Scalar,
    pi: Tensor | None = None,
    *,
    validate: bool = True,
) -> Tensor:
    """r_{s|t}(x, z_t), the law of z_s given z_t and x (eqs. 3 and 4).

    A `z_t` that is not one-hot is read as in eq. 4, as uncertain evidence; to average the posterior over z_t use
    `lifted_posterior`.
    """
    k = space(pi, x=x, z_t=z_t, validate=validate)
    check_step(k, alpha_s, alpha_t, validate=validate)
    return reverse(k, k.distribution(x), k.distribution(z_t), alpha_s, alpha_t)


def lifted_posterior(
    x: Tensor,
    w_t: Tensor,
    alpha_s: Scalar,
    alpha_t: Scalar,
    pi: Tensor | None = None,
    *,
    validate: bool = True,
) -> Tensor:
    """rho_{s|t}(x, w_t), the law of z_s given the simplex state w_t and x (eqs. 10 and 11)."""
    k = space(pi, x=x, w_t=w_t, validate=validate)
    check_step(k, alpha_s, alpha_t, validate=validate)
    return lift(k, k.distribution(x), k.distribution(w_t), alpha_s, alpha_t)


def mix(k: Space, x: Tensor, alpha: Scalar) -> Tensor:
    a = k.exact(alpha)
    return a.to(k.dtype) * x + (1 - a).to(k.dtype) * k.pi


def transition(k: Space, alpha_s: Scalar, alpha_t: Scalar) -> tuple[Tensor, Tensor]:
    """alpha_{t|s} and 1 - alpha_{t|s}, the latter from the difference so that short steps keep their digits."""
    early, late = k.exact(alpha_s), k.exact(alpha_t)
    return (late / early).to(k.dtype), ((early - late) / early).to(k.dtype)


def reverse(k: Space, x: Tensor, z: Tensor, alpha_s: Scalar, alpha_t: Scalar) -> Tensor:
    keep, fresh = transition(k, alpha_s, alpha_t)
    reach = keep * z + fresh * (z * k.pi).sum(-1, keepdim=True)
    return reach * mix(k, x, alpha_s) / (z * mix(k, x, alpha_t)).sum(-1, keepdim=True)


def lift(k: Space, x: Tensor, w: Tensor, alpha_s: Scalar, alpha_t: Scalar) -> Tensor:
    keep, fresh = transition(k, alpha_s, alpha_t)
    weight = w / mix(k, x, alpha_t)
    return mix(k, x, alpha_s) * (keep * weight + fresh * (weight * k.pi).sum(-1, keepdim=True))
