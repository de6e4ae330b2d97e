"""Rows of molecules as a stream of training batches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from simplax.data.text.order import shuffled
from simplax.typing import Batch


@dataclass(frozen=True, eq=False)
class MoleculeSource:
    """Padded rows by global counter: passes, each in an order of its own, or (`seed=None`) always as stored.

    `labels` (rows, labels) are as networks read them. Padding is noised, predicted and scored like every other token:
    that is how a model learns lengths. With `pad`, the symbol that pads, attention and loss leave it out.
    """

    rows: np.ndarray
    vocab_size: int
    seed: int | None = 0
    labels: Tensor | None = None
    pad: int | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def length(self) -> int:
        return int(self.rows.shape[1])

    def batch(self, indices: Tensor) -> Batch:
        indices = indices.long().cpu()
        chosen = indices % len(self) if self.seed is None else shuffled(indices, len(self), self.seed)
        tokens = torch.from_numpy(self.rows[chosen.numpy()].astype(np.int64))
        attend = None if self.pad is None else tokens != self.pad
        return Batch.of(tokens, attend=attend, labels=None if self.labels is None else self.labels[chosen])
