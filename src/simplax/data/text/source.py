"""Prepared data as a stream of training batches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from simplax.data.text.labels import Label, standardised
from simplax.data.text.lengths import attend_to
from simplax.data.text.order import shuffled
from simplax.data.text.shards import Shards
from simplax.errors import UserError
from simplax.random import Keys
from simplax.typing import Batch


@dataclass(frozen=True)
class TextSource:
    """Rows by global counter: passes over the data, each in an order of its own, or (`seed=None`) always as stored."""

    shards: Shards
    vocab_size: int
    seed: int | None = 0
    described_by: tuple[Label, ...] = ()

    def __len__(self) -> int:
        return self.shards.rows

    @property
    def length(self) -> int:
        return self.shards.length

    def batch(self, indices: Tensor) -> Batch:
        rows = self._rows(indices)
        tokens, lengths = self.shards.take(rows)
        stored = self.shards.take_labels(rows)
        self._check(tokens, lengths, stored)
        attend = None if lengths is None else attend_to(torch.from_numpy(lengths), self.length)
        labels = standardised(self.described_by, stored) if self.described_by else None
        return Batch.of(torch.from_numpy(tokens), attend=attend, labels=labels)

    def _check(self, tokens: np.ndarray, lengths: np.ndarray | None, labels: np.ndarray) -> None:
        """Files are compared with their digests on request only: what is out of range must not reach a network."""
        sizes = np.array([label.size or np.inf for label in self.described_by])
        # not a number is no label; a class is a place among its classes
        right = np.isnan(labels) | np.isinf(sizes) | ((labels >= 0) & (labels < sizes))
        if (
            (tokens.size and int(tokens.max()) >= self.vocab_size)
            or (lengths is not None and lengths.size and int(lengths.max()) > self.length)
            or (self.described_by and not right.all())
        ):
            raise UserError(f"the prepared data {self.shards.directory} is damaged: prepare it again.")

    def labels(self, indices: Tensor) -> Tensor:
        """(batch, labels) float64, as stored: what describes the sequences that `batch` gives for the same counters."""
        return torch.from_numpy(self.shards.take_labels(self._rows(indices)))

    def _rows(self, indices: Tensor) -> np.ndarray:
        indices = indices.long().cpu()
        rows = indices % len(self) if self.seed is None else shuffled(indices, len(self), self.seed)
        found: np.ndarray = rows.numpy()
        return found


@dataclass(frozen=True)
class SyntheticSource:
    """Independent tokens of a skewed law, like the frequencies of words: text-shaped data that needs no text."""

    length: int
    vocab_size: int
    stream: int = 0

    def batch(self, indices: Tensor) -> Batch:
        u = Keys.from_seeds(indices.long().cpu()).fold_in(self.stream).uniform(self.length)
        return Batch.of((u**3 * self.vocab_size).long())
