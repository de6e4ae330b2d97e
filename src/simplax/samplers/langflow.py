"""LangFlow's sampler: deterministic steps through quantiles of the learned law of noise levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from simplax.functional.continuous import LANGFLOW_TAIL
from simplax.processes.base import Process
from simplax.processes.embedding import EmbeddingProcess
from simplax.samplers.vectors import VectorSampler
from simplax.times import Grid


@dataclass(frozen=True)
class EmbeddingDDIM(VectorSampler):
    """DDIM steps on embeddings at N even quantiles of gamma, each call reading the mean that the last one predicted.

    N network calls for N steps, N - 1 of which move; the last takes the likeliest token. Temperature divides the whole
    logits (network and skip) of every call: it enters the predicted mean, what the next call reads of it, and not the
    last choice.
    """

    undoes: ClassVar[tuple[type[Process], ...]] = (EmbeddingProcess,)
    exactness: ClassVar[str] = "approximate (DDIM); no law is claimed"

    def grid(self, num_steps: int) -> Tensor:
        Grid()(num_steps)  # its check of num_steps is ours
        return torch.linspace(1 - LANGFLOW_TAIL, LANGFLOW_TAIL, num_steps, dtype=torch.float64)
