"""The table of a suite: what was measured so far, which values are best, and what differs between rows."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from typing import Any

from simplax.evaluate.intervals import wilson
from simplax.suites.benchmark import Column
from simplax.suites.declared import Entry, Suite
from simplax.suites.fair import refusals
from simplax.suites.store import Store, read, started

_NAMED = 5  # more rows than that are counted, not named, where they have no numbers
TOO_MANY_CALLS = "no number where every setting of its sampler makes more calls than the column has"


@dataclass(frozen=True)
class Cell:
    """A number as it is printed: `rank` 1 is the best of its column, 2 the second; `spread` the values of the seeds.

    `digits` after the point are the column's if not given.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    num: int | None = None
    spread: tuple[float, ...] = ()
    rank: int = 0
    digits: int | None = None


@dataclass(frozen=True)
class Line:
    """A row; `kind` is `model`, `published` or `reference`, `marks` are letters of footnotes, `state` says why
    it has no numbers."""

    name: str
    title: str
    kind: str
    cells: dict[str, Cell]
    marks: str = ""
    state: str = ""


@dataclass(frozen=True)
class Table:
    title: str
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]
    footnotes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def parts(self) -> list[Part]:
        """The table below each heading; a row without numbers is in the first alone, where it says why."""
        grouped = groupby(self.columns, key=lambda column: column.heading)
        return [
            Part(heading, tuple(columns), tuple(line for line in self.lines if not (number and line.state)))
            for number, (heading, columns) in enumerate(grouped)
        ]


@dataclass(frozen=True)
class Part:
    heading: str
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]


@dataclass
class _Footnotes:
    texts: list[str] = field(default_factory=list)

    def mark(self, texts: Sequence[str]) -> str:
        """Letters for these sentences, the same ones for the same sentence."""
        found = []
        for text in dict.fromkeys(texts):
            if text not in self.texts:
                self.texts.append(text)
            found.append(string.ascii_lowercase[self.texts.index(text)])
        return ",".join(sorted(found))


def table(suite: Suite, store: Store) -> Table:
    """What the results in a directory say; rows without any say why."""
    columns = tuple(column for point in suite.benchmark.points() for column in point.columns)
    footnotes, refused = _Footnotes(), refusals(suite)
    models = [_line(suite, store, entry, columns, footnotes, refused) for entry in suite.entries]
    models = _ranked(models, columns)
    lines: list[Line] = []
    for line in models:
        lines.append(line)
        published = {} if suite.published is None else suite.published.rows.get(line.name, {})
        if published:
            cells = {key: Cell(value, digits=2) for key, value in published.items()}
            lines.append(Line(line.name, "published", "published", cells))
    lines += _references(suite, store)
    remarks = _remarks(suite, models)
    notes = tuple(f"{letter}: {text}." for letter, text in zip(string.ascii_lowercase, footnotes.texts))
    return Table(suite.title, columns, tuple(lines), notes, remarks)


def _line(
    suite: Suite,
    store: Store,
    entry: Entry,
    columns: Sequence[Column],
    footnotes: _Footnotes,
    refused: dict[str, str],
) -> Line:
    reasons = [*entry.differs.values(), *entry.notes]
    if entry.name in refused:
        marks = footnotes.mark(reasons)
        return Line(entry.name, entry.title, "model", {}, marks, f"refused: {refused[entry.name]}")
    records = [started(store, suite, entry, seed) for seed in suite.seeds]
    known = [record for record in records if record is not None]
    points = [point for record in known for point in record["points"].values()]
    skipped = any("skipped" in point["facts"] for point in points)
    marks = footnotes.mark([*reasons, *([TOO_MANY_CALLS] if skipped else [])])
    cells = {column.key: _cell(column, points) for column in columns}
    found = {key: cell for key, cell in cells.items() if cell is not None}
    return Line(entry.name, entry.title, "model", found, marks, "" if found else _state(store, suite, entry))


