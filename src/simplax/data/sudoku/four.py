"""4x4 Sudoku: all 288 solutions, 48 of them never trained on."""

from __future__ import annotations

from functools import cache
from itertools import combinations, permutations

import numpy as np

from simplax.data.sudoku.puzzles import PuzzleSet
from simplax.data.sudoku.solver import valid_boards
from simplax.errors import UserError
from simplax.random import Keys

NUM_HELD_OUT = 48
_SPLIT_SEED = 42


@cache
def solutions_4x4() -> np.ndarray:
    """`(288, 16)` every complete 4x4 board, in lexicographic order."""
    rows = np.array(list(permutations(range(1, 5))), dtype=np.int8)
    pairs = np.array([[*a, *b] for a in rows for b in rows if not set(a[:2]) & set(b[:2])], dtype=np.int8)
    boards = np.concatenate([np.repeat(pairs, len(pairs), 0), np.tile(pairs, (len(pairs), 1))], axis=1)
    solutions = boards[valid_boards(boards)]
    solutions.flags.writeable = False
    return solutions


@cache
def puzzles_4x4(clues: int = 6) -> tuple[PuzzleSet, PuzzleSet]:
    """Every puzzle with that many clues and one solution, for the 240 training and the 48 held-out solutions.

    Both sets come in a fixed random order that takes one puzzle of every solution, then a second of every
    solution, and so on: the first 48 held-out puzzles have the 48 held-out solutions.
    """
    if not 4 <= clues <= 15:
        raise UserError(f"4x4 puzzles with one solution have 4 to 15 clues, not {clues}.")
    order = Keys.from_seeds([_SPLIT_SEED]).bits(288).argsort(stable=True)[0].numpy()
    solutions = solutions_4x4()[order]
    masks, unique = _unique_masks(solutions, clues)
    shuffled = (
        Keys.from_seeds(range(288)).fold_in(_SPLIT_SEED, clues).bits(len(masks)).argsort(stable=True).numpy()
    )
    return _puzzles(
        solutions[:-NUM_HELD_OUT], masks, unique[:-NUM_HELD_OUT], shuffled[:-NUM_HELD_OUT]
    ), _puzzles(solutions[-NUM_HELD_OUT:], masks, unique[-NUM_HELD_OUT:], shuffled[-NUM_HELD_OUT:])


def _unique_masks(solutions: np.ndarray, clues: int) -> tuple[np.ndarray, np.ndarray]:
    """All choices of clue cells `(choices, 16)`; which of them determine which `(solutions, choices)`.

    A choice determines a solution if every other solution differs in one of the cells chosen. Solutions
    that are relabellings of each other share their choices, so twelve cases are enough.
    """
    masks = np.zeros((len(list(combinations(range(16), clues))), 16), dtype=bool)
    for row, cells in enumerate(combinations(range(16), clues)):
        masks[row, list(cells)] = True
    weights = 1 << np.arange(16)
    bits = masks @ weights
    relabelled = np.take_along_axis(solutions[:, :4].argsort(1), solutions.astype(np.int64) - 1, axis=1) + 1
    classes, member_of = np.unique(relabelled, axis=0, return_inverse=True)
    unique = np.ones((len(classes), len(masks)), dtype=bool)
    for index, board in enumerate(classes):
        for difference in np.unique((solutions != board) @ weights):
            if difference:
                unique[index] &= (bits & difference) != 0
    return masks, unique[member_of.reshape(-1)]


def _puzzles(solutions: np.ndarray, masks: np.ndarray, unique: np.ndarray, shuffled: np.ndarray) -> PuzzleSet:
    """The puzzles of some solutions: the choices of each in its shuffled order, the solutions in turns."""
    permitted = np.take_along_axis(unique, shuffled, axis=1)
    rank = permitted.cumsum(1)
    which, column = np.nonzero(permitted)
    turns = np.lexsort((which, rank[which, column]))
    which, column = which[turns], column[turns]
    boards = solutions[which]
    return PuzzleSet(np.where(masks[shuffled[which, column]], boards, 0).astype(np.int8), boards)
