"""Exact law of the uniform-state chains on the toy, by float64 algebra on pairs (token, anchor), from definitions."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
from torch import Tensor

from simplax.schedules import Schedule
from toy import K, states

Network = Callable[[Tensor, Tensor], Tensor]


def bayes(x_hat: Tensor, alpha_s: float, alpha_t: float, pi: Tensor) -> Tensor:
    """r[..., a, b] = P(z_s = b | z_t = a) if x ~ x_hat: prior p_s times the forward transition, renormalised."""
    keep = alpha_t / alpha_s
    forward = keep * torch.eye(len(pi), dtype=torch.float64) + (1 - keep) * pi  # [z_s, z_t]
    p_s = alpha_s * x_hat + (1 - alpha_s) * pi
    joint = p_s.unsqueeze(-1) * forward
    return (joint / joint.sum(-2, keepdim=True)).transpose(-1, -2)


def chain_law(
    network: Network,
    schedule: Schedule,
    num_steps: int,
    eta: float | Callable[[float], float] = 0.0,
    pi: Tensor | None = None,
    pinned: dict[int, int] | None = None,
    end: float = 0.0,
) -> Tensor:
    """P(z_end), shape (K, K): after each step a fresh anchor comes from the prediction that made the step.

    `eta = 0` is UDLM. `pinned` maps positions to the id held there.
    """
    pi = torch.full((K,), 1 / K, dtype=torch.float64) if pi is None else pi
    eta_at = eta if callable(eta) else lambda t: eta
    times = torch.linspace(1.0, end, num_steps + 1, dtype=torch.float64)
    eye = torch.eye(K, dtype=torch.float64)
    law = torch.einsum("ia,jb->ijab", *[_anchor(pi, eta_at(1.0)) * pi[:, None]] * 2)
    law = _pin(law, pinned)
    for t, s in itertools.pairwise(times):
        alpha_t, alpha_s = float(schedule.alpha(t)), float(schedule.alpha(s))
        x_hat = torch.softmax(network(states(), t.expand(K**2)).double(), -1).reshape(K, K, 2, K)
        r = bayes(x_hat, alpha_s, alpha_t, pi)  # [z0, z1, position, anchor, next]
        p_hat = alpha_s * x_hat + (1 - alpha_s) * pi
        fresh = _anchor(p_hat, eta_at(float(s))) if s > 0 else eye.expand(K, K, 2, K, K)
        # [z0, z1, position, next z, next anchor]
        law = torch.einsum(
            "ijab,ijac,ijbd,ijce,ijdf->cdef", law, r[:, :, 0], r[:, :, 1], fresh[:, :, 0], fresh[:, :, 1]
        )
        law = _pin(law, pinned)
    return law.sum((2, 3))


def _anchor(p: Tensor, eta: float) -> Tensor:
    """P(anchor | z) = (e_z + eta p) / (1 + eta), rows z: the decode of w ~ Dir(eta p + e_z)."""
    return (torch.eye(K, dtype=torch.float64) + eta * p.unsqueeze(-2)) / (1 + eta)


def _pin(law: Tensor, pinned: dict[int, int] | None) -> Tensor:
    """Move all mass of a pinned position to its id, token (axis i) and anchor (axis i + 2) alike."""
    for position, value in (pinned or {}).items():
        axes = (position, position + 2)
        rest = law.sum(axes, keepdim=True)
        corner = torch.zeros(K, dtype=torch.float64)
        corner[value] = 1
        shape = [K if axis == position else 1 for axis in range(4)]
        anchor_shape = [K if axis == position + 2 else 1 for axis in range(4)]
        law = rest * corner.reshape(shape) * corner.reshape(anchor_shape)
    return law


def total_variation(p: Tensor, q: Tensor) -> float:
    return 0.5 * float((p - q).abs().sum())
