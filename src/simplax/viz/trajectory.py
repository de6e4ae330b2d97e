"""The denoising of texts as a page that plays it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from simplax.viz.player import write_player

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
    `stops` are shown, or those of its known length.
    """
    return write_player(path, "Denoising a text", [trajectory_run(model, drawn, given, stops)])


def trajectory_run(
    model: Model, drawn: Samples, given: Tensor | None = None, stops: Sequence[int] | None = None
) -> dict[str, Any]:
    """The samples as a run of a page."""
    if drawn.trajectory is None:
        raise ValueError("there is no trajectory to show: sample with trajectory=True")
    if stops is None and drawn.lengths is not None:
        stops = drawn.lengths.tolist()
    path = drawn.trajectory.cpu()
    steps = len(path) - 1
    shown = torch.linspace(0, steps, min(len(path), _MOST_FRAMES)).round().long()
    path = path[shown]
    ids = path.unique()
    frames = torch.searchsorted(ids, path)
    return {
        "kind": "texts",
        "name": f"{model.config.name}, {steps} steps",
        "words": [word(model, int(number)) for number in ids],
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


def word(model: Model, number: int) -> str:
    """One token on its own, as people read it; half a character shows as a replacement sign."""
    if number >= model.config.task.vocab_size:
        return "░"  # a mask: no token yet
    if model.tokenizer is None:
        return f"{number} "
    return model.tokenizer.decode([number])
