"""The denoising of texts as a page that plays it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from simplax.io.files import write_text
from simplax.viz.player import player_page

if TYPE_CHECKING:
    from torch import Tensor

    from simplax.pretrained.model import Model
    from simplax.samplers import Samples

_MOST_FRAMES = 201


def write_page(
    path: Path, model: Model, drawn: Samples, given: Tensor | None = None, stops: Sequence[int] | None = None
) -> Path:
    """Write the page that plays `drawn`, whose trajectory was kept.

    Tokens where `given` (batch, length) is true are marked as clamped; of each sequence the tokens before its entry of
    `stops` are shown.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, trajectory_page(model, drawn, given, stops))
    return path


def trajectory_page(
    model: Model, drawn: Samples, given: Tensor | None = None, stops: Sequence[int] | None = None
) -> str:
    if drawn.trajectory is None:
        raise ValueError("there is no trajectory to show: sample with trajectory=True")
    return player_page("Denoising a text", "trajectory", _plain(model, drawn, given, stops))


def _plain(model: Model, drawn: Samples, given: Tensor | None, stops: Sequence[int] | None) -> dict[str, Any]:
    assert drawn.trajectory is not None
    path = drawn.trajectory.cpu()
    steps = len(path) - 1
    shown = torch.linspace(0, steps, min(len(path), _MOST_FRAMES)).round().long()
    path = path[shown]
    ids = path.unique()
    frames = torch.searchsorted(ids, path)
    return {
        "name": model.config.name,
        "words": [_word(model, int(number)) for number in ids],
        "steps": shown.tolist(),
        "samples": [
            {
                "seed": int(drawn.seeds[row]),
                "given": [] if given is None else given[row].nonzero().squeeze(-1).tolist(),
                "end": path.shape[-1] if stops is None else stops[row],
                "frames": frames[:, row].tolist(),
            }
            for row in range(path.shape[1])
        ],
    }


def _word(model: Model, number: int) -> str:
    """One token on its own; half a character shows as a replacement sign."""
    if number >= model.config.task.vocab_size:
        return "░"  # a mask: no token yet
    if model.tokenizer is None:
        return f"{number} "
    return model.tokenizer.decode([number])
