"""All jobs of a suite, claimed one at a time, so that the same command may run in several processes."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from simplax.errors import UserError, nearest
from simplax.io.claims import Claims, work_through
from simplax.io.manifest import environment
from simplax.suites.benchmark import Surroundings
from simplax.suites.declared import Job, Options, Suite
from simplax.suites.fair import refusals
from simplax.suites.pace import Cost, Pace, cost, rates
from simplax.suites.store import Store, finished, keep, keep_options, read, weights_of
from simplax.suites.work import Watch, Worker, plain


@dataclass(eq=False)
class Runner:
    """`plan` says what is left to do and what it costs; `run` does it. A job that fails is written down, and the rest
    goes on; the next time it is tried again.
    """

    suite: Suite
    options: Options
    store: Store
    around: Surroundings = field(default_factory=Surroundings)
    device: str = "auto"
    only: Collection[str] = ()
    watch: Watch = lambda event: None
    waiting: Callable[[dict[str, str]], None] = lambda others: None
    ended: Callable[[Job, str | None], None] = lambda job, failure: None
    say: Callable[[str], None] = lambda text: None
    _began: float = field(default_factory=time.time, init=False)

    def __post_init__(self) -> None:
        names = [entry.name for entry in self.suite.entries]
        for name in self.only:
            if name not in names:
                raise UserError(f"the suite {self.suite.name} has no row {name!r}{nearest(name, names)}")
        self.refused = refusals(self.suite)

    def jobs(self) -> list[Job]:
        """Those of the chosen rows, without the rows that may not stand in the table."""
        found = []
        for job in self.suite.jobs():
            entries = tuple(
                entry
                for entry in job.entries
                if entry.name not in self.refused and (not self.only or entry.name in self.only)
            )
            if entries:
                # the name is that of the first row of all, so that the model is found whatever was chosen
                found.append(replace(job, entries=entries, owner=job.name))
        return found

    def done(self, job: Job) -> bool:
        return finished(self.store, self.suite, job, self.around)

    def plan(self) -> dict[str, Cost]:
        """Expected cost of every job that is not done; nothing for training where the weights are there."""
        left = [job for job in self.jobs() if not self.done(job)]
        known = rates(left)
        costs = {job.key: cost(self.suite, job, known[job.key]) for job in left}
        trained = {job.key for job in left if weights_of(self.store, job) is not None}
        return {key: replace(one, train=0.0) if key in trained else one for key, one in costs.items()}

    def run(self, pace: Pace) -> None:
        keep_options(self.store, self.suite, self.options)
        for name, reason in self.refused.items():
            self._record_failure(name, "refused", f"refused: {reason}.")
        jobs = {job.key: job for job in self.jobs()}
        worker = Worker(self.suite, self.store, self.around, self.device, self.watch)
        self._references()
        claims = Claims(self.store.claims)
        for key in work_through(
            list(jobs), lambda key: self._settled(jobs[key]), claims, waiting=self.waiting
        ):
            start = time.perf_counter()
            failure = self._attempt(worker, jobs[key])
            pace.finish(key, None if failure else time.perf_counter() - start)
            self.ended(jobs[key], failure)

    def _settled(self, job: Job) -> bool:
        """Done, or failed since we began: here or in another process."""
        failed = read(self.store.failure(job.name))
        return (failed is not None and failed.get("at", 0.0) >= self._began) or self.done(job)

    def _attempt(self, worker: Worker, job: Job) -> str | None:
        try:
            worker.do(job)
        except Exception as error:
            message = str(error) or type(error).__name__
            self._record_failure(job.name, "failed", message, traceback.format_exc())
            return message
        self.store.failure(job.name).unlink(missing_ok=True)
        return None

    def _record_failure(self, name: str, kind: str, message: str, trace: str = "") -> None:
        about = {
            "at": time.time(),
            "row": name,
            "kind": kind,
            "message": message,
            "trace": trace.splitlines(),
        }
        keep(self.store.failure(name), {**environment(), **about})

    def _references(self) -> None:
        """Rows that need no model, once."""
        benchmark = self.suite.benchmark
        names = [name for name in benchmark.references() if read(self.store.reference(name)) is None]
        claims = Claims(self.store.directory / "claims")
        for name in work_through(names, lambda one: read(self.store.reference(one)) is not None, claims):
            self.say(f"measuring {name}")
            try:
                measured = benchmark.refer(name, self.around, lambda done: None)
            except Exception as error:
                self._record_failure(f"reference-{name}", "failed", str(error), traceback.format_exc())
                self.say(f"{name}: failed, {error}")
                continue
            record = {**environment(), "row": name, "points": plain(measured)}
            keep(self.store.reference(name), record)
