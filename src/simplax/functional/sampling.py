"""What samplers do to a prediction, on plain tensors: the psi family of reverse steps, and nucleus truncation."""

from __future__ import annotations

import torch
from torch import Tensor

from simplax.functional._arguments import Scalar, Space, check_distribution, checking, space
from simplax.functional.process import mix, reverse


def psi_posterior(
    x_hat: Tensor,
    z_t: Tensor,
    alpha_s: Scalar,
    alpha_t: Scalar,
    kappa: Scalar,
    pi: Tensor | None = None,
    *,
    validate: bool = True,
) -> Tensor:
    """kappa q_s + (1 - kappa) (alpha_s q_0 + (1 - alpha_s) pi): a reverse step mixed with denoising and noising again.

    q_s is the reverse posterior to s, q_0 the one to time zero. kappa = 1 is ancestral sampling, kappa = 0 the pure
    corrector; if x_hat is the clean token every kappa leaves the marginals alone. `pi` may have zeros: the one-hot law
    of a mask gives remasking, provided that `x_hat` obeys SUBS.
    """
    k = space(pi, x_hat=x_hat, validate=False)
    if checking(validate):
        _check(k, x_hat, alpha_s, alpha_t, kappa)
    x_hat, z = k.distribution(x_hat), k.distribution(z_t)
    q_s = reverse(k, x_hat, z, alpha_s, alpha_t)
    q_0 = reverse(k, x_hat, z, 1.0, alpha_t)
    weight = k.scalar(kappa)
    return weight * q_s + (1 - weight) * mix(k, q_0, alpha_s)


def _check(k: Space, x_hat: Tensor, alpha_s: Scalar, alpha_t: Scalar, kappa: Scalar) -> None:
    check_distribution("x_hat", x_hat)
    check_distribution("pi", k.pi)
    early, late, weight = k.scalar(alpha_s), k.scalar(alpha_t), k.scalar(kappa)
    if not bool(((late >= 0) & (late < 1) & (early >= late) & (early > 0) & (early <= 1)).all()):
        raise ValueError("times s <= t need 0 < alpha_s <= 1, 0 <= alpha_t < 1 and alpha_t <= alpha_s")
    if not bool(((weight >= 0) & (weight <= 1)).all()):
        raise ValueError("kappa must lie in [0, 1]: it is the weight of the reverse posterior")


def outside_nucleus(probs: Tensor, top_p: float) -> Tensor:
    """True on the categories a nucleus of mass `top_p` leaves out; see `nucleus`."""
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p must lie in (0, 1], got {top_p}")
    if top_p == 1:  # rounded sums pass one before the last categories
        return torch.zeros_like(probs, dtype=torch.bool)
    ranked, order = torch.sort(probs.double(), dim=-1, descending=True, stable=True)
    before = torch.nn.functional.pad(ranked.cumsum(-1)[..., :-1], (1, 0))
    return torch.zeros_like(probs, dtype=torch.bool).scatter(-1, order, before > top_p)


def nucleus(probs: Tensor, top_p: float) -> Tensor:
    """Keep the likeliest categories up to and with the one that takes their mass above `top_p`, and renormalise.

    A set whose mass is exactly `top_p` is not enough: the next category is kept too. Ties are cut by id.
    """
    kept = probs.masked_fill(outside_nucleus(probs, top_p), 0.0)
    return kept / kept.sum(-1, keepdim=True)
