"""One job: train, export, choose the sampler's settings on development data, measure on the evaluation set.

Everything that takes time is kept the moment it is known, so a job that was killed goes on where it was and ends with
the same numbers.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from simplax.config.run import SamplingDefaults, Unconditional, encode
from simplax.errors import UserError
from simplax.io.files import write_json
from simplax.nn.foreign import attribute
from simplax.pretrained.manifest import manifest
from simplax.pretrained.model import Model, from_pretrained
from simplax.pretrained.stored import change_config
from simplax.recipes.launch import launch
from simplax.suites.benchmark import Measured, Point, Surroundings
from simplax.suites.declared import Entry, Job, Setting, Suite
from simplax.suites.fair import parameters
from simplax.suites.identity import machine
from simplax.suites.store import Store, identity, keep, measured_beside, read, started, weights_of
from simplax.train import precision as precisions


@dataclass(frozen=True)
class Event:
    """What a job is doing: `done` of `total` units of `stage`; a row in `record` when a number came out."""

    job: Job
    stage: str
    done: int
    total: int
    record: dict[str, Any] | None = None


Watch = Callable[[Event], None]
_TRAINING = "training.json"
_ROUNDING = 1e-9  # of a mean over sequences


@dataclass(frozen=True, eq=False)
class _Steps:
    """Tells how far a training is."""

    job: Job
    watch: Watch

    def log(self, step: int, values: dict[str, float]) -> None:
        self.watch(Event(self.job, "train", step, self.job.config.run.steps))


@dataclass(frozen=True, eq=False)
class Worker:
    """Does the jobs of a suite, one at a time."""

    suite: Suite
    store: Store
    around: Surroundings = field(default_factory=Surroundings)
    device: str = "auto"
    watch: Watch = lambda event: None

    def do(self, job: Job) -> None:
        model = self._model(job)
        for entry in job.entries:
            self._row(job, entry, model)

    def _model(self, job: Job) -> Model:
        """The exported weights, in half precision: what is measured is what is kept. Suites beside this one share
        theirs, so that a run that is gone need not be repeated."""
        place = weights_of(self.store, job)
        if place is None:
            place = self.store.model(job)
            run = self.store.run(job)
            self.watch(Event(job, "train", 0, job.config.run.steps))
            began, resumed = time.perf_counter(), run.exists()
            launch(job.config, run, hooks=[_Steps(job, self.watch)], device=self.device, quiet=True)
            seconds = time.perf_counter() - began
            trained = from_pretrained(run, device="cpu")
            shutil.rmtree(place, ignore_errors=True)  # weights of settings that were declared before
            replace(trained, config=replace(trained.config, name=job.name)).save_pretrained(
                place, torch.float16
            )
            # of a run that was interrupted only the last part is known
            about = {
                "seconds": None if resumed else seconds,
                "steps": job.config.run.steps,
                "machine": machine(),
            }
            write_json(place / _TRAINING, about)
        model = from_pretrained(place, device=self.device)
        precisions.apply(job.config.run.precision, model.denoiser)
        return model

    def _row(self, job: Job, entry: Entry, model: Model) -> None:
        record = self._known(job, entry, model) or self._new(job, entry, model)
        chosen = {
            group: self._choose(job, entry, model, group, record) for group in self.suite.benchmark.groups()
        }
        if entry is job.entries[0]:
            self._keep_defaults(job, model, chosen)
        for point in self.suite.benchmark.points():
            if point.key in record["points"] or self.suite.benchmark.missing(point, self.around) is not None:
                continue
            record["points"][point.key] = self._measure(job, point, model, chosen[point.group])
            self._save(job, entry, record)

    def _known(self, job: Job, entry: Entry, model: Model) -> dict[str, Any] | None:
        """The record of a row so far, or that of an equal row of another suite, if it is of these weights."""
        own = started(self.store, self.suite, entry, job.seed)
        weights = str(model.origin["sha256"])
        if own is not None and own["manifest"]["model"]["sha256"] == weights:
            return own
        found = measured_beside(self.store, identity(self.suite, entry, job.seed), weights, job.seed)
        if found is None:
            return None
        found.update(row=entry.name, title=entry.title)
        found["manifest"]["model"]["path"] = self._place(job)
        found["manifest"].update(
            measured_in=found["manifest"]["suite"], suite=self.suite.name, row=entry.name
        )
        self._save(job, entry, found)
        return found

    def _place(self, job: Job) -> str:
        """Of the weights, from the directory of the suite."""
        place = weights_of(self.store, job) or self.store.model(job)
        return Path(os.path.relpath(place, self.store.directory)).as_posix()

    def _new(self, job: Job, entry: Entry, model: Model) -> dict[str, Any]:
        """The manifest of a row: who, with what, from which weights."""
        about = manifest(
            model,
            evaluation="suite",
            suite=self.suite.name,
            row=entry.name,
            seed=job.seed,
            training=job.key,
            steps=job.config.run.steps,
            batch_size=job.config.run.batch_size,
            parameters=parameters(job.config),
            machine=machine(),
            trained=read((weights_of(self.store, job) or self.store.model(job)) / _TRAINING),
        )
        about["model"]["path"] = self._place(job)
        return {
            "identity": identity(self.suite, entry, job.seed),
            "row": entry.name,
            "title": entry.title,
            "seed": job.seed,
            "manifest": about,
            "benchmark": described(self.suite),
            "development": {},
            "chosen": {},
            "points": {},
        }

    def _choose(
        self, job: Job, entry: Entry, model: Model, group: str, record: dict[str, Any]
    ) -> list[Setting]:
        """The tries, the best first; of equal ones the first declared, which is the sampler's default.

        Those that make more calls than every row may are left out.
        """
        benchmark, found = self.suite.benchmark, record["development"].setdefault(group, [])
        calls, number = benchmark.development_calls(group), benchmark.drawn(None)
        total = number * len(entry.tries)
        for index in range(len(found), len(entry.tries)):
            setting = entry.tries[index]
            start = time.perf_counter()

            def tell(done: int, before: int = index * number) -> None:
                self.watch(Event(job, f"choose, {group}", before + done, total))

            score, nfe = benchmark.develop(with_setting(model, setting, calls), group, self.around, tell)
            seconds = time.perf_counter() - start
            allowed = nfe <= calls + _ROUNDING
            about = {"score": score, "nfe": nfe, "allowed": allowed, "seconds": seconds}
            found.append({"setting": encode_setting(setting), **about})
            self._save(job, entry, record)
        permitted = [index for index, one in enumerate(found) if one.get("allowed", True)]
        order = sorted(permitted, key=lambda index: (-found[index]["score"], index))
        record["chosen"][group] = order[0] if order else None
        return [entry.tries[index] for index in order]

    def _measure(self, job: Job, point: Point, model: Model, settings: list[Setting]) -> dict[str, Any]:
        """The numbers of a point by the best setting that makes no more calls than it has; none, and the reason, if
        all make more."""
        total = self.suite.benchmark.drawn(point)
        setting = fitting_setting(settings, point, model)
        if setting is None:
            return {"values": {}, "num": 0, "nfe": 0.0, "seconds": 0.0, "facts": {"skipped": "more calls"}}

        def tell(done: int) -> None:
            self.watch(Event(job, f"measure, {point.key}", done, total))

        ready = with_setting(model, setting, point.calls)
        measured = self.suite.benchmark.measure(ready, point, self.around, tell)
        if measured.nfe > point.calls + _ROUNDING:
            raise UserError(
                f"the sampler {type(setting.sampler).__name__} makes {measured.nfe:g} network calls and every row may "
                f"make {point.calls}: leave this setting out."
            )
        depth = int(attribute(model.denoiser, "block_passes", 0) or 0)
        return {**plain(measured), "block_passes": measured.nfe * depth, "setting": encode_setting(setting)}

    def _keep_defaults(self, job: Job, model: Model, chosen: dict[str, list[Setting]]) -> None:
        """The exported model is sampled as its first row was: with the first group's setting, and the last's where
        nothing is given. One that belongs to another suite stays as that left it."""
        if weights_of(self.store, job) != self.store.model(job):
            return
        found = [(group, settings[0]) for group, settings in chosen.items() if settings]
        if not found:
            return
        (group, setting), (_, free) = found[0], found[-1]
        config = with_setting(model, setting, self.suite.benchmark.development_calls(group)).config
        if free is not setting and job.config.task.has_answers:
            config = replace(config, unconditional=Unconditional(free.temperature, free.sampler))
        change_config(self.store.model(job), replace(config, name=job.name))

    def _save(self, job: Job, entry: Entry, record: dict[str, Any]) -> None:
        keep(self.store.result(entry, job.seed), record)
        self.watch(Event(job, "kept", 0, 0, record))


def described(suite: Suite) -> dict[str, Any]:
    """The benchmark as plain data, from which it can be made again."""
    from simplax.suites.catalogue import BENCHMARKS

    kind = next(name for name, member in BENCHMARKS.items() if member is type(suite.benchmark))
    return {"kind": kind, **encode(suite.benchmark)}


def encode_setting(setting: Setting) -> dict[str, Any]:
    return {"sampler": encode(setting.sampler), "temperature": setting.temperature}


def with_setting(model: Model, setting: Setting, calls: int) -> Model:
    """The model, sampled so by default. A chain that ends with one more call makes one step less."""
    calls -= getattr(setting.sampler, "last", None) is not None
    sampling = SamplingDefaults(calls, setting.temperature, sampler=setting.sampler)
    return replace(model, config=replace(model.config, sampling=sampling, unconditional=None))


def plain(measured: Measured) -> dict[str, Any]:
    """As JSON."""
    values = {name: list(value) for name, value in measured.values.items()}
    return {
        "values": values,
        "num": measured.num,
        "nfe": measured.nfe,
        "seconds": measured.seconds,
        "facts": dict(measured.facts),
    }


def fitting_setting(settings: list[Setting], point: Point, model: Model) -> Setting | None:
    """The first setting whose sampler makes no more calls than a point has. One that makes a call per position has as
    many as it needs where something is given that saves it some."""
    task = model.config.task
    fixed = ((setting, setting.sampler.steps_for(task.length)) for setting in settings)
    return next(
        (one for one, calls in fixed if calls is None or task.has_answers or calls <= point.calls), None
    )
