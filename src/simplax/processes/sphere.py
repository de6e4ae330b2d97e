"""S-FLM's process: tokens are points of the unit sphere that travel along great arcs to uniform noise.

alpha is the share of the arc from noise to token: 1 is clean.
"""

from __future__ import annotations

import torch
from torch import Tensor

from simplax.functional.continuous import slerp, sphere_exp, sphere_velocity
from simplax.nn.vectors import unit
from simplax.random import Keys

SCORES_AT_ONCE = 1 << 24
"""Positions times categories for which velocities are computed together: each such tensor takes 128 MB."""


def uniform_points(length: int, width: int, keys: Keys) -> Tensor:
    """(batch, length, width) points, uniform on the sphere, float64."""
    return unit(keys.normal(length, width, dtype=torch.float64))


def corrupt(clean: Tensor, alpha: Tensor, keys: Keys) -> Tensor:
    """Points `clean` (batch, length, width) moved 1 - alpha of the way to noise of their own; `alpha` (batch,)."""
    noise = uniform_points(clean.shape[1], clean.shape[2], keys)
    return slerp(clean, noise, (1 - alpha).unsqueeze(-1))


def step_fraction(alpha_t: Tensor, alpha_s: Tensor) -> Tensor:
    """The share of what is left of the arc that a step from alpha_t to alpha_s covers."""
    return (alpha_s - alpha_t) / (1 - alpha_t).clamp(min=1e-6)


def move(z: Tensor, rows: Tensor, probs: Tensor, fraction: Tensor) -> Tensor:
    """One step along the exact mean velocity under `probs` (batch, length, K)."""
    count = max(1, SCORES_AT_ONCE // rows.shape[0])
    pieces = zip(z.flatten(0, 1).split(count), probs.flatten(0, 1).split(count))
    velocity = torch.cat([sphere_velocity(part, rows, p) for part, p in pieces])
    return sphere_exp(z, fraction * velocity.view_as(z))
