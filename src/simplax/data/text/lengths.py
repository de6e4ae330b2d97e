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

    def draw(self, seeds: Tensor | Sequence[int], at_least: Tensor | None = None) -> Tensor:
        """A length (batch,) for every seed: a function of that seed and of its entry of `at_least` (batch,) alone.

        Lengths are drawn from those of the histogram that are not below `at_least`; where there are none, the length
        is `at_least` itself.
        """
        keys = Keys.from_seeds(seeds).fold_in(_LENGTHS)
        law = torch.tensor(self.counts, dtype=torch.float64, device=keys.state.device).expand(keys.batch, -1)
        noise = keys.uniform(1).squeeze(-1)
        if at_least is None:
            return categorical(law, noise)
        at_least = at_least.to(law.device)
        law = law * (torch.arange(law.shape[-1], device=law.device) >= at_least.unsqueeze(-1))
        unseen = law.sum(-1) == 0  # longer than any sequence of the training data
        law = torch.where(unseen.unsqueeze(-1), torch.ones_like(law), law)
        return torch.where(unseen, at_least, categorical(law, noise))

    def choose(
        self,
        seeds: Tensor,
        length: int,
        asked: Sequence[int] | Tensor | int | None = None,
        given: Tensor | None = None,
    ) -> Tensor:
        """Lengths (batch,) of new sequences in rows of `length`: those asked for, or drawn by their seeds.

        Positions where `given` (batch, `length`) is true are part of their sequence, which is never shorter than that.
        """
        number = len(seeds)
        held = torch.zeros(number, dtype=torch.long) if given is None else reach(given.cpu())
        if asked is None:
            return self.draw(seeds, held)
        chosen = torch.as_tensor(asked).expand(number) if isinstance(asked, int) else torch.as_tensor(asked)
        if chosen.shape != (number,):
            raise UserError(
                f"give one length for all or one per sample: {number} samples, {chosen.numel()} lengths."
            )
        if bool((chosen < 0).any()) or bool((chosen > length).any()):
            raise UserError(f"lengths must lie between 0 and {length}, the length of the model's sequences.")
        short = (chosen.cpu() < held).nonzero().flatten().tolist()
        if short:
            raise UserError(
                f"a length of {int(chosen[short[0]])} is too short for the {int(held[short[0]])} positions up to the "
                "last given token: ask for a longer one."
            )
        return chosen


def reach(given: Tensor) -> Tensor:
    """Positions (batch,) from the first up to the last that is true in each row of `given` (batch, length)."""
    places = torch.arange(1, given.shape[-1] + 1, device=given.device)
    return (places * given).amax(-1)


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
