"""The denoising of Sudoku boards as a page that plays it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simplax.viz.player import player_page


@dataclass(frozen=True, eq=False)
class Episode:
    """One puzzle and its boards from noise to answer, `frames` (steps + 1, cells); `solution` is None if unknown."""

    puzzle: np.ndarray
    frames: np.ndarray
    solution: np.ndarray | None = None
    caption: str = ""


def denoising_page(episodes: Sequence[Episode]) -> str:
    """A page that plays all episodes, each with its own board."""
    return player_page("Denoising a Sudoku", "denoising", [_plain(episode) for episode in episodes])


def _plain(episode: Episode) -> dict[str, object]:
    return {
        "puzzle": _digits(episode.puzzle),
        "solution": None if episode.solution is None else _digits(episode.solution),
        "frames": [_digits(frame) for frame in episode.frames],
        "caption": episode.caption,
    }


def _digits(board: np.ndarray) -> str:
    return "".join(map(str, board.tolist()))
