"""Sudoku as a stream of training batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch import Tensor

from simplax.data.sudoku.augment import augment_puzzles
from simplax.data.sudoku.four import puzzles_4x4
from simplax.data.sudoku.layouts import Layout, make_layout
from simplax.data.sudoku.pools import pool
from simplax.data.sudoku.puzzles import PuzzleSet
from simplax.errors import UserError
from simplax.random import Keys
from simplax.typing import Batch

_ORDER, _AUGMENT = 101, 102


def _puzzles_9x9(clues: int) -> tuple[PuzzleSet, PuzzleSet]:
    whole = pool(clues)
    return whole.train, whole.valid


_SPLITS: dict[int, Callable[[int], tuple[PuzzleSet, PuzzleSet]]] = {9: _puzzles_9x9, 4: puzzles_4x4}


def training_batch(puzzles: PuzzleSet, layout: Layout, indices: Tensor, seed: int | None) -> Batch:
    """These puzzles as tokens, each under a symmetry drawn for its index by `seed`, or as they are without one."""
    boards, solutions = torch.from_numpy(puzzles.puzzles), torch.from_numpy(puzzles.solutions)
    if seed is not None:
        keys = Keys.from_seeds(indices).fold_in(seed, _AUGMENT)
        boards, solutions = augment_puzzles(boards, solutions, keys)
    return layout.encode(boards, solutions)


@dataclass(frozen=True)
class SudokuSource:
    """Training puzzles of one board size and clue count, in one layout; `valid` are those kept for evaluation.

    What a training index contains is a pure function of (`seed`, index): every run of `num_train` indices
    is one pass in an order of its own, and with `augment` each index has its own symmetry, so passes never
    repeat.
    """

    clues: int = 30
    layout: str = "prefix"
    size: int = 9
    augment: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.size not in _SPLITS:
            raise UserError(f"Sudoku boards are 9x9 or 4x4, not {self.size}x{self.size}.")
        if self.augment and self.size == 4:
            raise UserError(
                "4x4 boards are not augmented: symmetries would turn training boards into held-out ones."
            )
        make_layout(self.layout, self.size)

    @cached_property
    def _layout(self) -> Layout:
        return make_layout(self.layout, self.size)

    @cached_property
    def _sets(self) -> tuple[PuzzleSet, PuzzleSet]:
        return _SPLITS[self.size](self.clues)

    @property
    def train(self) -> PuzzleSet:
        return self._sets[0]

    @property
    def valid(self) -> PuzzleSet:
        return self._sets[1]

    @property
    def length(self) -> int:
        return self._layout.length

    @property
    def vocab_size(self) -> int:
        return self._layout.vocab_size

    @property
    def num_train(self) -> int:
        return len(self.train)

    def batch(self, indices: Tensor) -> Batch:
        """The training samples with these global counters."""
        indices = indices.long().cpu()
        chosen = self.train[self._rows(indices).numpy()]
        return training_batch(chosen, self._layout, indices, self.seed if self.augment else None)

    def decode(self, tokens: Tensor) -> Tensor:
        """The boards `(b, cells)` in token sequences of this source's layout."""
        return self._layout.decode(tokens)

    def _rows(self, indices: Tensor) -> Tensor:
        epochs = indices // self.num_train
        rows = torch.empty_like(indices)
        for epoch in epochs.unique().tolist():
            now = epochs == epoch
            rows[now] = _epoch_order(self.seed, epoch, self.num_train)[indices[now] % self.num_train]
        return rows


@lru_cache(maxsize=4)
def _epoch_order(seed: int, epoch: int, number: int) -> Tensor:
    return Keys.from_seeds([seed]).fold_in(_ORDER, epoch).bits(number)[0].argsort(stable=True)
