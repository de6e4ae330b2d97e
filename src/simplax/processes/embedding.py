"""LangFlow's process: variance-preserving Gaussian noise on embeddings, z = alpha e + sigma eps.

gamma is the log of the noise-to-signal ratio: alpha^2 = sigmoid(-gamma), sigma^2 = sigmoid(gamma), large is noise.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from simplax.processes.gaussian import signal_and_noise
from simplax.processes.vectors import VectorProcess
from simplax.random import Keys


class EmbeddingProcess(VectorProcess):
    """Embeddings with Gaussian noise; the network has a law of noise levels, `gamma(t)`."""

    name: ClassVar[str] = "Gaussian noise on embeddings"

    def start(self, batch: int, length: int, keys: Keys) -> Tensor:
        return keys.normal(length, self.rows.shape[-1], dtype=torch.float64)

    def corrupt(self, x: Tensor, t: Tensor, keys: Keys) -> Tensor:
        clean = self.clean(x)
        return noised(clean, keys.normal(*clean.shape[1:], dtype=clean.dtype), self.network.gamma(t))

    def towards(self, y: Tensor, mean: Tensor, t: Tensor, s: Tensor) -> Tensor:
        return ddim_step(y, mean.double(), self.network.gamma(t), self.network.gamma(s))


def noised(clean: Tensor, noise: Tensor, gamma: Tensor) -> Tensor:
    """z for embeddings `clean` (batch, length, width) at `gamma` (batch,)."""
    signal, scale = (part.to(clean.dtype).reshape(-1, 1, 1) for part in signal_and_noise(gamma))
    return signal * clean + scale * noise


def ddim_step(z: Tensor, predicted: Tensor, gamma_t: Tensor, gamma_s: Tensor) -> Tensor:
    """Deterministic move from gamma_t to gamma_s at the predicted mean; LangFlow's "Euler-EDM" step is this one."""
    (signal_t, _), (signal_s, _) = signal_and_noise(gamma_t), signal_and_noise(gamma_s)
    shrink = torch.exp(0.5 * (gamma_s.double() - gamma_t.double()))
    return signal_s * (predicted + shrink * (z / signal_t - predicted))
