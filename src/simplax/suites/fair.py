"""Whether rows may stand in one table: same size, data, optimizer, steps and number of tries, or they are not run."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from simplax.config.run import RunConfig, encode, flatten
from simplax.recipes.launch import build
from simplax.suites.declared import Entry, Suite

TOLERANCE = 0.02
"""How far the number of parameters may be from that of the other rows."""
_FREE = ("run.log_every", "run.save_every", "run.validate_every", "run.keep")


@lru_cache(maxsize=256)
def _parameters(shape: RunConfig) -> int:
    return sum(parameter.numel() for parameter in build(shape).parameters())


def parameters(config: RunConfig) -> int:
    """Of the network that this run trains."""
    return _parameters(replace(config, name=""))


def common(entries: Sequence[Entry]) -> dict[str, Any]:
    """What most rows have, setting by setting: the standard that the others are held against."""
    every = [_settings(entry.config) for entry in entries]
    names = dict.fromkeys(name for one in every for name in one)
    return {name: statistics.mode([repr(one.get(name)) for one in every]) for name in names}


def refusals(suite: Suite) -> dict[str, str]:
    """Rows that are not trained, with the reason in one sentence; none in a suite that is as it should be."""
    standard = common(suite.entries)
    size = statistics.median(parameters(entry.config) for entry in suite.entries)
    number = statistics.mode([len(entry.tries) for entry in suite.entries])
    found = {}
    for entry in suite.entries:
        reason = _unequal(entry, standard, size, number)
        if reason is not None:
            found[entry.name] = reason
    return found


def _unequal(entry: Entry, standard: dict[str, Any], size: float, number: int) -> str | None:
    own = parameters(entry.config)
    if abs(own / size - 1) > TOLERANCE:
        return (
            f"it has {own:,} parameters and the others {size:,.0f}: more than {TOLERANCE:.0%} apart, "
            "choose another width"
        )
    if len(entry.tries) != number:
        return f"its sampler has {len(entry.tries)} tries and the others {number}: give all the same number"
    settings = _settings(entry.config)
    for name in dict.fromkeys([*standard, *settings]):
        if repr(settings.get(name)) != standard.get(name, repr(None)) and name not in entry.differs:
            return (
                f"its {name} is {settings.get(name)!r} and that of the others {standard.get(name)}: make it the "
                "same, or declare the difference"
            )
    return None


def _settings(config: RunConfig) -> dict[str, Any]:
    parts = {"task": config.task, "architecture": config.architecture, "run": config.run}
    flat = flatten({name: encode(part) for name, part in parts.items()})
    return {name: value for name, value in flat.items() if name not in _FREE}


def matched(make: Callable[[int], RunConfig], width: int, heads: int, size: int) -> RunConfig:
    """`make(width)` if its network has about `size` parameters, else the run at the width that comes closest."""
    own = make(width)
    if abs(parameters(own) / size - 1) <= TOLERANCE:
        return own
    step = 2 * heads
    return min(
        (make(one) for one in range(step, 3 * width, step)), key=lambda run: abs(parameters(run) - size)
    )