def _state(store: Store, suite: Suite, entry: Entry) -> str:
    """Why a row has no numbers."""
    for job in suite.jobs():
        if entry not in job.entries:
            continue
        failed = read(store.failure(job.name))
        if failed is not None:
            return f"failed: {str(failed.get('message')).removesuffix('.')}"
    stale = any(read(store.result(entry, seed)) is not None for seed in suite.seeds)
    return "settings changed since it was measured: run again" if stale else "not measured yet"


def _cell(column: Column, points: Sequence[dict[str, Any]]) -> Cell | None:
    """Over all seeds: the mean, the interval of all their draws together, and what each of them gave."""
    found = [(point, point["values"][column.key]) for point in points if column.key in point["values"]]
    values = [value for _, (value, _, _) in found if value is not None]
    if not values:
        return None
    mean, number = sum(values) / len(values), sum(point["num"] for point, _ in found)
    low, high = found[0][1][1:] if len(found) == 1 else (None, None)
    if all("correct" in point["facts"] for point, _ in found):
        correct = sum(point["facts"]["correct"] for point, _ in found)
        mean = correct / number
        low, high = wilson(correct, number)
    scaled = [None if one is None else one * column.scale for one in (mean, low, high)]
    spread = tuple(value * column.scale for value in values) if len(values) > 1 else ()
    return Cell(scaled[0], scaled[1], scaled[2], number, spread)


def _ranked(lines: list[Line], columns: Sequence[Column]) -> list[Line]:
    """With the best and the second best of every column marked; equal values share a rank."""
    for column in columns:
        if column.best == "none":
            continue
        values = [line.cells[column.key].value for line in lines if column.key in line.cells]
        order = sorted(
            {round(value, 6) for value in values if value is not None}, reverse=column.best == "high"
        )
        ranks = {value: rank for rank, value in enumerate(order[:2], start=1)}
        for index, line in enumerate(lines):
            cell = line.cells.get(column.key)
            if cell is not None and cell.value is not None and len(values) > 1:
                changed = replace(cell, rank=ranks.get(round(cell.value, 6), 0))
                lines[index] = replace(line, cells={**line.cells, column.key: changed})
    return lines


def _references(suite: Suite, store: Store) -> list[Line]:
    lines = []
    for name in suite.benchmark.references():
        record = read(store.reference(name))
        if record is None:
            continue
        scales = {column.key: column for point in suite.benchmark.points() for column in point.columns}
        cells = {
            key: _scaled(value, scales[key].scale)
            for key, value in record["points"]["values"].items()
            if key in scales
        }
        lines.append(Line(name, name, "reference", cells))
    return lines


def _scaled(value: Sequence[float | None], scale: float) -> Cell:
    middle, low, high = (None if one is None else one * scale for one in value)
    return Cell(middle, low, high)


def _remarks(suite: Suite, lines: Sequence[Line]) -> tuple[str, ...]:
    run = suite.entries[0].config.run
    tries, seeds = len(suite.entries[0].tries), len(suite.seeds)
    remarks = [
        f"Every row: {run.steps:,} optimizer steps of {run.batch_size} in {run.precision}, the same order of the data, "
        f"networks within 2 % of each other's parameters, {tries} sampler settings tried on development data; "
        f"{'one seed' if seeds == 1 else f'{seeds} seeds, values of each in braces'}.",
        "In brackets: 95 % intervals. Bold: best of its column, underlined: second.",
    ]
    if suite.published is not None:
        remarks.append(f"Published: {suite.published.source}.")
    unmeasured = [line.title for line in lines if line.state]
    if unmeasured:
        named = ", ".join(unmeasured) if len(unmeasured) <= _NAMED else f"{len(unmeasured)} rows"
        remarks.append(f"Without numbers: {named}.")
    return tuple(remarks)


def to_json(found: Table) -> dict[str, Any]:
    """As plain data."""
    return asdict(found)
