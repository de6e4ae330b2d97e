"""The denoising of Sudoku boards as a run that a page plays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Episode:
    """One puzzle and its boards from noise to answer, `frames` (steps + 1, cells); `solution` is None if unknown."""

    puzzle: np.ndarray
    frames: np.ndarray
    solution: np.ndarray | None = None
    caption: str = ""


def denoising_run(
    episodes: Sequence[Episode], name: str, steps: Sequence[int] | None = None
) -> dict[str, object]:
    """All episodes, each with its own board, as a run of a page; `steps` are those of the frames if not every one."""
    numbered = {} if steps is None else {"steps": list(steps)}
    return {"kind": "boards", "name": name, "episodes": [_plain(episode) for episode in episodes], **numbered}


def _plain(episode: Episode) -> dict[str, object]:
    return {
        "puzzle": _digits(episode.puzzle),
        "solution": None if episode.solution is None else _digits(episode.solution),
        "frames": [_digits(frame) for frame in episode.frames],
        "caption": episode.caption,
    }


def _digits(board: np.ndarray) -> str:
    return "".join(map(str, board.tolist()))
