"""S-FLM's sampler: steps along great circles of the sphere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from simplax.processes.sphere import move, step_fraction, uniform_points
from simplax.processes.uniform import Prediction
from simplax.random import Keys
from simplax.samplers.vectors import VectorSampler
from simplax.times import Grid


@dataclass(frozen=True)
class GeodesicEuler(VectorSampler):
    """Euler steps along the mean tangent vector to all tokens under x_hat, exactly; deterministic but for the start.

    N network calls for N steps, N - 1 of which move; the last takes the likeliest token, at the largest alpha of the
    network's own (possibly truncated and adapted) schedule. Temperature divides the logits of every call, so it
    sharpens the velocity; the last choice does not depend on it.

    `top_k` keeps so many of the likeliest tokens in the velocity; `draw=True` moves towards a single token drawn from
    x_hat instead of the mean of all.
    """

    top_k: int | None = None
    draw: bool = False

    def __post_init__(self) -> None:
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k must be at least 1, or None for all tokens, got {self.top_k}")

    def grid(self, num_steps: int) -> Tensor:
        return Grid(end=1e-5)(num_steps)[:-1]

    def start(self, denoiser: Any, length: int, keys: Keys) -> Tensor:
        return uniform_points(length, denoiser.rows().shape[-1], keys)

    def move(
        self, y: Tensor, prediction: Prediction, t: Tensor, s: Tensor, denoiser: Any, keys: Keys
    ) -> tuple[Tensor, Tensor | None]:
        fraction = step_fraction(denoiser.alpha(t), denoiser.alpha(s))
        return move(y, denoiser.rows(), self._weights(prediction, keys), fraction), None

    def _weights(self, prediction: Prediction, keys: Keys) -> Tensor:
        if self.top_k is not None and self.top_k < prediction.size:
            least = prediction.logits.topk(self.top_k, dim=-1).values[..., -1:]
            prediction = Prediction(prediction.logits.masked_fill(prediction.logits < least, -torch.inf))
        if not self.draw:
            return prediction.probs()
        everywhere = torch.ones(prediction.logits.shape[:-1], dtype=torch.bool, device=keys.state.device)
        ids = prediction.draw(everywhere, keys.uniform(everywhere.shape[1])).view(everywhere.shape)
        return torch.nn.functional.one_hot(ids, prediction.size)
