"""The denoising of samples as a page that plays it: boards, drawn molecules, or texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from simplax.tasks.molecules import MoleculesTask
from simplax.tasks.sudoku import SudokuTask
from simplax.viz.denoising import Episode, denoising_run
from simplax.viz.player import write_player

if TYPE_CHECKING:
    from torch import Tensor

    from simplax.pretrained.model import Model
    from simplax.samplers import Samples

_MOST_FRAMES = 201


@dataclass(frozen=True, eq=False)
class Played:
    """Tokens (frames, batch, length) on the way to some samples, the steps they were at, and what was given."""

    model: Model
    tokens: Tensor
    steps: list[int]
    seeds: list[int]
    given: Tensor | None
    stops: Sequence[int] | None

    @property
    def name(self) -> str:
        return f"{self.model.config.name}, {self.steps[-1]} steps"


def write_page(
    path: Path, model: Model, drawn: Samples, given: Tensor | None = None, stops: Sequence[int] | None = None
) -> Path:
    """Write the page that plays `drawn`, whose trajectory was kept.

    Tokens where `given` (batch, length) is true are marked as clamped; of each sequence the tokens before its entry of
    `stops` are shown, or those of its known length.
    """
    title, _ = _view(model)
    return write_player(path, title, [trajectory_run(model, drawn, given, stops)])


def trajectory_run(
    model: Model, drawn: Samples, given: Tensor | None = None, stops: Sequence[int] | None = None
) -> dict[str, Any]:
    """The samples as a run of a page."""
    if drawn.trajectory is None:
        raise ValueError("there is no trajectory to show: sample with trajectory=True")
    if stops is None and drawn.lengths is not None:
        stops = drawn.lengths.tolist()
    tokens = drawn.trajectory.cpu()
    last = len(tokens) - 1
    shown = torch.linspace(0, last, min(len(tokens), _MOST_FRAMES)).round().long()
    given = None if given is None else given.cpu()
    _, run = _view(model)
    return run(Played(model, tokens[shown], shown.tolist(), drawn.seeds.tolist(), given, stops))


def _texts(path: Played) -> dict[str, Any]:
    ids = path.tokens.unique()
    frames = torch.searchsorted(ids, path.tokens)
    return {
        "kind": "texts",
        "name": path.name,
        "words": [word(path.model, int(number)) for number in ids],
        "steps": path.steps,
        "samples": [
            {
                "seed": seed,
                "given": [] if path.given is None else path.given[row].nonzero().squeeze(-1).tolist(),
                "end": path.tokens.shape[-1] if path.stops is None else path.stops[row],
                "frames": frames[:, row].tolist(),
            }
            for row, seed in enumerate(path.seeds)
        ],
    }


def _boards(path: Played) -> dict[str, Any]:
    from simplax.data.sudoku import count_solutions, is_valid, solve

    task = path.model.config.task
    assert isinstance(task, SudokuTask)
    layout, last = task.board_layout, path.tokens[-1]
    given = torch.zeros_like(last, dtype=torch.bool) if path.given is None else path.given
    puzzles = layout.clues(last, given).numpy()
    boards = np.stack([layout.decode(frame).numpy() for frame in path.tokens], axis=1)
    episodes = []
    for seed, puzzle, frames in zip(path.seeds, puzzles, boards):
        # with few clues there are many right answers: then only the rules say what is wrong
        known = solve(puzzle) if puzzle.any() and count_solutions(puzzle) == 1 else None
        words = "ends valid" if is_valid(frames[-1]) else "ends not valid"
        episodes.append(Episode(puzzle, frames, known, f"seed {seed}: {words}"))
    return denoising_run(episodes, path.name, path.steps)


def _molecules(path: Played) -> dict[str, Any]:
    from simplax.viz.structures import drawings

    frames = [path.model.decode(frame) for frame in path.tokens]
    # every string once: most frames repeat the one before
    strings = sorted({text for frame in frames for text in frame})
    number = {text: place for place, text in enumerate(strings)}
    return {
        "kind": "molecules",
        "name": path.name,
        "strings": strings,
        "structures": drawings(strings),
        "steps": path.steps,
        "samples": [
            {"seed": seed, "frames": [number[frame[row]] for frame in frames]}
            for row, seed in enumerate(path.seeds)
        ],
    }


# what samples of a task are shown as, and the title of the page; texts if it is not here
_VIEWS: dict[type, tuple[str, Callable[[Played], dict[str, Any]]]] = {
    SudokuTask: ("Denoising a Sudoku", _boards),
    MoleculesTask: ("Denoising molecules", _molecules),
}


def _view(model: Model) -> tuple[str, Callable[[Played], dict[str, Any]]]:
    title = "Denoising a text" if model.tokenizer is not None else "Denoising sequences"
    return _VIEWS.get(type(model.config.task), (title, _texts))


def word(model: Model, number: int) -> str:
    """One token on its own, as people read it; half a character shows as a replacement sign."""
    if number >= model.config.task.vocab_size:
        return "░"  # a mask: no token yet
    if model.tokenizer is None:
        return f"{number} "
    return model.tokenizer.decode([number])
