"""What happens between two steps: rows of metrics, validation, samples, checkpoints, and the end."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from simplax.errors import UserError
from simplax.io.files import write_tensors
from simplax.io.lock import Lock
from simplax.io.manifest import environment
from simplax.train import checkpoint as checkpoints
from simplax.train.first import Cost, FirstSteps
from simplax.train.hooks import BeginHook, Hook, SampleHook
from simplax.train.interrupt import EXIT_STATUS, Interrupt
from simplax.train.metrics import Display, Metrics
from simplax.train.resume import Progress, collect, describe, write_split
from simplax.train.step import NonFinite, Outcome, Stepper, micro_batches
from simplax.train.validation import Metric, score, validate
from simplax.typing import Source


@dataclass(frozen=True)
class Result:
    """`step` optimiser steps done; `loss` the mean of the last row of metrics.

    `cost` is what the run was expected to take, reckoned from its first steps; None if it was too short for that.
    """

    step: int
    loss: float
    directory: Path
    cost: Cost | None = field(default=None, compare=False)


class Session:
    """One call of `train`: the mutable part, and what happens between steps."""

    def __init__(
        self,
        method: Any,
        stepper: Stepper,
        progress: Progress,
        directory: Path,
        config: dict[str, Any],
        validation: Source | None,
        metric: Metric | None,
        hooks: Sequence[Hook | SampleHook],
        lock: Lock | None,
    ) -> None:
        self.method, self.stepper, self.progress = method, stepper, progress
        self.directory, self.config = directory, config
        self.validation, self.metric, self.hooks, self.lock = validation, metric, hooks, lock
        self.run, self.world = stepper.run, stepper.world
        # sums since the last row; they stay on the device, where adding to them waits for nothing
        self.window = torch.tensor(
            [progress.window_loss, progress.window_scored], dtype=torch.float64, device=self.world.device
        )
        self.metrics = Metrics(
            directory / "metrics.jsonl", [h for h in hooks if self.world.main and isinstance(h, Hook)]
        )

    def train(self, interrupt: Interrupt, quiet: bool) -> Result:
        progress, run = self.progress, self.run
        for hook in self.hooks if self.world.main else ():
            if isinstance(hook, BeginHook):
                hook.begin(self.config, {**environment(), "started_from": progress.started_from})
        if progress.step == (0 if progress.branch is None else progress.branch.step):
            device = str(self.world.device)
            self._write({"precision": progress.precision, "device": device, "processes": self.world.size})
        started = time.perf_counter() - progress.seconds
        busy, counted = 0.0, progress.step  # the rate of training itself, without validation and saving
        first = FirstSteps(self.stepper, progress.step)
        try:
            with Display(run.steps, progress.step, quiet or not self.world.main) as display:
                while progress.step < run.steps:
                    began = time.perf_counter()
                    outcome = self._step(interrupt.requested)
                    if self._due(run.log_every):
                        self.stepper.check()  # here the host waits for the device, and the time counts
                    busy += time.perf_counter() - began
                    if first.reckon(progress.step):
                        display.say(first.sentence)
                    progress.seconds = time.perf_counter() - started
                    if self._due(run.log_every):
                        tokens = (progress.step - counted) * run.batch_size * self.stepper.source.length
                        display.show(self._row(outcome, tokens / busy))
                        busy, counted = 0.0, progress.step
                    display.advance(progress.step)
                    self._between_steps(outcome.stop, display)
        except NonFinite as found:
            raise self._non_finite(found.step) from None
        finally:
            self.stepper.batches.close()
        self.stepper.denoiser.eval()
        loss = math.nan if progress.loss is None else progress.loss
        return Result(progress.step, loss, self.directory, first.cost)

    def _due(self, every: int) -> bool:
        return every > 0 and (self.progress.step % every == 0 or self.progress.step == self.run.steps)

    def _step(self, stop: bool) -> Outcome:
        outcome = self.stepper(self.progress.step, stop)
        self.progress.step += 1
        self.window += outcome.sums
        return outcome

    def _settle_window(self) -> None:
        """Read the sums from the device."""
        self.progress.window_loss, self.progress.window_scored = self.window.tolist()

    def _row(self, outcome: Outcome, tokens_per_second: float) -> dict[str, Any]:
        progress = self.progress
        self._settle_window()
        progress.loss = progress.window_loss / max(progress.window_scored, 1.0)
        progress.window_loss = progress.window_scored = 0.0
        self.window.zero_()
        values = {
            "loss": progress.loss,
            "lr": outcome.learning_rate,
            "grad_norm": float(outcome.grad_norm),
            "tokens_per_second": tokens_per_second,
            "time": progress.seconds,
        }
        self._write(values)
        return values

    def _write(self, values: dict[str, Any]) -> None:
        self.world.on_main(lambda: self.metrics.write(self.progress.step, values))

    def _between_steps(self, stop: bool, display: Display) -> None:
        run, progress = self.run, self.progress
        validates, samples = self._due(run.validate_every), self._due(run.sample_every)
        saves = stop or self._due(run.save_every) or self._due(run.keep_every) or progress.step == run.steps
        if validates or samples or saves:
            self.stepper.check()  # nothing is measured or stored of weights that stand still
        best = validates and self._validate(display)
        if samples:
            self._sample()
        if best or saves:
            self._save(best)
        if stop and progress.step < run.steps:
            display.say(f"stopped and saved at step {progress.step:,}: the same command goes on from there")
            raise SystemExit(EXIT_STATUS)

    def _validate(self, display: Display) -> bool:
        """Whether the averaged weights are the best so far."""
        if self.validation is None and self.metric is None:
            return False
        denoiser, step = self.stepper.denoiser, self.progress.step
        with self.stepper.ema.swapped_in():
            values = validate(self.method, denoiser, self.validation, self.metric, self.run, self.world, step)
        self._write(values)
        display.note(values)
        now = self.world.on_main(lambda: score(values))
        if now is None or math.isnan(now) or (self.progress.best is not None and now <= self.progress.best):
            return False
        self.progress.best = now
        return True

    def _sample(self) -> None:
        self.stepper.denoiser.eval()
        with self.stepper.ema.swapped_in(), torch.no_grad():
            for hook in self.hooks:
                if isinstance(hook, SampleHook):
                    hook.sample(self.progress.step, self.stepper.denoiser)

    def _save(self, best: bool) -> None:
        self._settle_window()
        kept: Any = {"keep": self.run.keep, "keep_every": self.run.keep_every, "best": best}
        self.world.on_main(lambda: None if self.lock is None else self.lock.check())
        if self.stepper.sharded:
            self._save_split(kept)
            return
        if self.world.main:
            gathered = collect(self.stepper, self.progress, self.config)
        self.world.on_main(lambda: str(checkpoints.save(self.directory, gathered, **kept)))

    def _save_split(self, kept: Any) -> None:
        """Each process writes its own share; the first makes the directory and gives it its name."""
        pending = checkpoints.Pending(self.directory, self.progress.step)
        self.world.on_main(pending.create)
        with pending.reported():
            hashes = write_split(self.stepper, pending.folder)
        state = describe(self.stepper, self.progress, self.config)
        self.world.on_main(lambda: str(pending.publish(state, hashes, **kept)))

    def _non_finite(self, step: int) -> UserError:
        """Save what this process was training on, for whoever wants to know why."""
        path = self.directory / f"nonfinite-step-{step:09d}-rank-{self.world.rank}.safetensors"
        parts = list(micro_batches(self.stepper.source, self.run, self.world, step))
        tensors = {
            "counters": torch.cat([c for _, _, c in parts]),
            "u": torch.cat([x.u for _, x, _ in parts]),
        }
        for name in ("tokens", "given", "scored", "attend", "labels"):
            columns = [getattr(batch, name) for batch, _, _ in parts]
            if columns[0] is not None:
                tensors[name] = torch.cat(columns)
        write_tensors(path, {name: tensor.cpu() for name, tensor in tensors.items()})
        saved = (self.directory / "latest").exists()
        going_on = f" and --init-from {self.directory}" if saved else ""
        return UserError(
            f"the loss or its gradient is not finite at step {step}: the batch is in {path}; look at the data, or "
            f"start a new run with a lower learning rate{going_on}."
        )
