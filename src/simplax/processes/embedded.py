"""LangFlow's process: variance-preserving Gaussian noise on embeddings, z = alpha e + sigma eps.

gamma is the log of the noise-to-signal ratio: alpha^2 = sigmoid(-gamma), sigma^2 = sigmoid(gamma), large is noise.
"""

from __future__ import annotations

import torch
from torch import Tensor

from simplax.processes.gaussian import signal_and_noise


def noised(clean: Tensor, noise: Tensor, gamma: Tensor) -> Tensor:
    """z for embeddings `clean` (batch, length, width) at `gamma` (batch,)."""
    signal, scale = (part.to(clean.dtype).reshape(-1, 1, 1) for part in signal_and_noise(gamma))
    return signal * clean + scale * noise


def ddim_step(z: Tensor, predicted: Tensor, gamma_t: Tensor, gamma_s: Tensor) -> Tensor:
    """Deterministic move from gamma_t to gamma_s at the predicted mean; LangFlow's "Euler-EDM" step is this one."""
    (signal_t, _), (signal_s, _) = signal_and_noise(gamma_t), signal_and_noise(gamma_s)
    shrink = torch.exp(0.5 * (gamma_s.double() - gamma_t.double()))
    return signal_s * (predicted + shrink * (z / signal_t - predicted))
