"""CANDI's process: a token is revealed or not, and one that is not is a one-hot vector with Gaussian noise.

Both clocks are tied together: the noise at time t confuses as many coordinates as there are tokens hidden.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from simplax.processes.onehot import projected_noise
from simplax.processes.vectors import VectorProcess
from simplax.random import Keys


@dataclass(frozen=True)
class Hybrid:
    """What the network reads: `vectors` (batch, length, width) are the token's own row where `revealed`, and elsewhere
    those of its one-hot vector with Gaussian noise of size `sigma` (a number, or one per sample)."""

    vectors: Tensor
    revealed: Tensor
    sigma: Tensor

    def rows(self, rows: Tensor) -> Hybrid:
        """The states of some of the sequences."""
        return Hybrid(
            self.vectors[rows], self.revealed[rows], self.sigma[rows] if self.sigma.dim() else self.sigma
        )


class HybridProcess(VectorProcess):
    """Masking and Gaussian noise at once; the network has the schedule of the first and `sigma(t)` of the second."""

    name: ClassVar[str] = "masks and Gaussian noise at once"

    def start(self, batch: int, length: int, keys: Keys) -> Tensor:
        """Noise of size one: `scaled` by sigma it is the state at any time at which all is hidden."""
        return projected_noise(self.rows, length, keys).double()

    def corrupt(self, x: Tensor, t: Tensor, keys: Keys) -> Tensor:
        sigma = self.network.sigma(t).to(self.rows.dtype).reshape(-1, 1, 1)
        return self.clean(x) + sigma * projected_noise(self.rows, x.shape[1], keys)

    def hidden(self, x: Tensor, t: Tensor, given: Tensor, keys: Keys) -> Hybrid:
        """The whole state at times `t` (batch,): which tokens show, and the vectors of all."""
        alpha = self.network.schedule.alpha(t).unsqueeze(-1)
        shown = revealed(x, alpha, self.size, keys.stream("reveal")) | given
        noisy = self.corrupt(x, t, keys.stream("noise"))
        return Hybrid(torch.where(shown.unsqueeze(-1), self.clean(x), noisy), shown, self.network.sigma(t))

    def towards(self, y: Tensor, mean: Tensor, t: Tensor, s: Tensor) -> Tensor:
        return cached_step(y, mean.double(), self.network.sigma(t), self.network.sigma(s))


def revealed(tokens: Tensor, alpha: Tensor, size: int, keys: Keys) -> Tensor:
    """Which tokens (batch, length) show; `alpha` broadcasts.

    A hidden token is replaced by a uniform draw among `size` categories and the mask, and shows if the draw is itself:
    alpha + (1 - alpha) / (size + 1), the published chance, well above alpha for few categories.
    """
    return keys.uniform(*tokens.shape[1:]) < alpha + (1 - alpha) / (size + 1)


def newly_revealed(length: int, t: Tensor, num_steps: int, keys: Keys) -> Tensor:
    """Which positions become clean in one of `num_steps` steps at time t: chance dt / t with dt = (1 - 1e-5) / N."""
    return keys.uniform(length) < (1 - 1e-5) / num_steps / t


def cached_step(cache: Tensor, target: Tensor, sigma_t: Tensor, sigma_s: Tensor) -> Tensor:
    """The published move of the image of a noisy one-hot vector towards that of a drawn token.

    Its factor is 1 / sigma_s^2 where Euler's method for this noise has 1 / sigma_t: kept, as published results rely on
    it.
    """
    return cache - (sigma_t - sigma_s) * (cache - target) / sigma_s**2
