"""Counting solutions and checking boards, for 9x9 and 4x4 Sudoku.

A board is an array of digits with 0 for blank, flat or square. With the `sudoku` extra the search is
compiled by numba; without it the same code runs as plain Python and finds the same solutions in the same
order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from simplax.errors import UserError

SIZES = {81: 9, 16: 4}


def board_size(cells: int) -> int:
    """Side of a board with that many cells."""
    if cells not in SIZES:
        raise UserError(f"A board has 81 cells (9x9) or 16 cells (4x4), not {cells}.")
    return SIZES[cells]


def flat_board(board: ArrayLike) -> np.ndarray:
    """The board as a flat int8 array, checked for shape and range."""
    cells = np.asarray(board)
    size = board_size(cells.size)
    if cells.shape not in ((size * size,), (size, size)):
        raise UserError(f"A board is flat or square, not of shape {cells.shape}.")
    if not np.issubdtype(cells.dtype, np.integer) or cells.min() < 0 or cells.max() > size:
        raise UserError(f"The cells of a {size}x{size} board are integers from 0 (blank) to {size}.")
    return cells.reshape(-1).astype(np.int8)


class Undecided(Exception):
    """The search was given up: nothing is known about the board."""


def _search(board: ArrayLike, limit: int, most: int = 0) -> tuple[int, np.ndarray]:
    from simplax.data.sudoku import _kernels

    cells = flat_board(board)
    size = board_size(cells.size)
    solution = _kernels.zeros(cells.size)
    buffers = _kernels.tables(size), _kernels.scratch(size)
    found = _kernels.count(_kernels.to_buffer(cells), limit, most, solution, *buffers)
    if found < 0:
        raise Undecided
    return found, np.asarray(solution, dtype=np.int8)


def count_solutions(board: ArrayLike, limit: int = 2) -> int:
    """The number of solutions, counted no further than `limit`; `limit=2` distinguishes unique from ambiguous."""
    if limit < 1:
        raise ValueError("Solutions are counted up to a limit of at least 1.")
    return _search(board, limit)[0]


def solve(board: ArrayLike) -> np.ndarray | None:
    """A solution in the shape of the board (the only one of a proper puzzle), or `None` without any."""
    found, solution = _search(board, 1)
    return solution.reshape(np.shape(board)) if found else None


def only_solution(board: ArrayLike, most_guesses: int = 0) -> np.ndarray | None:
    """The solution of a proper puzzle, flat, and `None` if there are several.

    Some boards take very long, above all some without a solution: after `most_guesses` this raises `Undecided`. A board
    without a solution is a `UserError`.
    """
    found, solution = _search(board, 2, most_guesses)
    if found == 0:
        raise UserError("The puzzle has no solution: look for a mistyped clue.")
    return solution if found == 1 else None


def units(size: int) -> np.ndarray:
    """`(3 * size, size)` cell indices: rows, then columns, then boxes."""
    cells, box = np.arange(size * size).reshape(size, size), int(size**0.5)
    boxes = cells.reshape(box, box, box, box).swapaxes(1, 2).reshape(size, size)
    return np.concatenate([cells, cells.T, boxes])


def conflicts(board: ArrayLike) -> np.ndarray:
    """Marks, in the shape of the board, the cells whose digit occurs again in their row, column or box."""
    cells = flat_board(board)
    clash = np.zeros(cells.size, dtype=bool)
    for unit in units(board_size(cells.size)):
        digits = cells[unit]
        clash[unit] |= (digits > 0) & ((digits[:, None] == digits).sum(1) > 1)
    return clash.reshape(np.shape(board))


def valid_boards(boards: ArrayLike) -> np.ndarray:
    """For each of `(number, cells)` boards, whether every row, column and box holds every digit once."""
    boards = np.asarray(boards)
    size = board_size(boards.shape[-1])
    every = np.arange(1, size + 1)
    return (np.sort(boards[:, units(size)], axis=-1) == every).all(axis=(1, 2))


def is_valid(board: ArrayLike) -> bool:
    """Whether a board is complete and breaks no rule."""
    return bool(valid_boards(flat_board(board)[None])[0])
