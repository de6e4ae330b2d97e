"""What a suite will cost, said before it starts, and how much of it is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from simplax.pretrained.model import Model
from simplax.random import Keys
from simplax.recipes.launch import build
from simplax.suites.declared import Job, Suite
from simplax.suites.work import with_setting
from simplax.train import precision as precisions
from simplax.typing import StepContext

_SEQUENCES = 16
"""Enough for a rate, few enough to take a second or two."""


@dataclass(frozen=True)
class Rates:
    """Seconds per optimizer step and sequence, and per network call and sequence."""

    step: float
    call: float


def measure(job: Job) -> Rates:
    """Time a loss with its gradient and a few sampling steps of a job's untrained network."""
    config, entry = job.config, job.entries[0]
    denoiser = build(config)
    precisions.apply(config.run.precision, denoiser)
    batch = config.task.train().batch(torch.arange(_SEQUENCES))
    u = torch.linspace(0.05, 0.95, _SEQUENCES, dtype=torch.float64)

    def loss() -> None:
        context = StepContext(Keys.from_seeds(range(_SEQUENCES)), u, 1, training=True)
        config.method.loss(denoiser, batch, context).per_token.mean().backward()

    loss()
    step = _timed(loss) / _SEQUENCES
    model = with_setting(Model(denoiser.eval(), config), entry.tries[0], 4)
    tokens, given = (batch.tokens, batch.given) if bool(batch.given.any()) else (None, None)

    def draw() -> float:
        return model.sample(_SEQUENCES, seeds=0, tokens=tokens, given=given).nfe

    return Rates(step, _timed(draw) / (_SEQUENCES * max(draw(), 1.0)))


def _timed(action: Callable[[], object]) -> float:
    """Seconds on a machine with nothing else to do: processor time over threads, the better of two."""
    found = []
    for _ in range(2):
        start = time.process_time()
        action()
        found.append((time.process_time() - start) / torch.get_num_threads())
    return min(found)


def rates(jobs: Sequence[Job]) -> dict[str, Rates]:
    """Of every job; those with the same method, network and length are timed once."""
    known: dict[Any, Rates] = {}
    found = {}
    for job in jobs:
        kind = (type(job.config.method), job.config.architecture, job.config.task.length)
        if kind not in known:
            known[kind] = measure(job)
        found[job.key] = known[kind]
    return found


@dataclass(frozen=True)
class Cost:
    """Expected seconds of a job."""

    train: float
    choose: float
    evaluate: float

    @property
    def total(self) -> float:
        return self.train + self.choose + self.evaluate


def cost(suite: Suite, job: Job, rates: Rates) -> Cost:
    """Of a whole job; numbers that are there already are not subtracted."""
    run, benchmark = job.config.run, suite.benchmark
    train = run.steps * run.batch_size * rates.step
    draws = benchmark.drawn(None) * sum(benchmark.development_calls(group) for group in benchmark.groups())
    sampling = rates.call
    choose = sum(len(entry.tries) for entry in job.entries) * draws * sampling
    calls = sum(point.calls * benchmark.drawn(point) for point in benchmark.points())
    return Cost(train, choose, len(job.entries) * calls * sampling)


@dataclass
class Pace:
    """Expected seconds of what is left, corrected by how long finished jobs really took."""

    costs: dict[str, Cost]
    taken: float = 0.0
    expected: float = 0.0
    finished: set[str] = field(default_factory=set)

    def finish(self, key: str, seconds: float | None) -> None:
        """A job that is done, by us in so many seconds or by somebody else."""
        self.finished.add(key)
        if seconds is not None and key in self.costs:
            self.taken += seconds
            self.expected += self.costs[key].total

    def left(self) -> float:
        ratio = self.taken / self.expected if self.expected > 0 else 1.0
        return ratio * sum(cost.total for key, cost in self.costs.items() if key not in self.finished)


def spelled(seconds: float) -> str:
    """`2 h 05 min`, `3 min`, `12 s`."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
