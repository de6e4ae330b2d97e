"""Every column of a table of generated molecules, by the definitions of the public MOSES code.

The order of work is theirs: validity over all strings; then each valid string in canonical form, in generation order
and with duplicates; uniqueness over the first k of these; everything else over all of them, novelty over distinct ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from simplax.data.molecules.canonical import canonical, parse
from simplax.data.molecules.tokens import PAD
from simplax.errors import UserError
from simplax.evaluate.intervals import wilson
from simplax.evaluate.molecules.chemistry import ERRORS, PROPERTIES, Molecule, describe_all, error_kind
from simplax.evaluate.molecules.chemnet import (
    Moments,
    activations,
    extrapolated,
    frechet,
    jackknife_error,
)
from simplax.evaluate.molecules.references import References
from simplax.evaluate.molecules.similarity import mean_similarities, nearest
from simplax.evaluate.molecules.statistics import (
    Statistics,
    fragment_counts,
    packed,
    scaffold_counts,
)

UNIQUE_AT = (1000, 10_000)
SETS = ("Test", "TestSF")
_GOOD_QED, _GOOD_SA = 0.6, 4.0
_Z = 1.959963984540054
_GROUPS = 10
_FEWEST_FOR_ERRORS = 20

Stage = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Measured:
    """`values` by column (None where one cannot be computed), 95 % `intervals`, and what pictures are drawn from.

    `errors` counts the invalid strings by kind; `molecules` are the valid ones in generation order.
    """

    values: dict[str, float | None]
    intervals: dict[str, tuple[float, float]]
    errors: dict[str, int]
    num: int
    num_valid: int
    valid: list[bool] = field(repr=False)
    molecules: list[Molecule] = field(repr=False)

    def to_json(self) -> dict[str, Any]:
        return {
            **self.values,
            "num": self.num,
            "num_valid": self.num_valid,
            "errors": self.errors,
            "intervals": {name: list(ends) for name, ends in self.intervals.items()},
        }


def measure(
    strings: Sequence[str],
    against: References,
    *,
    unique_at: Sequence[int] = UNIQUE_AT,
    workers: int = 1,
    nearest_of: int | None = None,
    progress: Stage | None = None,
) -> Measured:
    """Measure strings as they stand, in generation order, duplicates and invalid ones included.

    `nearest_of` computes SNN, the slowest column and one that does not depend on the number of molecules, on the first
    so many only.
    """
    if not strings:
        raise UserError("there are no strings to measure: give at least one.")
    tell = progress or (lambda stage, done, total: None)
    table = _Table()
    forms = []
    for done, text in enumerate(strings, 1):
        forms.append(_form(text))
        tell("reading strings", done, len(strings))
    valid = [form is not None for form in forms]
    spelled = [form for form in forms if form is not None]
    table.share("valid", len(spelled), len(strings))
    table.share("interior_pads", sum(PAD in text for text in strings), len(strings))
    for k in unique_at:
        table.share(f"unique@{k}", len(set(spelled[:k])), len(spelled[:k]))
    kinds = Counter(error_kind(text) for text, right in zip(strings, valid) if not right)
    errors = {kind: kinds[kind] for kind in ERRORS if kinds[kind]}
    distinct = set(spelled)
    table.share("Novelty", len(distinct.difference(against.train)), len(distinct))
    molecules = describe_all(
        spelled, workers=workers, progress=lambda done: tell("properties", done, len(distinct))
    )
    good = {m.canonical for m in molecules if m.values[2] >= _GOOD_QED and m.values[1] <= _GOOD_SA}
    table.share("Quality", len(good), len(strings))
    table.share("VUN", len(distinct.difference(against.train)), len(strings))
    table.share("Filters", sum(m.passes_filters for m in molecules), len(molecules))
    sets = list(zip(SETS, (against.test, against.scaffolds)))
    _features(table, spelled, sets, tell)
    _neighbours(table, molecules, sets, nearest_of, tell)
    _diversity(table, molecules)
    _pieces(table, molecules, sets)
    _properties(table, molecules, against.test)
    return Measured(table.values, table.intervals, errors, len(strings), len(spelled), valid, molecules)


def _form(text: str) -> str | None:
    """The canonical form; a rare one that cannot be read back is no molecule, for nothing could be measured of it."""
    form = canonical(text)
    return None if form is None or parse(form) is None else form


@dataclass
class _Table:
    """Columns as they are filled in."""

    values: dict[str, float | None] = field(default_factory=dict)
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)

    def share(self, name: str, part: int, whole: int) -> None:
        """A proportion with Wilson's interval; None of nothing."""
        self.values[name] = part / whole if whole else None
        if whole:
            self.intervals[name] = wilson(part, whole)

    def add(
        self, name: str, value: float | None, error: float | None = None, most: float | None = None
    ) -> None:
        """A value that is not negative, with the interval of its standard error if there is one."""
        self.values[name] = value
        if value is not None and error is not None:
            high = value + _Z * error
            self.intervals[name] = (
                max(0.0, value - _Z * error),
                high if most is None else min(most, high),
            )


