"""Gaussian noise on one-hot vectors, seen through an embedding: no K-vector of noise is ever drawn for large K.

A network that reads z only as y = z E, and moves that are affine in z with scalar coefficients, can live in R^d
altogether: xi E for xi ~ N(0, I_K) is N(0, E^T E), and z <- a z + b p becomes y <- a y + b p E.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from simplax.processes.vectors import VectorProcess
from simplax.random import Keys

EULER_GUARD = 1e-5


class OneHotProcess(VectorProcess):
    """One-hot vectors with Gaussian noise, read through the embedding; the network has a clock, `gamma(t)`."""

    name: ClassVar[str] = "Gaussian noise on one-hot vectors"

    def start(self, batch: int, length: int, keys: Keys) -> Tensor:
        return projected_noise(self.rows, length, keys).double()

    def corrupt(self, x: Tensor, t: Tensor, keys: Keys) -> Tensor:
        return noised(self.clean(x), projected_noise(self.rows, x.shape[1], keys), self.network.gamma(t))

    def towards(self, y: Tensor, mean: Tensor, t: Tensor, s: Tensor) -> Tensor:
        return euler_step(y, mean.double(), self.network.gamma(t), self.network.gamma(s))


def projected_noise(rows: Tensor, length: int, keys: Keys) -> Tensor:
    """Draws (batch, length, d) from the law of xi E for E = `rows` (K, d), differentiable in E.

    From min(K, d) normal numbers each: xi itself while K is the smaller.
    """
    factor = rows if rows.shape[0] <= rows.shape[1] else gram_factor(rows)
    return keys.normal(length, factor.shape[0], dtype=rows.dtype) @ factor


def gram_factor(rows: Tensor) -> Tensor:
    """An upper triangular R (d, d) with R^T R = E^T E, up to rounding if E^T E is singular."""
    gram = (rows.T @ rows).double()
    jitter = 4 * torch.finfo(rows.dtype).eps * gram.diagonal().mean().detach()
    eye = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    return torch.linalg.cholesky(gram + jitter * eye, upper=True).to(rows.dtype)


def noised(clean: Tensor, noise: Tensor, gamma: Tensor) -> Tensor:
    """FLM's path (1 - gamma) noise + gamma clean, of one-hot vectors or of their images alike; `gamma` (batch,)."""
    share = gamma.to(clean.dtype).reshape(-1, 1, 1)
    return (1 - share) * noise + share * clean


def euler_step(z: Tensor, predicted: Tensor, gamma_t: Tensor, gamma_s: Tensor) -> Tensor:
    """FLM's move from gamma_t to gamma_s towards the predicted mean, in R^K or in its image alike."""
    return z + (gamma_s - gamma_t) * (predicted - z) / (1 - gamma_t + EULER_GUARD)
