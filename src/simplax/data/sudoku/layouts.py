"""Boards as token sequences, in two layouts.

`prefix` writes the puzzle and then its solution, as the published benchmark does: begin, puzzle, begin,
solution, with a separator between rows; 180 tokens for 9x9. `cells` has one position per cell and one
category per digit, with the clues given.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from simplax.data.sudoku.solver import board_size
from simplax.errors import UserError
from simplax.typing import Batch


class Layout(Protocol):
    """How boards of one size become tokens."""

    @property
    def length(self) -> int: ...

    @property
    def vocab_size(self) -> int: ...

    def encode(self, puzzles: Tensor, solutions: Tensor | None = None) -> Batch:
        """Boards `(b, cells)` as a batch; without solutions the tokens that are not given are arbitrary."""

    def decode(self, tokens: Tensor) -> Tensor:
        """The solution `(b, cells)` in a token sequence, 0 where a token is not a digit."""

    def clues(self, tokens: Tensor, given: Tensor) -> Tensor:
        """The puzzle `(b, cells)` in the tokens that are given, 0 where a cell is blank."""

    def well_formed(self, tokens: Tensor) -> Tensor:
        """For each sequence, whether all tokens that are not cells are what they must be."""


@dataclass(frozen=True)
class Cells:
    """One position per cell, token `digit - 1`; the clues are given and all else is scored."""

    size: int = 9

    @property
    def length(self) -> int:
        return self.size**2

    @property
    def vocab_size(self) -> int:
        return self.size

    def encode(self, puzzles: Tensor, solutions: Tensor | None = None) -> Batch:
        filled = puzzles if solutions is None else solutions
        return Batch.of((filled.long() - 1).clamp(min=0), given=puzzles > 0)

    def decode(self, tokens: Tensor) -> Tensor:
        return torch.where((tokens >= 0) & (tokens < self.size), tokens + 1, 0)

    def clues(self, tokens: Tensor, given: Tensor) -> Tensor:
        return torch.where(given, self.decode(tokens), 0)

    def well_formed(self, tokens: Tensor) -> Tensor:
        return torch.ones(len(tokens), dtype=torch.bool, device=tokens.device)


@dataclass(frozen=True)
class Prefix:
    """Begin, puzzle, begin, solution. Tokens: 0 blank, the digits, the row separator, the begin mark."""

    size: int = 9

    @property
    def separator(self) -> int:
        return self.size + 1

    @property
    def begin(self) -> int:
        return self.size + 2

    @property
    def vocab_size(self) -> int:
        return self.size + 3

    @property
    def board_length(self) -> int:
        """Cells and the separators between rows."""
        return self.size**2 + self.size - 1

    @property
    def prompt_length(self) -> int:
        return self.board_length + 2

    @property
    def length(self) -> int:
        return self.prompt_length + self.board_length

    @cached_property
    def _cells(self) -> Tensor:
        """Where the cells are within a board."""
        index = torch.arange(self.size**2)
        return index + index // self.size

    @cached_property
    def _template(self) -> Tensor:
        template = torch.full((self.length,), self.separator)
        template[0] = template[self.prompt_length - 1] = self.begin
        return template

    def encode(self, puzzles: Tensor, solutions: Tensor | None = None) -> Batch:
        tokens = self._template.to(puzzles.device).repeat(len(puzzles), 1)
        tokens[:, 1 + self._cells] = puzzles.long()
        tokens[:, self.prompt_length + self._cells] = 0 if solutions is None else solutions.long()
        given = torch.zeros_like(tokens, dtype=torch.bool)
        given[:, : self.prompt_length] = True
        return Batch.of(tokens, given=given)

    def decode(self, tokens: Tensor) -> Tensor:
        cells = tokens[:, -self.board_length :][:, self._cells]
        return torch.where((cells >= 1) & (cells <= self.size), cells, 0)

    def clues(self, tokens: Tensor, given: Tensor) -> Tensor:
        cells, known = tokens[:, 1 + self._cells], given[:, 1 + self._cells]
        return torch.where(known & (cells >= 1) & (cells <= self.size), cells, 0)

    def well_formed(self, tokens: Tensor) -> Tensor:
        """Whether the solution has its separators: without them the benchmark does not count it."""
        board = tokens[:, -self.board_length :]
        return (board[:, self.size :: self.size + 1] == self.separator).all(1)


LAYOUTS: dict[str, type[Cells] | type[Prefix]] = {"cells": Cells, "prefix": Prefix}


def make_layout(name: str, size: int = 9) -> Layout:
    """The layout of that name for boards of that side."""
    if name not in LAYOUTS:
        raise UserError(f"Unknown Sudoku layout {name!r}: choose one of {', '.join(LAYOUTS)}.")
    return LAYOUTS[name](size)


def encode(puzzles: Tensor, solutions: Tensor | None = None, layout: str = "prefix") -> Batch:
    """Boards `(b, cells)` with 0 for blank as a batch of tokens, of either size."""
    return make_layout(layout, board_size(puzzles.shape[-1])).encode(puzzles, solutions)


def decode(tokens: Tensor, layout: str = "prefix", size: int = 9) -> Tensor:
    """The solutions `(b, cells)` in token sequences (for `prefix`, whole ones or their solution part)."""
    return make_layout(layout, size).decode(tokens)
