"""Every set of a study, drawn and measured once: what a directory already holds is taken from it."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from simplax.concentration import Concentration
from simplax.errors import UserError
from simplax.evaluate.cost import NOTHING, Cost, sampling_cost
from simplax.evaluate.frontier.entrants import Job, draw
from simplax.evaluate.frontier.pace import Event, Pace, Work
from simplax.evaluate.frontier.store import Drawn, Store, digest
from simplax.evaluate.frontier.yardstick import Yardstick
from simplax.evaluate.text.controls import NAMES as CONTROLS
from simplax.io.claims import Claims, work_through
from simplax.io.sharding import current
from simplax.pretrained.model import Model
from simplax.pretrained.numerics import BatchSize, batch_size_for


@dataclass(frozen=True, eq=False)
class Entrant:
    """A model, loaded only when something must be drawn from it."""

    load: Callable[[], Model]
    jobs: Sequence[Job]
    eta: float | Concentration | None = None


def pending_cost(entrants: Sequence[Entrant], store: Store, batch_size: BatchSize) -> Cost:
    """The cost of drawing what the store does not hold yet; texts are scored after that."""
    total = NOTHING
    for entrant in entrants:
        missing = [job for job in entrant.jobs if store.samples(digest(job.settings)) is None]
        if missing:
            model = entrant.load()
            total += sampling_cost(
                model,
                missing[0].settings["num"],
                sampler=model.sampler(entrant.eta, conditional=False),
                repeats=[job.num_steps for job in missing],
                batch_size=batch_size,
            )
    return total


@dataclass(frozen=True, eq=False)
class Set:
    """One row to be measured: a control of that name, or drawn by `entrant` as `job` says."""

    what: str
    key: str
    head: dict[str, Any]
    num: int
    job: Job | None = None
    entrant: Entrant | None = None


@dataclass(eq=False)
class Runner:
    """`run` gives the rows: the data, the controls, then every model's points in order of steps and temperature."""

    entrants: Sequence[Entrant]
    yardstick: Yardstick
    store: Store
    watch: Callable[[Event], None]
    batch_size: BatchSize = "auto"
    wait: bool = True
    """For points that other processes are at; otherwise `run` ends with what there is."""
    waiting: Callable[[dict[str, str]], None] = lambda others: None
    _loaded: tuple[Entrant, Model] | None = field(default=None, init=False)
    _told: set[str] = field(default_factory=set, init=False)

    def run(self) -> list[dict[str, Any]] | None:
        """All rows; None if some are still being made by others and `wait` is False."""
        self.sets = {one.key: one for one in (self._human_set(), *self._control_sets(), *self._model_sets())}
        human, *others = self.sets
        self.pace = Pace({})
        found = current().on_first(lambda: [key for key in self.sets if self._finished(key)])
        missing = [one for one in self.sets.values() if one.key not in found]
        self.pace = Pace(self._pending(missing))
        # nothing can be measured without human text; what others finish while we work is taken from the store
        for keys, wait in (([human], True), (others, self.wait)):
            with closing(self._claimed(keys, wait)) as claimed:
                for key in claimed:
                    self._do(self.sets[key])
        self._loaded = None
        records = current().on_first(self._records)
        return None if len(records) < len(self.sets) else [self._row(key, records[key]) for key in self.sets]

    def _finished(self, key: str) -> bool:
        record = self.store.point(key)
        if record is not None:
            self._tell(key, record, kept=True)
        return record is not None

    def _records(self) -> dict[str, dict[str, Any]]:
        found = {key: self.store.point(key) for key in self.sets}
        return {key: record for key, record in found.items() if record is not None}

    def _row(self, key: str, record: dict[str, Any]) -> dict[str, Any]:
        return {**self.sets[key].head, "key": key, **record}

    def _tell(self, key: str, record: dict[str, Any], kept: bool) -> None:
        """Count a finished set, once, whoever made it."""
        if key in self._told:
            return
        self._told.add(key)
        one, finished, total = self.sets[key], len(self._told), len(self.sets)
        row, left = self._row(key, record), self.pace.left()
        self.watch(Event(one.what, "scoring", one.num, one.num, finished, total, None, left, row, kept))

    def _claimed(self, keys: Sequence[str], wait: bool) -> Generator[str]:
        """Keys to do, claimed by the first process for all that torchrun started."""
        claims = Claims(self.store.directory / "claims")
        work = work_through(keys, self._finished, claims, wait=wait, waiting=self.waiting)
        try:
            while (key := current().on_first(lambda: next(work, None))) is not None:
                yield key
        finally:
            work.close()

    def _do(self, one: Set) -> None:
        record = self._make(one)
        current().on_first(lambda: self.store.keep_point(one.key, record))
        self._tell(one.key, record, kept=False)

    def _human_set(self) -> Set:
        key = digest(["human", self.yardstick.identity])
        return Set("human text", key, {"kind": "data", "row": "data"}, len(self.yardstick.held_out))

    def _control_sets(self) -> list[Set]:
        return [
            Set(
                name,
                digest(["control", name, self.yardstick.identity]),
                {"kind": "control", "row": name},
                self.yardstick.num,
            )
            for name in CONTROLS
        ]

    def _model_sets(self) -> list[Set]:
        return [
            Set(
                f"{job.label}, {job.num_steps} steps, T {job.temperature:g}",
                digest([digest(job.settings), self.yardstick.identity]),
                {
                    "kind": "model",
                    "row": job.label,
                    "method": job.method,
                    "num_steps": job.num_steps,
                    "temperature": job.temperature,
                },
                job.settings["num"],
                job=job,
                entrant=entrant,
            )
            for entrant in self.entrants
            for job in entrant.jobs
        ]

    def _pending(self, missing: Sequence[Set]) -> dict[Work, float]:
        return {
            "sampling": sum(one.num * one.job.num_steps for one in missing if one.job is not None),
            "scoring": sum(one.num for one in missing),
        }

    def _make(self, one: Set) -> dict[str, Any]:
        self.yardstick.reference(self._ticker("human text", "scoring", len(self.yardstick.held_out)))
        if one.head["kind"] == "data":
            return self.yardstick.human()
        extra: dict[str, Any] = {}
        seconds: dict[str, float] = {}
        if one.job is None:
            control = self.yardstick.controls[one.what]
            ids, extra = control.ids, {"note": control.note}
        else:
            drawn = self._drawn(one)
            ids = torch.from_numpy(drawn.ids.astype(np.int64))
            seconds["sampling"] = drawn.seconds
            extra = {**drawn.work(), "settings": one.job.settings}
        start = time.perf_counter()
        measured = self.yardstick.measure(ids, self._ticker(one.what, "scoring", one.num))
        seconds["scoring"] = time.perf_counter() - start
        return {**extra, **measured, "seconds": seconds}

    def _drawn(self, one: Set) -> Drawn:
        assert one.job is not None and one.entrant is not None
        job, entrant = one.job, one.entrant
        key = digest(job.settings)
        found = current().on_first(lambda: self.store.samples(key))
        if found is not None:
            self.pace.skip("sampling", one.num * job.num_steps)
            return found
        if self._loaded is None or self._loaded[0] is not entrant:
            self._loaded = None  # the last model goes before the next comes
            self._loaded = (entrant, entrant.load())
            if self._loaded[1].origin.get("sha256") != job.settings["weights"]:
                raise UserError(
                    f"the weights of {job.label} changed while the frontier ran: let its training end, then run again."
                )
        drawn = draw(
            self._loaded[1],
            num=one.num,
            num_steps=job.num_steps,
            temperature=job.temperature,
            top_p=job.settings["top_p"],
            seed=job.settings["first_seed"],
            eta=entrant.eta,
            batch_size=batch_size_for(self._loaded[1], self.batch_size, one.num),
            progress=self._ticker(one.what, "sampling", one.num, job.num_steps),
        )
        current().on_first(lambda: self.store.keep_samples(key, drawn))
        return drawn

    def _ticker(self, what: str, work: Work, of: int, calls: int = 1) -> Callable[[int], None]:
        """Turns the count of finished sequences into events with a rate and the time left."""
        self.pace.start()
        begun, before = self.pace.last, 0

        def tick(done: int) -> None:
            nonlocal before
            self.pace.add(work, (done - before) * calls)
            before = done
            seconds = self.pace.last - begun
            rate = done / seconds if seconds > 0 else None
            counts = len(self._told), len(self.sets)
            self.watch(Event(what, work, done, of, *counts, rate, self.pace.left()))

        return tick
