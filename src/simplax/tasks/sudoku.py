"""The Sudoku task: puzzles of one size and clue count in one layout."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
from torch import Tensor

from simplax.data import sudoku
from simplax.data.sudoku.source import training_batch
from simplax.errors import UserError
from simplax.tasks.base import Task
from simplax.typing import Batch, Source

_SMALL = 32
_FRESH_SEED = 1_000_000_000  # no seed of the pool, of an evaluation or of a development set is near


@dataclass(frozen=True, eq=False)
class PuzzleSource:
    """A fixed list of puzzles, read round and round."""

    puzzles: sudoku.PuzzleSet
    layout: sudoku.Layout
    augment: bool = False
    seed: int = 0

    def __len__(self) -> int:
        return len(self.puzzles)

    @property
    def length(self) -> int:
        return self.layout.length

    @property
    def vocab_size(self) -> int:
        return self.layout.vocab_size

    def batch(self, indices: Tensor) -> Batch:
        indices = indices.long().cpu()
        chosen = self.puzzles[(indices % len(self.puzzles)).numpy()]
        return training_batch(chosen, self.layout, indices, self.seed if self.augment else None)


@dataclass(frozen=True)
class SudokuTask(Task):
    """Training puzzles of the published pool (9x9) or of the 240 training solutions (4x4).

    Validation uses puzzles from seeds beyond the pool, never the evaluation set: checkpoints and options may be chosen
    on it. `held_out` is how many. `limit` trains on that many freshly made puzzles instead of the pool. `puzzles` names
    a file to train on; its validation puzzles come from the same file, so an evaluation needs another one.
    """

    has_answers: ClassVar[bool] = True

    size: int = 9
    """side of the board: 9 or 4"""
    layout: str = "cells"
    """cells: the board alone, clues clamped; prefix: the clues, then the board"""
    clues: int = 30
    """clues per puzzle"""
    augment: bool = False
    """train on random symmetries of the puzzles: digits, rows, columns, bands, transposition"""
    seed: int = 0
    """order of the puzzles and their symmetries"""
    held_out: int = 256
    """number of validation puzzles, made from seeds beyond the training pool"""
    limit: int | None = None
    """train on this many freshly made puzzles instead of the pool; with a file, on so many of it"""
    puzzles: str | None = None
    """a CSV file with columns question, answer and rating to train on instead of the pool"""

    def __post_init__(self) -> None:
        self._source  # noqa: B018  its checks are ours
        if self.puzzles is not None and self.size != 9:
            raise UserError("a file of puzzles has 9x9 boards: leave the size at 9.")

    @property
    def _source(self) -> sudoku.SudokuSource:
        return sudoku.SudokuSource(self.clues, self.layout, self.size, self.augment, self.seed)

    @cached_property
    def board_layout(self) -> sudoku.Layout:
        return sudoku.make_layout(self.layout, self.size)

    @property
    def length(self) -> int:
        return self.board_layout.length

    @property
    def vocab_size(self) -> int:
        return self.board_layout.vocab_size

    @cached_property
    def _file(self) -> tuple[sudoku.PuzzleSet, sudoku.PuzzleSet]:
        """Training and validation puzzles of the file, in a seeded order: the last ones are held out."""
        whole = sudoku.load_rated(self.puzzles or "")
        order = np.random.default_rng(self.seed).permutation(len(whole))
        number = len(whole) - self.held_out
        if number < max(1, self.limit or 1):
            raise UserError(
                f"{self.puzzles} has {len(whole)} puzzles: too few to hold out {self.held_out} and train on the others."
            )
        return whole.puzzles[order[:number][: self.limit]], whole.puzzles[order[number:]]

    @property
    def training_puzzles(self) -> sudoku.PuzzleSet:
        """What is trained on, if it is a file's."""
        return self._file[0]

    def train(self) -> Source:
        if self.puzzles is not None:
            return PuzzleSource(self.training_puzzles, self.board_layout, self.augment, self.seed)
        if self.limit is None:
            return self._source
        if self.size == 4:
            puzzles = sudoku.puzzles_4x4(self.clues)[0][: self.limit]
        else:
            puzzles = _fresh(self.clues, self.limit, _FRESH_SEED)
        return PuzzleSource(puzzles, self.board_layout, self.augment, self.seed)

    def validation(self) -> Source:
        if self.puzzles is not None:
            puzzles = self._file[1]
        elif self.size == 4:
            puzzles = sudoku.puzzles_4x4(self.clues)[1][: self.held_out]
        elif self.limit is not None:
            puzzles = _fresh(self.clues, self.held_out, 2 * _FRESH_SEED)
        else:
            puzzles = sudoku.development_set(self.clues, self.held_out)
        return PuzzleSource(puzzles, self.board_layout)

    def text(self, tokens: Tensor) -> list[str]:
        return [sudoku.to_text(board) for board in self.board_layout.decode(tokens.cpu()).numpy()]

    def small(self) -> SudokuTask:
        return replace(self, limit=_SMALL, held_out=_SMALL)


def _fresh(clues: int, number: int, first: int) -> sudoku.PuzzleSet:
    boards = sudoku.generate_range(first, number, clues)
    return sudoku.PuzzleSet(boards[:, 0], boards[:, 1])
