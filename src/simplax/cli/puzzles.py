"""Sudoku puzzles as arguments: the puzzle itself, a file of them, or `-` for standard input."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from simplax.cli.parsing import Weights
from simplax.errors import UserError

if TYPE_CHECKING:
    import numpy as np

    from simplax.pretrained.model import Model
    from simplax.pretrained.numerics import Dtype

BUNDLED = "sudoku"


@dataclass(frozen=True, eq=False)
class Puzzle:
    """A board to fill in; `solution` is None if it has several."""

    board: np.ndarray
    solution: np.ndarray | None


def read_puzzles(arguments: Sequence[str], several: bool = False) -> list[Puzzle]:
    """All puzzles the arguments name, each with its only solution; `several` permits boards that have more."""
    boards = [board for argument in arguments for board in _boards(argument)]
    if not boards:
        raise UserError("give a puzzle of 81 characters, a file of puzzles, or - to read standard input.")
    if len({board.size for board in boards}) > 1:
        raise UserError("give either 9x9 or 4x4 puzzles: one model does not fill in both.")
    puzzles = []
    for number, board in enumerate(boards, 1):
        name = "The puzzle" if len(boards) == 1 else f"Puzzle {number}"
        puzzles.append(Puzzle(board, _solution(board, name, several)))
    return puzzles


def load_solver(
    model: str, weights: Weights = "auto", device: str = "auto", dtype: Dtype = "float32"
) -> Model:
    """The Sudoku model of that name or path."""
    from simplax.evaluate.answers import sudoku_task
    from simplax.pretrained.model import bundled, from_pretrained

    if model == BUNDLED and BUNDLED not in bundled() and not Path(model).is_dir():
        raise UserError(
            "this installation has no bundled Sudoku model: name a run or an exported model with --model."
        )
    loaded = from_pretrained(model, weights=weights, device=device, dtype=dtype)
    sudoku_task(loaded)
    return loaded


def _boards(argument: str) -> list[np.ndarray]:
    from simplax.data.sudoku import load_puzzles, parse_many

    if argument == "-":
        return parse_many(sys.stdin.read())
    if "\n" not in argument and len(argument) < 256 and Path(argument).is_file():
        return load_puzzles(argument)
    if "\n" not in argument and any(letter.isalpha() for letter in argument):
        raise UserError(f"{argument!r} is neither a puzzle nor a file: write 81 cells with . or 0 for blank.")
    return parse_many(argument)


def _solution(board: np.ndarray, name: str, several: bool) -> np.ndarray | None:
    from simplax.data.sudoku import check, conflicts, count_solutions

    if several and not conflicts(board).any() and count_solutions(board, 2) > 1:
        return None
    return check(board, name)
