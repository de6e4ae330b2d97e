"""Sudoku as a benchmark: boards solved by clue count, and valid boards where no clue is given."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from simplax.data.sudoku import PuzzleSet, conflicts
from simplax.evaluate.answers import answer, noise_seeds
from simplax.evaluate.intervals import wilson
from simplax.evaluate.sudoku import FROM_FILE, Split, puzzle_set
from simplax.pretrained.model import Model
from simplax.suites.benchmark import Benchmark, Column, Measured, Point, Progress, Surroundings

CLUED, BLANK = "clues", "blank"
_STREAMS: dict[Split, int] = {"eval": 0, "dev": 1}


@dataclass(frozen=True)
class SudokuBenchmark(Benchmark):
    """`num` puzzles at every clue count, `calls` network calls each.

    Settings are chosen twice: on `develop_num` puzzles with `develop_clues` clues, and on as many blank boards.

    A column ends early, after a multiple of `chunk` puzzles, when its 95 % interval is no wider than `enough`: what
    is hopeless, or beyond doubt, is not drawn 500 times. `batch_size` belongs to the numbers, because in bfloat16 sums
    may depend on it.
    """

    size: int = 9
    clues: tuple[int, ...] = (40, 35, 30, 25, 20, 17, 0)
    num: int = 500
    calls: int = 89
    develop_clues: int = 30
    develop_num: int = 48
    chunk: int = 100
    enough: float = 0.04
    batch_size: int = 50

    def points(self) -> tuple[Point, ...]:
        return tuple(
            Point(
                str(count),
                CLUED if count else BLANK,
                self.calls,
                (Column(str(count), f"{count} clues" if count else "0 clues, valid"),),
            )
            for count in self.clues
        )

    def missing(self, point: Point, around: Surroundings) -> str | None:
        needs = self.size == 9 and int(point.key) in FROM_FILE and around.puzzles is None
        return "a file of 17-clue puzzles, --puzzles FILE" if needs else None

    def drawn(self, point: Point | None) -> int:
        return self.develop_num if point is None else self.num

    def develop(
        self, model: Model, group: str, around: Surroundings, progress: Progress
    ) -> tuple[float, float]:
        count = self.develop_clues if group == CLUED else 0
        puzzles = puzzle_set(count, self.develop_num, size=self.size, split="dev")
        right, _, nfe = self._answered(model, puzzles, 0, len(puzzles), count, "dev", progress)
        return float(right.mean()), nfe

    def measure(self, model: Model, point: Point, around: Surroundings, progress: Progress) -> Measured:
        start, count = time.perf_counter(), int(point.key)
        puzzles = puzzle_set(count, self.num, size=self.size, split="eval", file=around.puzzles)
        right, cells, calls, low, high = np.zeros(0, dtype=bool), 0.0, 0.0, 0.0, 1.0
        for first in range(0, self.num, self.chunk):
            stop = min(first + self.chunk, self.num)
            more, share, nfe = self._answered(model, puzzles, first, stop, count, "eval", progress)
            cells, calls = cells + share * len(more), calls + nfe * len(more)
            right = np.concatenate([right, more])
            low, high = wilson(int(right.sum()), len(right))
            if high - low <= self.enough:
                break
        facts = {"sha256": puzzles.sha256(), "correct": int(right.sum()), "cells": cells / len(right)}
        value = float(right.mean())
        seconds = time.perf_counter() - start
        return Measured({point.key: (value, low, high)}, len(right), calls / len(right), seconds, facts)

    def _answered(
        self,
        model: Model,
        puzzles: PuzzleSet,
        first: int,
        stop: int,
        count: int,
        split: Split,
        tell: Progress,
    ) -> tuple[np.ndarray, float, float]:
        """Which of the puzzles `first:stop` are right, the share of right cells (of a blank board: those that break no
        rule), and calls per puzzle; a puzzle's noise belongs to its place in the set."""
        chosen = puzzles[first:stop]
        seeds = noise_seeds(0, range(first, stop), _STREAMS[split])
        found = answer(
            model,
            chosen.puzzles,
            seeds,
            batch_size=self.batch_size,
            progress=lambda done: tell(first + done),
        )
        if count == 0:
            return found.valid, 1 - float(np.mean([conflicts(board) for board in found.boards])), found.nfe
        blank = chosen.puzzles == 0
        cells = float((found.boards == chosen.solutions)[blank].mean())
        return found.equal(chosen.solutions), cells, found.nfe
