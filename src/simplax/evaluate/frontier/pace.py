"""How long the rest of a frontier will take, from how long each kind of work has taken so far."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Work = Literal["sampling", "scoring"]


@dataclass(frozen=True)
class Event:
    """Progress of a frontier: `finished` of `total` sets, `done` of `of` sequences of the one at hand.

    `rate` is in sequences per second, `left` in seconds; both None while unknown. A finished set comes with its
    `record`, and `kept` says that it was there already.
    """

    what: str
    work: Work
    done: int
    of: int
    finished: int
    total: int
    rate: float | None = None
    left: float | None = None
    record: Mapping[str, Any] | None = None
    kept: bool = False


class Pace:
    """Seconds per unit of each kind of work; a unit is one network call on one sequence, or one scored text."""

    def __init__(self, pending: Mapping[Work, float], clock: Callable[[], float] = time.monotonic) -> None:
        self.pending = {"sampling": 0.0, "scoring": 0.0, **pending}
        self.units = {"sampling": 0.0, "scoring": 0.0}
        self.seconds = {"sampling": 0.0, "scoring": 0.0}
        self.clock, self.last = clock, clock()

    def start(self) -> None:
        """What follows is work; what came before was not."""
        self.last = self.clock()

    def add(self, work: Work, units: float) -> None:
        now = self.clock()
        self.units[work] += units
        self.pending[work] = max(self.pending[work] - units, 0.0)
        self.seconds[work] += now - self.last
        self.last = now

    def skip(self, work: Work, units: float) -> None:
        """Work that turned out to be done already."""
        self.pending[work] = max(self.pending[work] - units, 0.0)

    def left(self) -> float | None:
        """Seconds to go; None until every kind of work that is pending has been seen."""
        total = 0.0
        for work, units in self.pending.items():
            if not units:
                continue
            if not self.units[work]:
                return None
            total += units * self.seconds[work] / self.units[work]
        return total
