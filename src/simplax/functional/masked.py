"""Masked (absorbing-state) diffusion on plain tensors: parameterisation, posterior, continuous-time density.

The state has one id more than the data, the mask. Distributions over clean tokens may leave the mask's column out
(width K when `mask_id = K`) or carry it; a column that is there gets probability zero.
"""

from __future__ import annotations

import torch
from torch import Tensor

from simplax.functional._arguments import Scalar, check_distribution, check_ids, checking


def subs_log_probs(logits: Tensor, z_t: Tensor, mask_id: int) -> Tensor:
    """log x_hat under SUBS (Sahoo et al. 2024): never the mask, and a token that is visible stays what it is.

    `logits` (..., width), `z_t` ids (...); -inf is the logarithm of what is impossible.
    """
    logits, width = logits.to(_compute(logits)), logits.shape[-1]
    ids = torch.arange(width, device=logits.device)
    free = logits.masked_fill(ids == mask_id, -torch.inf).log_softmax(-1)
    observed = ids == z_t.unsqueeze(-1)
    copied = torch.zeros_like(free).masked_fill(~observed, -torch.inf)
    return torch.where((z_t == mask_id).unsqueeze(-1), free, copied)


def masked_rate(
    x: Tensor,
    x_hat: Tensor,
    z_t: Tensor,
    alpha_t: Scalar,
    rate: Scalar,
    mask_id: int,
    *,
    validate: bool = True,
) -> Tensor:
    """The continuous-time density of the masked bound: w(t) (-log x_hat[x]) where z_t is the mask, zero elsewhere.

    `rate` is lambda(t) = -alpha' / alpha as in `uniform_rate`, so that w(t) = lambda alpha / (1 - alpha).
    """
    alpha, speed = (_exact(value, x_hat) for value in (alpha_t, rate))
    if checking(validate):
        check_distribution("x_hat", x_hat)
        check_ids("x", x, x_hat.shape[-1])
        check_ids("z_t", z_t, max(x_hat.shape[-1], mask_id + 1))
        if not bool(((alpha >= 0) & (alpha < 1) & (speed >= 0)).all()):
            raise ValueError("the masked bound needs 0 <= alpha_t < 1 and a rate that is not negative")
        if bool(((alpha == 0) & torch.isinf(speed)).any()):
            raise ValueError(
                "at alpha_t = 0 an infinite rate does not determine the weight: take a time below 1"
            )
    weight = (speed * alpha / (1 - alpha)).to(_compute(x_hat))
    masked = z_t == mask_id
    at_x = torch.where(masked, x_hat.gather(-1, x.unsqueeze(-1)).squeeze(-1).to(weight), 1.0)
    return torch.where(masked, -weight * at_x.log(), 0.0)


def absorbing_posterior(
    x_hat: Tensor,
    z_t: Tensor,
    alpha_s: Scalar,
    alpha_t: Scalar,
    mask_id: int,
    *,
    validate: bool = True,
) -> Tensor:
    """The law of z_s given z_t and x_hat: a visible token stays; a mask stays with chance (1 - alpha_s)/(1 - alpha_t).

    The result covers the mask whether or not `x_hat` does: its last axis is `max(width, mask_id + 1)` long.
    """
    width = max(x_hat.shape[-1], mask_id + 1)
    early, late = (_exact(alpha, x_hat) for alpha in (alpha_s, alpha_t))
    if checking(validate):
        check_distribution("x_hat", x_hat)
        check_ids("z_t", z_t, width)
        if x_hat.shape[-1] > mask_id and bool((x_hat[..., mask_id] > 0).any()):
            raise ValueError("x_hat must give the mask probability zero: pass subs_log_probs(...).exp()")
        if not bool(((late >= 0) & (late < 1) & (early >= late) & (early <= 1)).all()):
            raise ValueError("times s < t need 0 <= alpha_t <= alpha_s <= 1 and alpha_t < 1")
    x_hat = x_hat.to(_compute(x_hat))
    reveal, stay = (((early - late) / (1 - late)).to(x_hat), ((1 - early) / (1 - late)).to(x_hat))
    ids = torch.arange(width, device=x_hat.device)
    drawn = reveal.unsqueeze(-1) * torch.nn.functional.pad(x_hat, (0, width - x_hat.shape[-1]))
    from_mask = drawn + stay.unsqueeze(-1) * (ids == mask_id)
    visible = (ids == z_t.unsqueeze(-1)).to(x_hat.dtype)
    return torch.where((z_t == mask_id).unsqueeze(-1), from_mask, visible)


def _compute(x: Tensor) -> torch.dtype:
    """Half types are computed in float32."""
    return torch.promote_types(x.dtype, torch.float32)


def _exact(value: Scalar, like: Tensor) -> Tensor:
    return torch.as_tensor(value, dtype=torch.float64, device=like.device)
