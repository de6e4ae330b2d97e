"""The paper's figure: one puzzle as several methods fill it in. Blue is given, black is right, red is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simplax.data.sudoku.solver import board_size
from simplax.errors import UserError
from simplax.viz.figures import pyplot, save

GIVEN, RIGHT, WRONG = "#1f4fd8", "#000000", "#d01818"
_COLUMNS = 4
_INCHES = 2.6
_TITLE = 0.5  # half of it goes below the boards, which are square and stay in the middle of their space


def draw_boards(
    puzzle: np.ndarray,
    solution: np.ndarray,
    answers: Mapping[str, np.ndarray],
    paths: Sequence[Path],
    *,
    title: str | None = None,
) -> list[str]:
    """Draw the puzzle and each answer (flat boards, 0 is blank) side by side and write the figure to every path.

    A wrong digit is red; a cell left without a digit shows a red dot. Titles say how many blank cells are wrong.
    """
    if not answers:
        raise UserError("there is nothing to draw: give at least one answer.")
    size, panels = board_size(puzzle.size), {"Puzzle": puzzle, **answers}
    columns = min(_COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    plot = pyplot()
    figure, grid = plot.subplots(
        rows,
        columns,
        figsize=(_INCHES * columns, (_INCHES + _TITLE) * rows),
        layout="constrained",
        squeeze=False,
    )
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for number, (axes, (name, board)) in enumerate(zip(grid.flat, panels.items())):
        _frame(axes, size)
        axes.set_title(_caption(name, puzzle, solution, board, is_puzzle=number == 0), fontsize=11)
        _digits(axes, size, puzzle, solution, board, is_puzzle=number == 0)
    if title:
        figure.suptitle(title)
    return save(figure, paths)


def _caption(name: str, puzzle: np.ndarray, solution: np.ndarray, board: np.ndarray, is_puzzle: bool) -> str:
    if is_puzzle:
        return f"{name} ({np.count_nonzero(puzzle)} given)"
    wrong = int((board != solution).sum())
    return f"{name}: {'solved' if wrong == 0 else f'{wrong} wrong'}"


def _frame(axes: Any, size: int) -> None:
    """Thin lines between cells, thick ones between boxes."""
    box = int(size**0.5)
    for line in range(size + 1):
        width = 1.6 if line % box == 0 else 0.5
        axes.plot([line, line], [0, size], color="black", linewidth=width, solid_capstyle="projecting")
        axes.plot([0, size], [line, line], color="black", linewidth=width, solid_capstyle="projecting")
    axes.set(xlim=(-0.1, size + 0.1), ylim=(size + 0.1, -0.1), aspect="equal")
    axes.axis("off")


def _digits(
    axes: Any, size: int, puzzle: np.ndarray, solution: np.ndarray, board: np.ndarray, is_puzzle: bool
) -> None:
    for cell, digit in enumerate(board.tolist()):
        if digit == 0 and is_puzzle:
            continue
        wrong = digit != solution[cell]
        # a clue that an answer did not keep is wrong, whoever wrote it
        colour = WRONG if wrong else GIVEN if puzzle[cell] else RIGHT
        row, column = divmod(cell, size)
        axes.text(
            column + 0.5,
            row + 0.53,
            str(digit) if digit else "·",
            color=colour,
            ha="center",
            va="center",
            fontsize=108 / size,
            fontweight="bold" if wrong else "normal",
        )
