"""The denoising of Sudoku boards as one HTML file that needs nothing else: a slider, a play button, no network."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

import numpy as np

_DATA = "/*EPISODES*/[]"


@dataclass(frozen=True, eq=False)
class Episode:
    """One puzzle and its boards from noise to answer, `frames` (steps + 1, cells); `solution` is None if unknown."""

    puzzle: np.ndarray
    frames: np.ndarray
    solution: np.ndarray | None = None
    caption: str = ""


def denoising_page(episodes: Sequence[Episode]) -> str:
    """A page that plays all episodes, each with its own board."""
    template = files("simplax.viz").joinpath("denoising.html").read_text(encoding="utf-8")
    data = json.dumps([_plain(episode) for episode in episodes], separators=(",", ":"))
    # inside a script element only a closing tag could end the data early
    return template.replace(_DATA, data.replace("<", "\\u003c"))


def _plain(episode: Episode) -> dict[str, object]:
    return {
        "puzzle": _digits(episode.puzzle),
        "solution": None if episode.solution is None else _digits(episode.solution),
        "frames": [_digits(frame) for frame in episode.frames],
        "caption": episode.caption,
    }


def _digits(board: np.ndarray) -> str:
    return "".join(map(str, board.tolist()))
