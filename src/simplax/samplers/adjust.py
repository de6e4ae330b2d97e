"""A sampler with some of its settings changed, for people who type them."""

from __future__ import annotations

import math
from dataclasses import fields, is_dataclass, replace
from typing import Any, cast

from simplax.concentration import Concentration
from simplax.errors import UserError
from simplax.samplers.base import Sampler
from simplax.times import Grid


def adjusted(
    sampler: Sampler[Any],
    *,
    eta: float | Concentration | None = None,
    time_power: float | None = None,
) -> Sampler[Any]:
    """`sampler` with another concentration and another power of its grid of times, where one is given."""
    chosen: Any = sampler
    known = {f.name for f in fields(chosen)} if is_dataclass(chosen) else set()
    if eta is not None:
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
