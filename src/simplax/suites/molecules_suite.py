"""Molecules as a benchmark and as a suite: QM9 against the number of network calls."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from simplax.methods import Method
from simplax.nn import Architecture
from simplax.pretrained.model import Model
from simplax.recipes.discrete import MOLECULES_NU
from simplax.recipes.molecules import MOLECULES_SIMPLAX
from simplax.suites.benchmark import Benchmark, Column, Measured, Point, Progress, Surroundings
from simplax.suites.declared import Options, Suite
from simplax.suites.rows import BOUND_WEIGHTING, Plan, seeds_of, steps_of
from simplax.tasks import MoleculesTask, Task

STEPS = 4000
_EVALUATION, _DEVELOPMENT = 0, 1 << 40  # first seeds of the noise
_WORST = 1e6
FLOOR = "training molecules"


@dataclass(frozen=True)
class MoleculesBenchmark(Benchmark):
    """`num` strings at each number of `calls`, measured as they stand; the sampler's setting is chosen once, with
    `develop_calls`, by the Frechet ChemNet distance of `develop_num` strings with noise of their own."""

    dataset: str = "qm9"
    calls: tuple[int, ...] = (8, 16, 32, 64, 128, 256)
    num: int = 2000
    develop_calls: int = 32
    develop_num: int = 500
    batch_size: int = 250

    def points(self) -> tuple[Point, ...]:
        return tuple(Point(str(calls), "all", calls, self._columns(calls)) for calls in self.calls)

    def _columns(self, calls: int) -> tuple[Column, ...]:
        heading = f"{calls} calls"
        return (
            Column(f"{calls} valid", "valid %", heading=heading),
            Column(f"{calls} unique", "unique %", heading=heading),
            Column(f"{calls} FCD", "FCD", best="low", scale=1.0, digits=2, heading=heading),
            Column(f"{calls} VUN", "V.U.N. %", heading=heading),
        )

    def drawn(self, point: Point | None) -> int:
        return self.develop_num if point is None else self.num

    def development_calls(self, group: str) -> int:
        return self.develop_calls

    def references(self) -> tuple[str, ...]:
        return (FLOOR, "AddCarbon", "shuffled characters")

    def develop(
        self, model: Model, group: str, around: Surroundings, progress: Progress
    ) -> tuple[float, float]:
        found, nfe, _ = self._drawn(model, self.develop_num, _DEVELOPMENT, around, progress)
        distance = found.values.get("FCD/Test")
        return (-_WORST if distance is None else -distance), nfe

    def measure(self, model: Model, point: Point, around: Surroundings, progress: Progress) -> Measured:
        start = time.perf_counter()
        found, nfe, errors = self._drawn(model, self.num, _EVALUATION, around, progress)
        values = self._values(found, point.calls)
        return Measured(values, self.num, nfe, time.perf_counter() - start, {"errors": errors})

    def refer(self, name: str, around: Surroundings, progress: Progress) -> Measured:
        """Controls and the floor have no calls: they stand under every number of them."""
        from simplax.evaluate.molecules.controls import controls
        from simplax.evaluate.molecules.floor import floor

        start, against = time.perf_counter(), _against(self.dataset, around.workers)
        if name == FLOOR:
            copies = floor(against, self.num, workers=around.workers)
            ends = copies["intervals"]
            found = {key: (copies.get(key), *(ends.get(key) or (None, None))) for key in _MEASURES.values()}
        else:
            control = controls(against.train, self.num)[name]
            measured = _measured(control.strings, against, around.workers)
            found = {key: _triple(measured, key) for key in _MEASURES.values()}
        values = {f"{calls} {short}": found[key] for calls in self.calls for short, key in _MEASURES.items()}
        return Measured(values, self.num, 0.0, time.perf_counter() - start)

    def _drawn(
        self, model: Model, num: int, seed: int, around: Surroundings, progress: Progress
    ) -> tuple[Any, float, dict[str, int]]:
        drawn = model.sample(num, seeds=seed, batch_size=self.batch_size, progress=progress)
        strings = model.decode(drawn.tokens.cpu(), drawn.lengths)
        found = _measured(strings, _against(self.dataset, around.workers), around.workers)
        return found, drawn.nfe, found.errors

    def _values(self, found: Any, calls: int) -> dict[str, tuple[float | None, float | None, float | None]]:
        return {f"{calls} {short}": _triple(found, key) for short, key in _MEASURES.items()}


_MEASURES = {"valid": "valid", "unique": "unique@1000", "FCD": "FCD/Test", "VUN": "VUN"}


def _triple(found: Any, key: str) -> tuple[float | None, float | None, float | None]:
    low, high = found.intervals.get(key, (None, None))
    return found.values.get(key), low, high


def _measured(strings: list[str], against: Any, workers: int) -> Any:
    from simplax.evaluate.molecules.measure import measure

    # SNN, the slowest column, is not in the table
    return measure(strings, against, unique_at=(1000,), workers=workers, nearest_of=1)


@lru_cache(maxsize=1)
def _against(dataset: str, workers: int) -> Any:
    from simplax.data.molecules.canonical import rdkit
    from simplax.evaluate.molecules.references import references

    rdkit()
    return references(dataset, workers=workers)


def _as_it_is(
    method: Method, task: Task, trunk: Architecture
) -> tuple[Task, Architecture, Mapping[str, str]]:
    return task, trunk, {}


def molecules(options: Options) -> Suite:
    plan = Plan(
        task=MoleculesTask("qm9"),
        # every string begins at the first position, which rotary attention alone cannot tell from the others
        trunk=Architecture(width=96, depth=6, heads=4, position_embedding=True),
        steps=steps_of(options, STEPS),
        batch_size=128,
        precision=options.precision,
        place=_as_it_is,
        soft_cap=30.0,
        methods={"simplax": (MOLECULES_SIMPLAX, BOUND_WEIGHTING)},
        nu=MOLECULES_NU,
    )
    benchmark = MoleculesBenchmark() if options.num is None else MoleculesBenchmark(num=options.num)
    title = "QM9 against network calls: valid, unique, Frechet ChemNet distance, valid and unique and novel"
    return Suite("molecules", title, benchmark, plan.every_method(), seeds_of(options))
