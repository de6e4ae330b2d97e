"""Which boards are the same up to every symmetry: digits, bands, stacks, rows and columns within them, transposition.

Of each class one board stands for all, the first in the order of its cells. Finding it takes milliseconds, too long for
millions of boards, so boards are first told apart by numbers that no symmetry changes: how a row goes over into another
(the cycles of the permutation of digits), for all pairs of rows and of columns. Only boards that agree in those are
compared exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations, permutations, product

import numpy as np

from simplax.data.sudoku.puzzles import PuzzleSet

MOST = 2_000
"""Boards that are compared exactly at most: some 20 milliseconds each."""
_CHUNK = 4_096


@dataclass(frozen=True)
class Overlap:
    """How many of some puzzles are another set's up to symmetry: their solutions, and the puzzles themselves."""

    solutions: int
    puzzles: int


def overlap(measured: PuzzleSet, trained: PuzzleSet) -> Overlap | None:
    """How many puzzles of the first set are in the second; None if too many boards are alike to compare them all.

    Puzzles with a single solution that are the same have the same solutions: without such a solution no such puzzle.
    """
    ours, theirs = (fingerprints(each.solutions) for each in (measured, trained))
    alike = measured[np.isin(ours, theirs)], trained[np.isin(theirs, ours)]
    if sum(map(len, alike)) > MOST:
        return None
    first, second = ([canonical(*pair) for pair in zip(each.solutions, each.puzzles)] for each in alike)
    solutions, puzzles = {board for board, _ in second}, set(second)
    return Overlap(sum(board in solutions for board, _ in first), sum(pair in puzzles for pair in first))


def canonical(solution: np.ndarray, puzzle: np.ndarray) -> tuple[bytes, bytes]:
    """The first board of the solution's class, and the first pattern of clues that the puzzle then has."""
    size = int(len(solution) ** 0.5)
    box, columns = int(size**0.5), _columns(size)
    grids = np.stack([board := solution.reshape(size, size), board.T]).astype(np.int64)
    clues = np.stack([mask := puzzle.reshape(size, size) > 0, mask.T])
    # a row that becomes the first one, in some order of its columns, names the digits; the least second row decides
    choices = list(product(range(2), range(size)))
    tops = np.stack([grids[side, row] for side, row in choices])[:, columns]
    names = np.zeros((*tops.shape[:2], size + 1), dtype=np.int64)
    np.put_along_axis(names, tops, np.arange(1, size + 1)[None, None], axis=2)
    beside = [[r for r in range(row // box * box, row // box * box + box) if r != row] for _, row in choices]
    others = np.stack([grids[side, rows] for (side, _), rows in zip(choices, beside)])[:, :, columns]
    others = np.take_along_axis(names[:, None], others, axis=3)
    seconds = (others @ 10 ** np.arange(size - 1, -1, -1)).min(1)
    picked, order = np.nonzero(seconds == seconds.min())
    sides = np.array([side for side, _ in choices])[picked]
    boards = np.take_along_axis(
        names[picked, order][:, None], grids[sides[:, None], :, columns[order]].swapaxes(1, 2), axis=2
    )
    patterns = clues[sides[:, None], :, columns[order]].swapaxes(1, 2)
    rows = _sorted_rows(boards[:, :, 0], box)
    boards, patterns = (np.take_along_axis(each, rows[..., None], axis=1) for each in (boards, patterns))
    flat = [each.reshape(len(each), -1).astype(np.uint8) for each in (boards, patterns)]
    return min((board.tobytes(), pattern.tobytes()) for board, pattern in zip(*flat))


@cache
def _columns(size: int) -> np.ndarray:
    """All orders of columns that keep stacks together."""
    box = int(size**0.5)
    inside = list(permutations(range(box)))
    return np.array(
        [
            [stack * box + column for stack, within in zip(stacks, orders) for column in within]
            for stacks in permutations(range(box))
            for orders in product(inside, repeat=box)
        ]
    )


def _sorted_rows(first: np.ndarray, box: int) -> np.ndarray:
    """(number, size) the order of rows in which the first column is least, bands kept together."""
    bands = first.reshape(len(first), box, box)
    within = bands.argsort(2) + box * np.arange(box)[:, None]
    order = bands.min(2).argsort(1)
    return np.take_along_axis(within, order[..., None], axis=1).reshape(first.shape)


def fingerprints(solutions: np.ndarray) -> np.ndarray:
    """(number,) a number per solution that no symmetry changes; others rarely share it."""
    parts = [solutions[start : start + _CHUNK] for start in range(0, len(solutions), _CHUNK)]
    return np.concatenate([_fingerprints(part) for part in parts]) if parts else np.zeros(0, np.uint64)


def _fingerprints(solutions: np.ndarray) -> np.ndarray:
    size = int(solutions.shape[1] ** 0.5)
    grids = solutions.reshape(-1, size, size).astype(np.int64) - 1
    rows, columns = (_directed(each) for each in (grids, grids.swapaxes(1, 2)))
    return _mixed(np.stack([np.minimum(rows, columns), np.maximum(rows, columns)], axis=1))


def _directed(grids: np.ndarray) -> np.ndarray:
    """The same of rows alone: pairs within each band, and between each two bands, in no order."""
    size = grids.shape[1]
    box = int(size**0.5)
    bands = [range(start, start + box) for start in range(0, size, box)]
    within = [_kinds(grids, list(combinations(band, 2))) for band in bands]
    between = [_kinds(grids, list(product(*pair))) for pair in combinations(bands, 2)]
    sums = [np.sort(np.stack(each, axis=1), axis=1) for each in (within, between)]
    return _mixed(np.concatenate(sums, axis=1))


def _kinds(grids: np.ndarray, pairs: list[tuple[int, int]]) -> np.ndarray:
    """(number,) of the cycle lengths of these pairs of rows, in no order."""
    first, second = (grids[:, list(each)] for each in zip(*pairs))
    step = np.zeros_like(first)
    np.put_along_axis(step, first, second, axis=2)
    twice = np.take_along_axis(step, step, axis=2)
    powers = (twice, np.take_along_axis(step, twice, axis=2), np.take_along_axis(twice, twice, axis=2))
    # a digit comes back after 2, 3 or 4 steps: that many of each tell the cycle lengths of nine digits apart,
    # none of which stays where it is
    still = [(power == np.arange(grids.shape[1])).sum(2) for power in powers]
    return _mixed(np.sort(still[0] * 100 + still[1] * 10 + still[2], axis=1))


def _mixed(values: np.ndarray) -> np.ndarray:
    """(number,) one number for each row of `values` (number, width), order counting."""
    mixed = np.zeros(len(values), dtype=np.uint64)
    for column in values.astype(np.uint64).T:
        mixed = (mixed ^ column) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return mixed
