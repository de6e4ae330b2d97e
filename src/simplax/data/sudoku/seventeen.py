"""Evaluation sets with few clues, from a file of 17-clue puzzles."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np

from simplax.data.sudoku.boards import check, load_puzzles, to_text
from simplax.data.sudoku.puzzles import PuzzleSet
from simplax.errors import UserError


def extend_seventeen(path: str | Path, clues: int, num: int, seed: int = 0, skip: int = 0) -> PuzzleSet:
    """`num` puzzles with 17 or 20 clues: the file in a seeded order, with solution cells added to make 20.

    Such files are sorted and neighbours are related, hence the shuffle. `skip` leaves out the first puzzles
    of that order: a development set skips those that an evaluation with the same seed uses. The cells added
    to a puzzle depend on the seed and the puzzle alone.
    """
    if clues not in (17, 20):
        raise UserError(f"A file of 17-clue puzzles makes sets with 17 or 20 clues, not {clues}.")
    boards = load_puzzles(path)
    if len(boards) < skip + num:
        raise UserError(
            f"The file {path} has {len(boards)} puzzles, but {skip + num} are needed: request fewer."
        )
    order = list(range(len(boards)))
    random.Random(seed).shuffle(order)
    pairs = [_extend(boards[i], clues, seed, f"Puzzle {i + 1} of {path}") for i in order[skip : skip + num]]
    cells = np.array(pairs, dtype=np.int8).reshape(num, 2, 81)
    return PuzzleSet(cells[:, 0], cells[:, 1])


def _extend(board: np.ndarray, clues: int, seed: int, name: str) -> tuple[np.ndarray, np.ndarray]:
    if board.size != 81 or np.count_nonzero(board) != 17:
        raise UserError(
            f"{name} has {np.count_nonzero(board)} clues: every puzzle of the file must be 9x9 with 17."
        )
    solution = check(board, name)
    added = random.Random(f"{seed} {to_text(board)}").sample(np.flatnonzero(board == 0).tolist(), clues - 17)
    puzzle = board.copy()
    puzzle[added] = solution[added]
    return puzzle, solution
