"""LangFlow's sampler: deterministic steps through quantiles of the learned law of noise levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from simplax.functional.continuous import LANGFLOW_TAIL
from simplax.processes.embedded import ddim_step
from simplax.processes.uniform import Prediction
from simplax.random import Keys
from simplax.samplers.vectors import VectorSampler, VectorState
from simplax.times import Grid


@dataclass(frozen=True)
class EmbeddingDDIM(VectorSampler):
    """DDIM steps on embeddings at N even quantiles of gamma, each call reading the mean that the last one predicted.

    N network calls for N steps, N - 1 of which move; the last takes the likeliest token. Temperature divides the whole
    logits (network and skip) of every call: it enters the predicted mean, what the next call reads of it, and not the
    last choice.
    """

    def grid(self, num_steps: int) -> Tensor:
        Grid()(num_steps)  # its check of num_steps is ours
        return torch.linspace(1 - LANGFLOW_TAIL, LANGFLOW_TAIL, num_steps, dtype=torch.float64)

    def start(self, denoiser: Any, length: int, keys: Keys) -> Tensor:
        return keys.normal(length, denoiser.rows().shape[-1], dtype=torch.float64)

    def context(self, state: VectorState) -> dict[str, Any]:
        return {"self_condition": state.carry}

    def move(
        self, y: Tensor, prediction: Prediction, t: Tensor, s: Tensor, denoiser: Any, keys: Keys
    ) -> tuple[Tensor, Tensor | None]:
        rows = denoiser.rows()
        mean = prediction.probs().to(rows.dtype) @ rows
        return ddim_step(y, mean.double(), denoiser.gamma(t), denoiser.gamma(s)), mean