_Sets = list[tuple[str, Statistics | None]]


def _groups(number: int) -> list[np.ndarray] | None:
    """Ten sets of places, dealt in turn: each is left out once for an error; too few molecules have none."""
    if number < _FEWEST_FOR_ERRORS:
        return None
    return [np.arange(first, number, _GROUPS) for first in range(_GROUPS)]


def _features(table: _Table, spelled: list[str], sets: _Sets, tell: Stage) -> None:
    total = len(set(spelled))
    features = activations(spelled, progress=lambda done: tell("ChemNet", done, total))
    groups = _groups(len(features))
    parts = None if groups is None else [Moments.of(features[places]) for places in groups]
    whole = Moments.of(features) if parts is None else Moments.joined(parts)
    for name, reference in sets:
        value = error = None
        if reference is not None and len(features) > 1:
            value = max(0.0, frechet(whole.gaussian(), reference.gaussian))
            if parts is not None:
                rest = (Moments.joined(parts[:i] + parts[i + 1 :]) for i in range(len(parts)))
                error = jackknife_error([frechet(part.gaussian(), reference.gaussian) for part in rest])
        table.add(f"FCD/{name}", value, error)
    reference = sets[0][1]
    assert reference is not None
    limit = extrapolated(features, reference.gaussian)
    table.values["fcd_infinity"] = None if limit is None else limit[0]
    if limit is not None:  # the line may end below zero
        table.intervals["fcd_infinity"] = (limit[0] - _Z * limit[1], limit[0] + _Z * limit[1])


def _neighbours(
    table: _Table, molecules: list[Molecule], sets: _Sets, nearest_of: int | None, tell: Stage
) -> None:
    compared = molecules[:nearest_of]
    first = {m.canonical: m for m in compared}
    place = {text: number for number, text in enumerate(first)}
    rows = [place[m.canonical] for m in compared]
    for name, reference in sets:
        if reference is None or not compared:
            table.add(f"SNN/{name}", None)
            continue
        best = nearest(
            packed(list(first.values())),
            reference.fingerprints,
            lambda done, name=name: tell(f"nearest of {name}", done, len(first)),  # type: ignore[misc]
        )[rows]
        table.add(f"SNN/{name}", float(best.mean()), _error_of_mean(best), most=1.0)


def _error_of_mean(values: np.ndarray) -> float | None:
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None


def _diversity(table: _Table, molecules: list[Molecule]) -> None:
    if not molecules:
        table.add("IntDiv", None)
        table.add("IntDiv2", None)
        return
    distinct, inverse, counts = np.unique(packed(molecules), axis=0, return_inverse=True, return_counts=True)
    first, second = mean_similarities(distinct, counts)
    # the root of each row's mean square, then the mean: the public code's form, not the paper's
    for name, rows in (("IntDiv", first[inverse]), ("IntDiv2", np.sqrt(second[inverse]))):
        error = _error_of_mean(rows)
        # each molecule counts as a row and as a column
        table.add(name, max(0.0, 1 - float(rows.mean())), None if error is None else 2 * error, most=1.0)


def _pieces(table: _Table, molecules: list[Molecule], sets: _Sets) -> None:
    groups = _groups(len(molecules))
    rest = [] if groups is None else [_without(molecules, places) for places in groups]
    for column, counts in (("Frag", fragment_counts), ("Scaf", scaffold_counts)):
        whole, parts = counts(molecules), [counts(part) for part in rest]
        for name, reference in sets:
            value = error = None
            if reference is not None:
                its = reference.fragments if column == "Frag" else reference.scaffolds
                value = its.cosine(whole)
                left_out = [its.cosine(part) for part in parts]
                known = [one for one in left_out if one is not None]
                if known and len(known) == len(left_out):
                    error = jackknife_error(known)
            table.add(f"{column}/{name}", value, error, most=1.0)


def _without(molecules: list[Molecule], places: np.ndarray) -> list[Molecule]:
    gone = set(places.tolist())
    return [molecule for place, molecule in enumerate(molecules) if place not in gone]


def _properties(table: _Table, molecules: list[Molecule], test: Statistics) -> None:
    values = np.array([molecule.values for molecule in molecules]).reshape(len(molecules), len(PROPERTIES))
    groups = _groups(len(molecules))
    for place, name in enumerate(PROPERTIES):
        column = values[:, place]
        error = None
        if groups is not None:
            rest = (np.delete(column, places) for places in groups)
            error = jackknife_error([wasserstein(part, test.values[name]) for part in rest])
        table.add(name, wasserstein(column, test.values[name]) if len(column) else None, error)


def wasserstein(first: np.ndarray, second: np.ndarray) -> float:
    """Wasserstein-1 of two samples: the area between their empirical distribution functions."""
    first, second = np.sort(first), np.sort(second)
    points = np.sort(np.concatenate([first, second]))
    below = np.searchsorted(first, points[:-1], side="right") / len(first)
    other = np.searchsorted(second, points[:-1], side="right") / len(second)
    return float(np.abs(below - other) @ np.diff(points))
