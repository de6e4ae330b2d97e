"""Reading puzzles as people write them.

A puzzle is 81 characters on one line (16 for 4x4) with `.` or `0` for blank, or a grid of one row per line,
with or without spaces and the separators `|`, `-`, `+`. A text may hold several; blank lines and lines that
start with `#` are skipped.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from simplax.data.sudoku.solver import SIZES, board_size, conflicts, count_solutions, flat_board, solve, units
from simplax.errors import UserError

_BLANKS = ".0_*"
_TO_ZERO = str.maketrans(dict.fromkeys(_BLANKS, "0"))
_SEPARATORS = str.maketrans("", "", "|-+ \t\r,")


def parse(text: str) -> np.ndarray:
    """The one board in a text, a flat int8 array with 0 for blank."""
    boards = parse_many(text)
    if len(boards) != 1:
        raise UserError(f"Give one puzzle: the text holds {len(boards)}.")
    return boards[0]


def parse_many(text: str) -> list[np.ndarray]:
    """All boards in a text, lines of whole boards and grids in any mixture."""
    boards: list[np.ndarray] = []
    grid = ""
    rows: set[int] = set()
    for number, line in enumerate(text.splitlines(), 1):
        cells = "" if line.lstrip().startswith("#") else line.translate(_SEPARATORS)
        if not cells:
            continue
        if len(cells) in SIZES and not grid:
            boards.append(_digits(cells, number))
            continue
        rows.add(len(cells))
        if len(cells) not in SIZES.values() or len(rows) > 1:
            raise UserError(
                f"Line {number} has {len(cells)} cells: write a puzzle as 81 (or 16) cells on a line, or as "
                "9 (or 4) lines of 9 (or 4) cells."
            )
        _digits(cells, number, size=len(cells))
        grid += cells
        if len(grid) == len(cells) ** 2:
            boards.append(_digits(grid, number))
            grid, rows = "", set()
    if grid:
        size = rows.pop()
        raise UserError(f"The last grid has {len(grid) // size} rows of {size} cells: write all {size}.")
    return boards


def load_puzzles(path: str | Path) -> list[np.ndarray]:
    """All boards in a file."""
    try:
        boards = parse_many(Path(path).read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"The puzzle file {path} cannot be read: {error}.") from error
    if not boards:
        raise UserError(f"The puzzle file {path} holds no puzzle: write one per line.")
    return boards


def check(board: ArrayLike, name: str = "The puzzle") -> np.ndarray:
    """The only solution of a board; a `UserError` says what is wrong if there is none or several."""
    cells = flat_board(board)
    clash = conflicts(cells)
    if clash.any():
        raise UserError(f"{name} is contradictory: {_describe_clash(cells)}.")
    found = count_solutions(cells, 2)
    if found == 0:
        raise UserError(f"{name} has no solution: look for a mistyped clue.")
    if found > 1:
        raise UserError(f"{name} has more than one solution: add clues until only one is left.")
    solution = solve(cells)
    assert solution is not None
    return solution


def to_text(board: ArrayLike) -> str:
    """The board as one line of digits with `.` for blank, the form `parse` reads."""
    return "".join(str(cell) if cell else "." for cell in flat_board(board))


def _digits(cells: str, line: int, size: int | None = None) -> np.ndarray:
    size = board_size(len(cells)) if size is None else size
    allowed = "123456789"[:size]
    strange = set(cells).difference(allowed, _BLANKS)
    if strange:
        raise UserError(
            f"Line {line} has {min(strange, key=cells.index)!r} in a {size}x{size} puzzle: "
            f"use the digits 1 to {size} and . or 0 for blank."
        )
    return np.frombuffer(cells.translate(_TO_ZERO).encode(), dtype=np.int8) - np.int8(ord("0"))


def _describe_clash(cells: np.ndarray) -> str:
    size = board_size(cells.size)
    for index, unit in enumerate(units(size)):
        counts = np.bincount(cells[unit], minlength=size + 1)[1:]
        if counts.max() > 1:
            kind = ("row", "column", "box")[index // size]
            return f"{kind} {index % size + 1} holds the digit {counts.argmax() + 1} twice or more"
    raise AssertionError("a board that clashes has a unit that clashes")
