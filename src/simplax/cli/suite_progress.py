"""What a person sees while a suite runs: a live table on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

from simplax.cli.output import say
from simplax.suites.declared import Job
from simplax.suites.pace import Pace, spelled
from simplax.suites.runner import Runner
from simplax.suites.work import Event

_EVERY = 60.0
"""Seconds between two lines where there is no terminal."""


class Watching:
    """Shows events of a runner; `failures` are what went wrong, by job."""

    def __init__(self, runner: Runner, pace: Pace) -> None:
        self.runner, self.pace = runner, pace
        self.failures: dict[str, str] = {}
        self.live: Any = None
        self._said = time.monotonic()
        self._drawn = 0.0
        self._now: Event | None = None

    def __enter__(self) -> Watching:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self.live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.live is not None:
            self.live.stop()

    def announce(self) -> None:
        """What is left, with its cost, before anything is started."""
        jobs = self.runner.jobs()
        done = [job for job in jobs if job.key not in self.pace.costs]
        say(f"{self.runner.suite.name}: {len(jobs)} trainings, {len(done)} of them done and measured")
        for job in jobs:
            cost = self.pace.costs.get(job.key)
            if cost is None:
                continue
            rows = f" ({len(job.entries)} rows)" if len(job.entries) > 1 else ""
            say(
                f"  {job.name}{rows}: {job.config.run.steps:,} steps {spelled(cost.train)}, choosing "
                f"{spelled(cost.choose)}, measuring at most {spelled(cost.evaluate)}"
            )
        for name, reason in self.runner.refused.items():
            say(f"  {name}: refused, {reason}")
        if self.pace.costs:
            precision = jobs[0].config.run.precision
            say(f"  about {spelled(self.pace.left())} in {precision} on this machine, in one process")

    def watch(self, event: Event) -> None:
        self._now = event
        now = time.monotonic()
        if self.live is not None:
            if now - self._drawn > 0.5 or event.record is not None:
                self._drawn = now
                self.live.update(self._table(), refresh=True)
        elif event.total and now - self._said > _EVERY:
            self._said = now
            say(f"{event.job.name}: {event.stage}, {event.done:,} of {event.total:,}; {self._left()}")

    def ended(self, job: Job, failure: str | None) -> None:
        if failure is not None:
            self.failures[job.name] = failure
        say(f"{job.name}: {'done' if failure is None else f'failed, {failure}'}; {self._left()}")

    def waiting(self, others: dict[str, str]) -> None:
        names = {job.key: job.name for job in self.runner.jobs()}
        said = "; ".join(f"{names[key]} is with {who}" for key, who in others.items())
        if self.live is None and time.monotonic() - self._said > _EVERY:
            self._said = time.monotonic()
            say(f"waiting: {said}")

    def _left(self) -> str:
        return f"about {spelled(self.pace.left())} left"

    def _table(self) -> Any:
        from rich.console import Group
        from rich.text import Text

        from simplax.suites.table import table
        from simplax.suites.terminal import terminal

        event = self._now
        doing = "" if event is None else f"{event.job.name}: {event.stage}"
        if event is not None and event.total:
            doing += f", {event.done:,} of {event.total:,}"
        return Group(terminal(table(self.runner.suite, self.runner.store)), Text(f"{doing}; {self._left()}"))
