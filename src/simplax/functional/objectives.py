"""Section 3.2 of the paper: the reverse-bridge objectives, finite-step and in continuous time."""

from __future__ import annotations

from torch import Tensor

from simplax.functional._arguments import Scalar, Space, check_rate, check_step, check_time, space
from simplax.functional._stable import divergence, expm1_minus, inner, kl, log_over_prior, scale
from simplax.functional.process import mix, reverse, transition


def discrete_bridge_kl(
    x: Tensor,
    x_hat: Tensor,
    z_t: Tensor,
    alpha_s: Scalar,
    alpha_t: Scalar,
    pi: Tensor | None = None,
    *,
    validate: bool = True,
) -> Tensor:
    """KL(q(z_s | z_t, x) || q(z_s | z_t, x_hat)), the standard discrete reverse bridge (eq. 5)."""
    k = space(pi, x=x, x_hat=x_hat, z_t=z_t, validate=validate)
    check_step(k, alpha_s, alpha_t, validate=validate)
    x, x_hat, z = k.distribution(x), k.distribution(x_hat), k.distribution(z_t)
    r = reverse(k, x, z, alpha_s, alpha_t)
    r_hat = reverse(k, x_hat, z, alpha_s, alpha_t)
    # r_hat / r = (p_hat_s / p_s) * <z, p_t> / <z, p_hat_t>, both factors known without cancellation
    at_s = log_ratio(k, x, x_hat, alpha_s)
    anchor = inner(z, mix(k, x, alpha_t)).log() - inner(z, mix(k, x_hat, alpha_t)).log()
    return kl(r, r_hat, at_s + anchor.unsqueeze(-1))


def relaxed_bridge(
    x: Tensor,
    x_hat: Tensor,
    w_t: Tensor,
    alpha_s: Scalar,
    alpha_t: Scalar,
    pi: Tensor | None = None,
    *,
    validate: bool = True,
) -> Tensor:
    """The paper's objective in closed form: the discrete bridge KL averaged over decodes of w_t (eqs. 14 and 15).

    The two inner products of eq. 15 nearly cancel over a short step. With delta = log p_hat - log p at each time,
    keep = alpha_{t|s} and phi(y) = exp(y) - 1 - y the same value is a sum of non-negative terms, of which only the
    second is of first order in the step, with the density of eq. 17 as its coefficient:

        keep <w p_s / p_t, phi(delta_s - delta_t)>
        + (1 - keep) (<w pi / p_t, phi(-delta_t)> + <w, pi / p_t> KL(p_s || p_hat_s))
    """
    k = space(pi, x=x, x_hat=x_hat, w_t=w_t, validate=validate)
    check_step(k, alpha_s, alpha_t, validate=validate)
    x, x_hat, w = k.distribution(x), k.distribution(x_hat), k.distribution(w_t)
    at_s, at_t = log_ratio(k, x, x_hat, alpha_s), log_ratio(k, x, x_hat, alpha_t)
    p_s, p_hat_s = mix(k, x, alpha_s), mix(k, x_hat, alpha_s)
    p_t, p_hat_t = mix(k, x, alpha_t), mix(k, x_hat, alpha_t)
    keep, fresh = transition(k, alpha_s, alpha_t)
    stay = divergence(keep * w * p_s / p_t, keep * w * p_hat_s / p_hat_t, at_s - at_t).sum(-1)
    leave = fresh * w * k.pi / p_t
    return stay + inner(leave, expm1_minus(-at_t)) + leave.sum(-1) * kl(p_s, p_hat_s, at_s)


def relaxed_bridge_rate(
    x: Tensor,
    x_hat: Tensor,
    w_t: Tensor,
    alpha_t: Scalar,
    rate: Scalar,
    pi: Tensor | None = None,
    restore_constants: bool = True,
    *,
    validate: bool = True,
) -> Tensor:
    """l_ct, the continuous-time density of the relaxed bridge (eqs. 16 and 17); `rate` is lambda(t).

    With `restore_constants` the terms that do not depend on x_hat, which the paper drops, are kept: the value is
    then the w-average of UDLM densities, zero at x_hat = x and never negative. It is computed as two non-negative
    terms,

        lambda <w pi / p, phi(-delta)> + lambda <w, pi / p> KL(p || p_hat),

    with delta = log p_hat - log p and phi(y) = exp(y) - 1 - y, which keeps its digits in float32 near t = 1; at
    alpha_t = 0 it is zero, also for an infinite `rate`. Without it the value is the paper's literal expression,
    which may be negative and diverges with lambda.
    """
    k = space(pi, x=x, x_hat=x_hat, w_t=w_t, validate=validate)
    check_time(k, alpha_t, validate=validate)
    check_rate(k, rate, validate=validate)
    x, x_hat, w = k.distribution(x), k.distribution(x_hat), k.distribution(w_t)
    if restore_constants:
        return _restored_rate(k, x, x_hat, w, alpha_t, rate)
    p, p_hat = mix(k, x, alpha_t), mix(k, x_hat, alpha_t)
    leave, log_p_hat = w * k.pi / p, p_hat.log()
    flow = inner(leave, log_p_hat) - leave.sum(-1) * inner(p, log_p_hat)
    return k.scalar(rate).squeeze(-1) * (inner(w, k.pi / p_hat) + flow)


def uniform_rate(
    x: Tensor,
    x_hat: Tensor,
    z_t: Tensor,
    alpha_t: Scalar,
    rate: Scalar,
    pi: Tensor | None = None,
    *,
    validate: bool = True,
) -> Tensor:
    """The continuous-time UDLM density: the relaxed bridge's at the vertex w_t = z_t."""
    k = space(pi, x=x, x_hat=x_hat, z_t=z_t, validate=validate)
    check_time(k, alpha_t, validate=validate)
    check_rate(k, rate, validate=validate)
    x, x_hat, z = k.distribution(x), k.distribution(x_hat), k.distribution(z_t)
    return _restored_rate(k, x, x_hat, z, alpha_t, rate)


def _restored_rate(k: Space, x: Tensor, x_hat: Tensor, w: Tensor, alpha_t: Scalar, rate: Scalar) -> Tensor:
    p, p_hat, delta = mix(k, x, alpha_t), mix(k, x_hat, alpha_t), log_ratio(k, x, x_hat, alpha_t)
    leave = w * k.pi / p
    value = inner(leave, expm1_minus(-delta)) + leave.sum(-1) * kl(p, p_hat, delta)
    return scale(k.scalar(rate).squeeze(-1), value)


def log_ratio(k: Space, x: Tensor, x_hat: Tensor, alpha: Scalar) -> Tensor:
    """delta = log p_hat - log p at the time of alpha, category by category."""
    a, rest = k.scalar(alpha), (1 - k.exact(alpha)).to(k.dtype)
    return log_over_prior(x_hat, a, k.pi, rest) - log_over_prior(x, a, k.pi, rest)
