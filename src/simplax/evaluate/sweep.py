"""A sweep over sampler settings on development puzzles: a grid of settings, and a file that a new run goes on with."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from simplax.concentration import parse
from simplax.errors import UserError
from simplax.evaluate.sudoku import Score
from simplax.io import manifest
from simplax.pretrained.model import Model
from simplax.samplers import Sampler
from simplax.samplers.adjust import REDRAWS, redrawing

OWN = "own"
"""The model's own sampler, with another eta if one is given."""


@dataclass(frozen=True)
class Settings:
    """One point of a sweep; None is the model's own. `eta` is text, as people type it."""

    clues: int
    num_steps: int
    redraw: str = OWN
    eta: str | None = None
    share: float | None = None
    temperature: float | None = None
    time_power: float | None = None

    def sampler(self, model: Model) -> Sampler[Any]:
        eta = None if self.eta is None else parse(self.eta)
        if self.redraw != OWN:
            return redrawing(self.redraw, self.share, eta, self.time_power or 1.0)
        if self.share is not None:
            raise UserError("--share needs a --redraw: the model's own sampler takes --eta.")
        return model.sampler(eta, time_power=self.time_power, conditional=self.clues > 0)

    def temperature_for(self, model: Model) -> float:
        own = model.defaults(conditional=self.clues > 0).temperature
        return own if self.temperature is None else self.temperature


def grid(
    clues: Sequence[int],
    num_steps: Sequence[int],
    redraws: Sequence[str],
    etas: Sequence[str],
    shares: Sequence[float],
    temperatures: Sequence[float],
    time_powers: Sequence[float],
) -> list[Settings]:
    """All combinations; a list that is empty leaves the model's own value."""
    for name in redraws:
        if name not in (OWN, *REDRAWS):
            raise UserError(f"there is no redraw {name!r}: choose among {OWN}, {', '.join(REDRAWS)}.")
    if etas and shares:
        raise UserError("give etas or shares of redrawn tokens, not both: a share is eta / (1 + eta).")
    amounts: list[tuple[str | None, float | None]] = [(eta, None) for eta in etas]
    amounts += [(None, share) for share in shares]
    nothing: tuple[float | None, ...] = (None,)
    product = itertools.product(
        dict.fromkeys(clues),
        dict.fromkeys(redraws or [OWN]),
        dict.fromkeys(tuple(time_powers) or nothing),
        dict.fromkeys(tuple(temperatures) or nothing),
        dict.fromkeys(num_steps),
        dict.fromkeys(amounts or [(None, None)]),
    )
    return [
        Settings(count, steps, redraw, eta, share, temperature, power)
        for count, redraw, power, temperature, steps, (eta, share) in product
    ]


def measured(path: Path, identity: dict[str, Any]) -> dict[Settings, dict[str, Any]]:
    """The points of an earlier sweep in this file, which must be of the same weights, puzzles and noise."""
    if not path.exists():
        return {}
    try:
        stored, intact = manifest.read(path)
        if not intact:
            raise KeyError("the numbers that were measured")
        known, points = stored["sweep"], stored["result"]
        found = {Settings(**point["settings"]): point for point in points}
    except (UserError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} is not a sweep that could be continued: name another --out or remove it."
        ) from error
    different = [name for name, value in identity.items() if known.get(name) != value]
    if different:
        raise UserError(
            f"{path} is a sweep with another {' and '.join(different)}: name another --out or remove it."
        )
    return found


def point(settings: Settings, score: Score) -> dict[str, Any]:
    """A measured point: solved boards, or valid ones where there are no clues."""
    measure, share = ("valid", score.validity) if score.accuracy is None else ("solved", score.accuracy)
    return {
        "settings": asdict(settings),
        "clues": score.clues,
        "eta": settings.eta,
        "num_steps": score.num_steps,
        **score.work(),
        "measure": measure,
        "value": share.value,
        "low": share.low,
        "high": share.high,
        "num": score.num,
        "distinct": score.distinct,
        "puzzles_per_second": score.puzzles_per_second,
    }


AXES = {
    "redraw": "redraw",
    "eta": "η",
    "share": "share",
    "temperature": "T",
    "time_power": "power",
    "num_steps": "calls",
}
"""Settings that a figure may compare, and what it calls them."""


def varying(points: Sequence[dict[str, Any]]) -> list[str]:
    """The settings that differ between points."""
    return [name for name in AXES if len({point["settings"][name] for point in points}) > 1]
