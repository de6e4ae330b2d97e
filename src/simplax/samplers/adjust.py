"""A sampler with some of its settings changed, for people who type them."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass, replace
from typing import Any, cast

from simplax.concentration import Concentration
from simplax.errors import UserError
from simplax.samplers.base import Sampler
from simplax.samplers.kappa import Fixed, FromEta
from simplax.samplers.positions import SudokuColours
from simplax.samplers.psi import Psi
from simplax.times import Grid


def adjusted(
    sampler: Sampler[Any],
    *,
    eta: float | Concentration | None = None,
    time_power: float | None = None,
) -> Sampler[Any]:
    """`sampler` with another concentration and another power of its grid of times, where one is given.

    For `Psi` the concentration says how many tokens are redrawn: a share eta / (1 + eta).
    """
    chosen: Any = sampler
    known = {f.name for f in fields(chosen)} if is_dataclass(chosen) else set()
    if eta is not None and isinstance(sampler, Psi):
        chosen = replace(chosen, kappa=FromEta(eta))
    elif eta is not None:
        if "eta" not in known:
            raise UserError(f"the sampler {type(sampler).__name__} has no concentration: leave eta out.")
        if not isinstance(eta, Concentration) and eta < 0:
            raise UserError(f"the concentration eta must not be negative, got {eta}.")
        chosen = replace(chosen, eta=eta)
    if time_power is not None:
        if "times" not in known or not isinstance(chosen.times, Grid):
            raise UserError(
                f"the sampler {type(sampler).__name__} has times of its own: leave the time power out."
            )
        if not 0 < time_power < math.inf:
            raise UserError(f"the time power must be positive and finite, got {time_power}.")
        chosen = replace(chosen, times=replace(chosen.times, power=time_power))
    return cast(Sampler[Any], chosen)


# what tokens are redrawn from, for comparisons: the options of `Psi` that each name stands for
REDRAWS: dict[str, dict[str, Any]] = {
    "simplax": {"redraw": "prediction", "prediction": "previous"},
    "prediction": {"redraw": "prediction"},
    "posterior": {},
    "coloured": {"redraw": "prediction", "positions": SudokuColours()},
    "coloured-posterior": {"positions": SudokuColours()},
}


def redrawing(name: str, share: float | None, eta: float | Concentration | None, power: float) -> Psi:
    """The member of the re-anchoring family of that name, which redraws a share, or as much as a concentration says."""
    if name not in REDRAWS:
        raise UserError(f"there is no redraw {name!r}: choose one of {', '.join(REDRAWS)}.")
    if (share is None) == (eta is None):
        raise UserError("say how much is redrawn: by a share or by eta, and not by both.")
    if share is not None and not 0 <= share <= 1:
        raise UserError(f"the share of redrawn tokens must lie between 0 and 1, got {share}.")
    kappa = FromEta(eta) if eta is not None else Fixed(1 - float(share or 0.0))
    return Psi(kappa, Grid(power=power), **REDRAWS[name])
