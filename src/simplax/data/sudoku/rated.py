"""Puzzles with answers and ratings from a CSV file of the shape of Sudoku-Extreme.

Such a file has the columns `question`, `answer` and `rating`, with or without `source`; boards are 81 characters by
rows with `.` or `0` for blank, and a rating counts the backtracks of a solver. Nothing of the kind comes with the
package: whoever wants to train on it or be measured by it downloads it.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simplax.data.sudoku.puzzles import PuzzleSet
from simplax.data.sudoku.solver import valid_boards
from simplax.errors import UserError

COLUMNS = ("question", "answer", "rating")
_BLANKS = str.maketrans(".", "0")


@dataclass(frozen=True, eq=False)
class RatedPuzzles:
    """`ratings` (number,) are those of the file."""

    puzzles: PuzzleSet
    ratings: np.ndarray

    def __len__(self) -> int:
        return len(self.puzzles)

    def __getitem__(self, which: np.ndarray | slice) -> RatedPuzzles:
        return RatedPuzzles(self.puzzles[which], self.ratings[which])

    def some(self, number: int | None, seed: int = 0) -> RatedPuzzles:
        """That many in a seeded order, or all in the file's own: such files are sorted and neighbours are related."""
        if number is None or number >= len(self):
            return self
        return self[np.array(random.Random(seed).sample(range(len(self)), number))]


def is_rated(path: str | Path) -> bool:
    """Whether a file is to be read as CSV."""
    return str(path).lower().endswith(".csv")


def load_rated(path: str | Path) -> RatedPuzzles:
    """All puzzles of a CSV file; what is not one is reported with its line."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(_rows(csv.reader(file), path))
    except OSError as error:
        raise UserError(f"the file {path} cannot be read: {error.strerror}.") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path} is not a CSV file of text: {error}.") from error
    if not rows:
        raise UserError(f"{path} has no puzzles below its header.")
    digits = np.frombuffer("".join(q + a for q, a, _ in rows).encode(), np.uint8).reshape(-1, 2, 81) - ord(
        "0"
    )
    boards = digits.astype(np.int8)
    result = RatedPuzzles(
        PuzzleSet(boards[:, 0], boards[:, 1]), np.array([rating for *_, rating in rows], dtype=np.int64)
    )
    _check(result.puzzles, path)
    return result


def _rows(reader: Iterator[list[str]], path: str | Path) -> Iterator[tuple[str, str, int]]:
    header = [name.strip().lower() for name in next(reader, [])]
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise UserError(
            f"{path} has no column {missing[0]!r}: the first line must name question, answer and rating."
        )
    question, answer, rating = (header.index(name) for name in COLUMNS)
    for number, row in enumerate(reader, 2):
        if not row:
            continue
        try:
            boards = [row[place].translate(_BLANKS) for place in (question, answer)]
            value = int(row[rating])
        except (IndexError, ValueError):
            raise UserError(f"line {number} of {path} has no puzzle, answer and whole rating.") from None
        if any(len(b) != 81 or not (b.isascii() and b.isdecimal()) for b in boards):
            raise UserError(
                f"line {number} of {path}: question and answer must be 81 cells, . or 0 for blank."
            )
        yield boards[0], boards[1], value


def _check(boards: PuzzleSet, path: str | Path) -> None:
    """An answer is a valid board that keeps the clues. That it is the only one is not checked."""
    kept = ((boards.puzzles == 0) | (boards.puzzles == boards.solutions)).all(1)
    bad = np.flatnonzero(~(kept & valid_boards(boards.solutions)))
    if len(bad):
        raise UserError(f"puzzle {bad[0] + 1} of {path}: the answer is no solution of the question.")
