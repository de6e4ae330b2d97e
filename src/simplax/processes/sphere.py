"""S-FLM's process: tokens are points of the unit sphere that travel along great arcs to uniform noise.

alpha is the share of the arc from noise to token: 1 is clean.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from simplax.functional.continuous import SPHERE_MARGIN, slerp, sphere_exp
from simplax.processes.prediction import Prediction
from simplax.processes.vectors import VectorProcess, unit
from simplax.random import Keys

SCORES_AT_ONCE = 1 << 22
"""Positions times categories for which velocities are computed together: a few such tensors fit a large cache."""
NEAR = 1e-4
"""1 - cosine of the angle to a token below which the ratio angle / sine is taken from its series."""


class SphereProcess(VectorProcess):
    """Points of the unit sphere between token and noise; the network has the share of the arc, `alpha(t)`."""

    name: ClassVar[str] = "points of a sphere"

    def start(self, batch: int, length: int, keys: Keys) -> Tensor:
        return uniform_points(length, self.rows.shape[-1], keys)

    def corrupt(self, x: Tensor, t: Tensor, keys: Keys) -> Tensor:
        return corrupt(self.clean(x), self.network.alpha(t), keys)

    def towards(self, y: Tensor, mean: Tensor, t: Tensor, s: Tensor) -> Tensor:
        """`mean` is the mean tangent vector to the tokens under x_hat."""
        return sphere_exp(y, step_fraction(self.network.alpha(t), self.network.alpha(s)) * mean)


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


@torch.no_grad()
def mean_tangent(z: Tensor, rows: Tensor, prediction: Prediction) -> Tensor:
    """`functional.sphere_velocity` at points `z` (batch, length, d) in the precision of `rows`, a few at a time.

    With c the cosine to a token and g = angle / sine, the mean is sum_k p_k g_k (e_k - c_k z). g is smooth at c = 1,
    where the angle itself loses half its digits. The three scratch tensors are reused: fresh memory would cost more
    than the arithmetic.
    """
    flat, logits = z.to(rows.dtype).flatten(0, 1), prediction.logits.flatten(0, 1)
    count = min(len(flat), max(1, SCORES_AT_ONCE // len(rows)))
    scratch = [rows.new_empty(count, len(rows)) for _ in range(3)]
    parts = [_few_tangents(*few, rows, scratch) for few in zip(flat.split(count), logits.split(count))]
    return torch.cat(parts).view(z.shape).double()


def _few_tangents(z: Tensor, logits: Tensor, rows: Tensor, scratch: list[Tensor]) -> Tensor:
    cosine, ratio, other = (tensor[: len(z)] for tensor in scratch)
    torch.mm(z, rows.T, out=cosine).clamp_(SPHERE_MARGIN - 1, 1.0)
    torch.acos(cosine, out=ratio)
    torch.neg(cosine, out=other).add_(1)
    other.addcmul_(other, cosine).rsqrt_()  # (1 - c)(1 + c)
    ratio.mul_(other)
    if cosine.device.type != "cpu" or cosine.max() > 1 - NEAR:
        ratio = torch.where(cosine > 1 - NEAR, 1 + (1 - cosine) / 3, ratio)
    ratio.mul_(torch.softmax(logits, dim=-1, dtype=rows.dtype, out=other))
    mean = ratio @ rows
    return mean - z * torch.mul(ratio, cosine, out=other).sum(-1, keepdim=True)
