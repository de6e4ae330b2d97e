"""What a run will take, reckoned from its first steps: they are steps of the run, so nothing is done twice."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from simplax.io.memory import peak_memory
from simplax.io.progress import duration
from simplax.train.step import Stepper

UNTIMED, TIMED = 3, 2
"""Steps that compile and warm up, and those whose time is taken."""
SAID_FROM = 60.0
"""Seconds from which a person is told."""


@dataclass(frozen=True)
class Cost:
    """Steps and tokens still to come, network passes forward and backward among them, seconds and the most memory."""

    steps: int
    passes: int
    tokens: int
    seconds: float
    bytes: int


class FirstSteps:
    """Watches the first steps; `cost` is there once they are over, and `sentence` if the run is long."""

    def __init__(self, stepper: Stepper, step: int) -> None:
        self.stepper, self.start = stepper, step
        self.cost: Cost | None = None
        self.sentence = ""
        self._began = math.nan

    def reckon(self, step: int) -> bool:
        """Note that `step` steps are done; whether there is something to say now, and never again."""
        done, device = step - self.start, self.stepper.world.device
        if done == UNTIMED:
            self.stepper.check()  # waits for the device
            self._began = time.perf_counter()
        if done != UNTIMED + TIMED:
            return False
        self.stepper.check()
        run, left = self.stepper.run, self.stepper.run.steps - step
        each = (time.perf_counter() - self._began) / TIMED
        tokens = left * run.batch_size * self.stepper.source.length
        self.cost = Cost(left, left * run.accumulate, tokens, each * left, peak_memory(device))
        self.sentence = self._words(each)
        return bool(self.sentence)

    def _words(self, each: float) -> str:
        assert self.cost is not None
        if self.cost.seconds < SAID_FROM:
            return ""
        rate = self.stepper.run.batch_size * self.stepper.source.length / each
        return (
            f"this will take about {duration(self.cost.seconds)}: {self.cost.steps:,} more steps, "
            f"{self.cost.passes:,} passes through the network and back, {self.cost.tokens:,} tokens at {rate:,.0f} per "
            f"second as just measured, validation and saving not counted; {self.cost.bytes / 1e9:.2g} GB of memory"
        )
