"""Every set of a study, drawn and measured once: what a directory already holds is taken from it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
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
from simplax.pretrained.model import Model


@dataclass(frozen=True, eq=False)
class Entrant:
    """A model, loaded only when something must be drawn from it."""

    load: Callable[[], Model]
    jobs: Sequence[Job]
    eta: float | Concentration | None = None


def pending_cost(entrants: Sequence[Entrant], store: Store, batch_size: int) -> Cost:
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
    batch_size: int = 64
    _loaded: tuple[Entrant, Model] | None = field(default=None, init=False)

    def run(self) -> list[dict[str, Any]]:
        sets = [*self._control_sets(), *self._model_sets()]
        known = {one.key: self.store.point(one.key) for one in sets}
        human_key = digest(["human", self.yardstick.identity])
        human = self.store.point(human_key)
        missing = [one for one in sets if known[one.key] is None]
        total = len(sets) + 1
        self.pace = Pace(self._pending(missing, human is None))
        if missing or human is None:
            human = self._human(human_key, total)
        self.watch(Event("human text", "scoring", 0, 0, 1, total, record=human, kept=not missing))
        rows = [{"kind": "data", "row": "data", **(human or {})}]
        for number, one in enumerate(sets, start=1):
            record, kept = known[one.key], known[one.key] is not None
            if record is None:
                record = self._make(one, number, total)
                self.store.keep_point(one.key, record)
            row = {**one.head, "key": one.key, **record}
            rows.append(row)
            left = self.pace.left()
            self.watch(Event(one.what, "scoring", one.num, one.num, number + 1, total, None, left, row, kept))
        self._loaded = None
        return rows

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

    def _pending(self, missing: Sequence[Set], human: bool) -> dict[Work, float]:
        human_rows = len(self.yardstick.held_out) if missing or human else 0
        return {
            "sampling": sum(one.num * one.job.num_steps for one in missing if one.job is not None),
            "scoring": human_rows + sum(one.num for one in missing),
        }

    def _human(self, key: str, total: int) -> dict[str, Any]:
        self.yardstick.reference(
            self._ticker("human text", "scoring", len(self.yardstick.held_out), 0, total)
        )
        record = self.yardstick.human()
        self.store.keep_point(key, record)
        return {"key": key, **record}

    def _make(self, one: Set, finished: int, total: int) -> dict[str, Any]:
        extra: dict[str, Any] = {}
        seconds: dict[str, float] = {}
        if one.job is None:
            control = self.yardstick.controls[one.what]
            ids, extra = control.ids, {"note": control.note}
        else:
            drawn = self._drawn(one, finished, total)
            ids = torch.from_numpy(drawn.ids.astype(np.int64))
            seconds["sampling"] = drawn.seconds
            extra = {"nfe": drawn.nfe, "settings": one.job.settings}
        start = time.perf_counter()
        measured = self.yardstick.measure(ids, self._ticker(one.what, "scoring", one.num, finished, total))
        seconds["scoring"] = time.perf_counter() - start
        return {**extra, **measured, "seconds": seconds}

    def _drawn(self, one: Set, finished: int, total: int) -> Drawn:
        assert one.job is not None and one.entrant is not None
        job, entrant = one.job, one.entrant
        key = digest(job.settings)
        found = self.store.samples(key)
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
            batch_size=self.batch_size,
            progress=self._ticker(one.what, "sampling", one.num, finished, total, job.num_steps),
        )
        self.store.keep_samples(key, drawn)
        return drawn

    def _ticker(
        self, what: str, work: Work, of: int, finished: int, total: int, calls: int = 1
    ) -> Callable[[int], None]:
        """Turns the count of finished sequences into events with a rate and the time left."""
        self.pace.start()
        begun, before = self.pace.last, 0

        def tick(done: int) -> None:
            nonlocal before
            self.pace.add(work, (done - before) * calls)
            before = done
            seconds = self.pace.last - begun
            rate = done / seconds if seconds > 0 else None
            self.watch(Event(what, work, done, of, finished, total, rate, self.pace.left()))

        return tick
