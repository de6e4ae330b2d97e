"""CANDI's process: a token is revealed or not, and one that is not is a one-hot vector with Gaussian noise.

Both clocks are tied together: the noise at time t confuses as many coordinates as there are tokens hidden.
"""

from __future__ import annotations

from torch import Tensor

from simplax.random import Keys


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
