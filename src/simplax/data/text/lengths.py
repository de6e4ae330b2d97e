"""Sequences of different length: how long each is, where padding begins, and how long new ones should be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from simplax.errors import UserError
from simplax.random import Keys, categorical

_LENGTHS = 211


@dataclass(frozen=True)
class Lengths:
    """A histogram: `counts[n]` training sequences have n tokens. Lengths of new sequences are drawn from it.

    Used where padding is not modelled (`layout="lengths"`): the length is drawn first, then the tokens.
    """

    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        if min(self.counts, default=0) < 0 or not sum(self.counts):
            raise UserError("a histogram of lengths needs counts of at least zero, one of them above it.")

    @staticmethod
    def of(lengths: np.ndarray, longest: int) -> Lengths:
        """The histogram of observed lengths from 0 to `longest`."""
        return Lengths(tuple(np.bincount(lengths, minlength=longest + 1).tolist()))

    @property
    def longest(self) -> int:
        return len(self.counts) - 1

    @property
    def mean(self) -> float:
        return float(np.average(np.arange(len(self.counts)), weights=self.counts))

    def draw(self, seeds: Tensor | Sequence[int]) -> Tensor:
        """A length (batch,) for every seed: a function of that seed alone."""
        keys = Keys.from_seeds(seeds).fold_in(_LENGTHS)
        law = torch.tensor(self.counts, dtype=torch.float64, device=keys.state.device)
        return categorical(law.expand(keys.batch, -1), keys.uniform(1).squeeze(-1))


def attend_to(lengths: Tensor, length: int) -> Tensor:
    """(batch, length): True on the first `lengths` positions of every row, False on the padding behind them."""
    if bool((lengths < 0).any()) or bool((lengths > length).any()):
        raise UserError(f"lengths must lie between 0 and {length}, the length of the model's sequences.")
    return torch.arange(length, device=lengths.device) < lengths.unsqueeze(-1)


def lengths_before_end(tokens: Tensor, end: int) -> Tensor:
    """How many tokens (batch,) come before the first end symbol; all of them where there is none."""
    return (tokens == end).int().cumsum(-1).eq(0).sum(-1)


def attend_through_end(tokens: Tensor, end: int) -> Tensor:
    """(batch, length): True up to and with the first end symbol, False on the padding behind it.

    What is counted by entropies and perplexities of sequences with a learned end: the end is information, the padding
    that repeats it is not.
    """
    kept = (lengths_before_end(tokens, end) + 1).clamp(max=tokens.shape[-1])
    return attend_to(kept, tokens.shape[-1])


def has_interior_end(tokens: Tensor, end: int) -> Tensor:
    """(batch,): whether something other than padding follows the first end symbol, as in no training sequence."""
    return ((tokens != end) & ((tokens == end).int().cumsum(-1) > 0)).any(-1)


def cut(row: Sequence[int], end: int | None) -> list[int]:
    """The tokens before the first end symbol."""
    row = list(row)
    return row[: row.index(end)] if end is not None and end in row else row


def cut_all(tokens: Tensor, end: int | None = None, lengths: Tensor | None = None) -> list[list[int]]:
    """Every row without its padding: up to its known length, and up to its first end symbol."""
    sizes = [tokens.shape[-1]] * len(tokens) if lengths is None else lengths.tolist()
    return [cut(row[:size], end) for row, size in zip(tokens.tolist(), sizes)]
