"""S-FLM's sampler: steps along great circles of the sphere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from simplax.processes.base import Process
from simplax.processes.prediction import Prediction
from simplax.processes.sphere import SphereProcess, mean_tangent
from simplax.processes.vectors import VectorProcess
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

    undoes: ClassVar[tuple[type[Process], ...]] = (SphereProcess,)
    exactness: ClassVar[str] = "approximate (Euler); no law is claimed"

    top_k: int | None = None
    """how many of the likeliest tokens the velocity counts; none for all"""
    draw: bool = False
    """move towards one token drawn from the prediction instead of the mean of all"""

    def __post_init__(self) -> None:
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k must be at least 1, or None for all tokens, got {self.top_k}")

    def grid(self, num_steps: int) -> Tensor:
        return Grid(end=1e-5)(num_steps)[:-1]

    def target(self, y: Tensor, prediction: Prediction, process: VectorProcess, keys: Keys) -> Tensor:
        """The mean tangent vector from `y` to the tokens."""
        return mean_tangent(y, process.rows, self._weighted(prediction, keys))

    def _weighted(self, prediction: Prediction, keys: Keys) -> Prediction:
        """The prediction whose mean is the velocity: all of it, its likeliest tokens, or a single drawn one."""
        if self.top_k is not None and self.top_k < prediction.size:
            least = prediction.logits.topk(self.top_k, dim=-1).values[..., -1:]
            prediction = Prediction(prediction.logits.masked_fill(prediction.logits < least, -torch.inf))
        if not self.draw:
            return prediction
        ids = prediction.draw_all(keys.uniform(prediction.logits.shape[1]))
        return Prediction(torch.full_like(prediction.logits, -torch.inf).scatter_(-1, ids.unsqueeze(-1), 0.0))
