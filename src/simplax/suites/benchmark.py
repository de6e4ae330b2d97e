"""What a suite measures: settings are chosen on a development set, numbers come from an evaluation set."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from simplax.pretrained.model import Model

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Column:
    """A number per row; `scale` is 100 for shares. `best` is `high`, `low`, or `none` where no value is better.

    Neighbours with the same `heading` are printed as one table below it.
    """

    key: str
    title: str
    best: str = "high"
    scale: float = 100.0
    digits: int = 1
    heading: str = ""

    @property
    def full_title(self) -> str:
        """A title that stands alone."""
        return f"{self.heading}: {self.title}" if self.heading else self.title


@dataclass(frozen=True)
class Point:
    """What is measured in one go with `calls` network calls at most; `group` says whose setting it takes."""

    key: str
    group: str
    calls: int
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Surroundings:
    """Where files are that only some machines have: they change what can be measured, never a number."""

    puzzles: Path | None = None
    """17-clue Sudoku puzzles, one per line"""
    workers: int = 1
    """processes that compute properties"""


@dataclass(frozen=True)
class Measured:
    """`values` by column, each `(value, low, high)` with a 95 % interval or two times None; `num` how many were drawn.

    `facts` are whatever else is worth keeping: digests of the sets, seconds, other columns.
    """

    values: Mapping[str, tuple[float | None, float | None, float | None]]
    num: int
    nfe: float
    seconds: float
    facts: Mapping[str, Any] = field(default_factory=dict)


class Benchmark(abc.ABC):
    """A frozen dataclass of numbers. Each group of points has a sampler setting of its own, chosen on development data.

    A model comes with the setting and the number of calls as its defaults.
    """

    @abc.abstractmethod
    def points(self) -> tuple[Point, ...]: ...

    @abc.abstractmethod
    def develop(
        self, model: Model, group: str, around: Surroundings, progress: Progress
    ) -> tuple[float, float]:
        """A score on the development set, higher is better, and the calls it took per sequence."""

    @abc.abstractmethod
    def measure(self, model: Model, point: Point, around: Surroundings, progress: Progress) -> Measured:
        """The numbers of one point on the evaluation set."""

    @abc.abstractmethod
    def drawn(self, point: Point | None) -> int:
        """Sequences drawn at a point, at most; with None those of one try on development data."""

    def missing(self, point: Point, around: Surroundings) -> str | None:
        """What is needed to measure this point and is not there, in words."""
        return None

    def development_calls(self, group: str) -> int:
        """Network calls per sequence of a try."""
        return next(point.calls for point in self.points() if point.group == group)

    def groups(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(point.group for point in self.points()))

    def references(self) -> tuple[str, ...]:
        """Names of rows that need no model: controls, and what the data itself scores."""
        return ()

    def refer(self, name: str, around: Surroundings, progress: Progress) -> Measured:
        """One of `references`, measured like a model."""
        raise NotImplementedError(f"{type(self).__name__} has no reference rows")
