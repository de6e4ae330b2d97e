"""How time and memory are measured: contestants take turns, so that what slows the machine slows them all."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import torch

Contestant = Callable[[], object]


@dataclass(frozen=True)
class Spread:
    """Median and quartiles."""

    median: float
    low: float
    high: float
    count: int

    @staticmethod
    def of(values: list[float]) -> Spread:
        if len(values) == 1:
            return Spread(values[0], values[0], values[0], 1)
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return Spread(median, low, high, len(values))


@dataclass(frozen=True)
class Race:
    """Seconds of every contestant, round by round."""

    seconds: Mapping[str, list[float]]

    def time(self, name: str) -> Spread:
        return Spread.of(self.seconds[name])

    def ratio(self, name: str, reference: str) -> Spread:
        """Of neighbours in time: the ratio is taken within each round, before anything is averaged."""
        return Spread.of([a / b for a, b in zip(self.seconds[name], self.seconds[reference])])


def race(
    contestants: Mapping[str, Contestant], budget: float, *, warm_up: bool = True, at_least: int = 3
) -> Race:
    """Rounds in which each contestant runs once, in turning order, for about `budget` seconds."""
    start = time.perf_counter()
    names = list(contestants)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    if warm_up:
        for name in names:
            clock(contestants[name])
    rounds, lap = 0, 0.0
    while rounds < at_least or time.perf_counter() - start + lap < budget:
        began = time.perf_counter()
        for name in names[rounds % len(names) :] + names[: rounds % len(names)]:
            seconds[name].append(clock(contestants[name]))
        rounds, lap = rounds + 1, time.perf_counter() - began
    return Race(seconds)


def clock(contestant: Contestant) -> float:
    start = time.perf_counter()
    contestant()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def peak_bytes(contestant: Contestant, ignore: Collection[int] = ()) -> int:
    """The most bytes of new tensors alive at once, by the profiler's memory events.

    Blocks whose size is in `ignore` are not counted: parameters' gradients are recognised by it.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # or the profiler announces each start and stop
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profiler:
        contestant()
    results = profiler.profiler.kineto_results
    events = sorted((e for e in results.events() if e.name() == "[memory]"), key=lambda e: e.start_ns())
    live = peak = 0
    for event in events:
        if abs(event.nbytes()) not in ignore:
            live += event.nbytes()
            peak = max(peak, live)
    return peak
