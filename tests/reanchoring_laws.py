"""Exact laws of the re-anchoring family on two tokens over three categories, by float64 algebra from definitions.

alpha = 1 - t, an even grid, exact predictors, uniform prior. A chain's state is the pair of tokens; for the previous
prediction also that of anchors.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

K = 3
EYE = torch.eye(K, dtype=torch.float64)
LAW_A = torch.tensor([[0.30, 0.04, 0.06], [0.02, 0.25, 0.03], [0.05, 0.05, 0.20]], dtype=torch.float64)
LAW_B = (torch.ones(K, K, dtype=torch.float64) - EYE) / 6
STATES = torch.cartesian_prod(torch.arange(K), torch.arange(K))
Share = float | Callable[[int], tuple[float, float]]


def leave_one_out(joint: Tensor, alpha: float) -> Tensor:
    """x_hat (9, 2, K) = p(x_i | z_-i) for every pair of tokens."""
    evidence = alpha * EYE[STATES] + (1 - alpha) / K  # q(z_i | x_i), (9, 2, K)
    others = torch.stack([evidence[:, 1] @ joint.T, evidence[:, 0] @ joint], dim=1)
    return others / others.sum(-1, keepdim=True)


def posterior(x_hat: Tensor, z: Tensor, alpha: float) -> Tensor:
    law = x_hat * (alpha * EYE[z] + (1 - alpha) / K)
    return law / law.sum(-1, keepdim=True)


def bridge(x_hat: Tensor, z: Tensor, alpha_s: float, alpha_t: float) -> Tensor:
    """P(z_s | z_t = z), the reverse posterior at x_hat by Bayes' rule."""
    keep = alpha_t / alpha_s
    joint = (alpha_s * x_hat + (1 - alpha_s) / K) * (keep * EYE[z] + (1 - keep) / K)
    return joint / joint.sum(-1, keepdim=True)


def noised(law: Tensor, alpha: float) -> Tensor:
    return alpha * law + (1 - alpha) / K


def at_time(joint: Tensor, alpha: float) -> Tensor:
    """The law of z_t, (K, K)."""
    forward = alpha * EYE + (1 - alpha) / K
    return forward.T @ joint @ forward


def redrawn(joint: Tensor, redraw: str, alpha_s: float, alpha_t: float) -> Tensor:
    x_hat = leave_one_out(joint, alpha_t)
    source = x_hat if redraw == "prediction" else posterior(x_hat, STATES, alpha_t)
    return noised(source, alpha_s)


def table(joint: Tensor, redraw: str, shares: Sequence[float], alpha_s: float, alpha_t: float) -> Tensor:
    """Transition table (9, 9) of one step with the current prediction; one share of redraws per position."""
    step = bridge(leave_one_out(joint, alpha_t), STATES, alpha_s, alpha_t)
    fresh = redrawn(joint, redraw, alpha_s, alpha_t)
    share = torch.tensor(shares, dtype=torch.float64).view(1, 2, 1)
    mixed = (1 - share) * step + share * fresh
    return (mixed[:, 0, :, None] * mixed[:, 1, None, :]).flatten(1)


def chain(joint: Tensor, redraw: str, num_steps: int, share: Share) -> Tensor:
    """The law of z_0, (K, K), with the current prediction; `share` may give both positions' by the step's number."""
    law = torch.full((K**2,), 1 / K**2, dtype=torch.float64)
    for n in range(num_steps):
        shares = share(n) if callable(share) else (share, share)
        law = law @ table(joint, redraw, shares, (n + 1) / num_steps, n / num_steps)
    return law.reshape(K, K)


def previous_chain(joint: Tensor, redraw: str, num_steps: int, share: float) -> Tensor:
    """The same with the previous prediction: a step leads from anchors, redrawn by the call before it."""
    start = torch.full((K, K), 1 / K**2, dtype=torch.float64)
    return previous_path(joint, redraw, [n / num_steps for n in range(num_steps + 1)], share, start)


def previous_path(joint: Tensor, redraw: str, alphas: Sequence[float], share: float, start: Tensor) -> Tensor:
    """From the law `start` of tokens, which are their own anchors, along these alphas."""
    law = torch.einsum("ij,ia,jb->ijab", start, EYE, EYE)
    for alpha_t, alpha_s in itertools.pairwise(alphas):
        x_hat = leave_one_out(joint, alpha_t).reshape(K, K, 2, 1, K)
        ids = torch.arange(K).view(1, 1, 1, K)
        step = bridge(x_hat, ids, alpha_s, alpha_t)  # [z0, z1, position, anchor, next]
        source = x_hat if redraw == "prediction" else posterior(x_hat, ids, alpha_s)
        chance = share if alpha_s < 1 else 0.0
        anchor = (1 - chance) * EYE + chance * noised(source, alpha_s)  # [z0, z1, position, next, its anchor]
        anchor = anchor.expand(K, K, 2, K, K)
        law = torch.einsum(
            "ijab,ijac,ijbd,ijce,ijdf->cdef",
            law,
            step[:, :, 0],
            step[:, :, 1],
            anchor[:, :, 0],
            anchor[:, :, 1],
        )
    return law.sum((2, 3))


def distance(p: Tensor, q: Tensor) -> float:
    return 0.5 * float((p.flatten() - q.flatten()).abs().sum())
