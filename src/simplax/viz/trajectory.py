"""The denoising of texts as one HTML file that needs nothing else: a slider, a play button, no network."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from simplax.hub import Model
    from simplax.prompts import Held
    from simplax.samplers import Samples

_DATA = "/*DATA*/null"
_MOST_FRAMES = 201


def write_page(path: Path, model: Model, drawn: Samples, held: Held | None = None) -> Path:
    """Write the page that plays `drawn`, whose trajectory was kept; tokens of `held` are shown as given."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(trajectory_page(model, drawn, held), encoding="utf-8")
    return path


def trajectory_page(model: Model, drawn: Samples, held: Held | None = None) -> str:
    if drawn.trajectory is None:
        raise ValueError("there is no trajectory to show: sample with trajectory=True")
    template = files("simplax.viz").joinpath("trajectory.html").read_text(encoding="utf-8")
    data = json.dumps(_plain(model, drawn, held), ensure_ascii=False, separators=(",", ":"))
    # inside a script element only a closing tag could end the data early
    return template.replace(_DATA, data.replace("<", "\\u003c"))


def _plain(model: Model, drawn: Samples, held: Held | None) -> dict[str, Any]:
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
                "given": [] if held is None else held.given[row].nonzero().squeeze(-1).tolist(),
                "end": path.shape[-1] if held is None or not held.gaps[row] else held.ends[row],
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
