"""Boards on a terminal: clues blue, right digits plain, wrong ones red, conflicts on a red ground."""

from __future__ import annotations

from typing import Any

import numpy as np

from simplax.data.sudoku.solver import board_size, conflicts

CLUE, RIGHT, WRONG, CONFLICT, RULE = "bold blue", "default", "bold red", "bold white on red", "dim"
LEGEND = [(CLUE, "given"), (RIGHT, "right"), (WRONG, "wrong"), (CONFLICT, "against the rules")]


def board_text(puzzle: np.ndarray, board: np.ndarray, solution: np.ndarray | None = None) -> Any:
    """A board as rich text. Without a solution only conflicts tell right from wrong."""
    from rich.text import Text

    size = board_size(board.size)
    box, clash = int(size**0.5), conflicts(board)
    edge = "+" + ("-" * (2 * box + 1) + "+") * box
    text = Text()
    for row in range(size):
        if row % box == 0:
            text.append(edge + "\n", RULE)
        for column in range(size):
            cell = row * size + column
            text.append("| " if column % box == 0 else "", RULE)
            text.append(
                str(board[cell]) if board[cell] else ".", _style(puzzle, board, solution, clash, cell)
            )
            text.append(" ")
        text.append("|\n", RULE)
    return text.append(edge, RULE)


def legend() -> Any:
    from rich.text import Text

    return Text("  ").join(Text(words, style) for style, words in LEGEND)


def _style(
    puzzle: np.ndarray, board: np.ndarray, solution: np.ndarray | None, clash: np.ndarray, cell: int
) -> str:
    if board[cell] == 0:
        return RULE
    if clash[cell] and not (puzzle[cell] and puzzle[cell] == board[cell]):
        return CONFLICT
    if puzzle[cell]:
        return CLUE if puzzle[cell] == board[cell] else WRONG
    return WRONG if solution is not None and board[cell] != solution[cell] else RIGHT
