"""`train`: the loop around one step that logs, validates, saves, stops and resumes."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from simplax.errors import UserError
from simplax.io.files import write_json, write_tensors
from simplax.train import checkpoint as checkpoints
from simplax.train import precision as precisions
from simplax.train.distributed import World, connect
from simplax.train.hooks import Hook, SampleHook
from simplax.train.interrupt import EXIT_STATUS, Interrupt
from simplax.train.metrics import Display, Metrics, truncate
from simplax.train.resume import Progress, check_same_start, collect, restore, settle_config, start_from
from simplax.train.run import Run
from simplax.train.step import NonFinite, Outcome, Stepper, micro_batches
from simplax.train.validation import Metric, score, validate
from simplax.typing import Source


@dataclass(frozen=True)
class Result:
    """`step` optimiser steps done; `loss` the mean of the last row of metrics."""

    step: int
    loss: float
    directory: Path


def train(
    method: Any,
    denoiser: nn.Module,
    source: Source,
    run: Run,
    directory: str | Path,
    *,
    validation: Source | None = None,
    metric: Metric | None = None,
    config: dict[str, Any] | None = None,
    modern_config: Callable[[dict[str, Any]], dict[str, Any]] = lambda stored: stored,
    may_change: Collection[str] = (),
    resume: Literal["auto", "never"] = "auto",
    allow_older: bool = False,
    init_from: str | Path | None = None,
    hooks: Sequence[Hook | SampleHook] = (),
    device: str = "auto",
    quiet: bool = False,
) -> Result:
    """Train `denoiser` in place with `method.loss` on `source`, in `directory`.

    Run it again to continue: a run that was stopped or killed at any moment ends, on the CPU, with the same bits as
    one that was not. `config` (plain JSON) is stored and must not change, save the sections that `may_change`;
    `modern_config` spells a stored one as this version would. `validation` and `metric` are evaluated with
    the averaged weights; the best checkpoint has the highest `score` of the metric, or else the lowest held-out loss.
    `init_from` starts from the weights of another run or model with a fresh optimizer. Ctrl-C saves and exits 130.
    """
    directory = Path(directory)
    config = json.loads(json.dumps(config if config is not None else {"run": asdict(run)}))
    with connect(device) as world, Interrupt() as interrupt, _own_random_state(world):
        _check(denoiser, source, run, world)
        found, changes = world.on_main(
            lambda: _prepare(directory, config, modern_config, may_change, resume, allow_older, init_from)
        )
        tell = (lambda text: print(text, file=sys.stderr)) if world.main and not quiet else lambda text: None
        if changes:
            tell(f"{directory} goes on with other settings: {'; '.join(changes)}")
        loaded = checkpoints.load(found) if found is not None else None
        denoiser.to(world.device)
        progress = Progress()
        progress.precision = (
            loaded.state["progress"]["precision"]
            if loaded is not None
            else world.on_main(lambda: precisions.choose(run.precision, denoiser, world.device))
        )
        precisions.apply(progress.precision, denoiser)
        stepper = Stepper(method, denoiser, source, run, world)
        if loaded is not None:
            progress = restore(stepper, loaded)
            state = "is complete" if progress.step >= run.steps else "goes on"
            tell(f"{directory} {state}: step {progress.step:,} of {run.steps:,}")
        elif init_from is not None:
            progress.started_from = start_from(stepper, Path(init_from))
        session = _Session(method, stepper, progress, directory, config, validation, metric, hooks)
        return session.train(interrupt, quiet)


def _check(denoiser: nn.Module, source: Source, run: Run, world: World) -> None:
    run.micro_batch(world.size)
    size = getattr(denoiser, "vocab_size", None)
    if size is not None and size < source.vocab_size:
        raise UserError(
            f"the denoiser knows {size} categories and the data has {source.vocab_size}: build it for the data."
        )


def _prepare(
    directory: Path,
    config: dict[str, Any],
    modern: Callable[[dict[str, Any]], dict[str, Any]],
    may_change: Collection[str],
    resume: str,
    allow_older: bool,
    init_from: str | Path | None,
) -> tuple[Path | None, list[str]]:
    """Settle the run directory in the first process: the checkpoint to continue from, if any, and what changed."""
    if resume == "never" and (directory / "config.json").exists():
        raise UserError(f"{directory} already holds a run: resume it or choose another directory.")
    changes = settle_config(directory, config, modern, may_change)
    found = checkpoints.find(directory, allow_older=allow_older)
    if found is not None and init_from is not None:
        check_same_start(directory, found, Path(init_from))
    if changes:
        write_json(directory / "config.json", config)
    if found is not None:
        checkpoints.write_text(directory / "latest", found.name + "\n")
    step = checkpoints.verify(found)["step"] if found is not None else -1
    truncate(directory / "metrics.jsonl", step)
    return found, changes


@contextmanager
def _own_random_state(world: World) -> Iterator[None]:
    """Training seeds torch's generators at every step; the caller gets its own back."""
    devices = [world.device] if world.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        yield


class _Session:
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
    ) -> None:
        self.method, self.stepper, self.progress = method, stepper, progress
        self.directory, self.config = directory, config
        self.validation, self.metric, self.hooks = validation, metric, hooks
        self.run, self.world = stepper.run, stepper.world
        self.metrics = Metrics(
            directory / "metrics.jsonl", [h for h in hooks if self.world.main and isinstance(h, Hook)]
        )

    def train(self, interrupt: Interrupt, quiet: bool) -> Result:
        progress, run = self.progress, self.run
        if progress.step == 0:
            device = str(self.world.device)
            self._write({"precision": progress.precision, "device": device, "processes": self.world.size})
        started = time.perf_counter() - progress.seconds
        busy, counted = 0.0, progress.step  # the rate of training itself, without validation and saving
        with Display(run.steps, progress.step, quiet or not self.world.main) as display:
            while progress.step < run.steps:
                began = time.perf_counter()
                outcome = self._step(interrupt.requested)
                busy += time.perf_counter() - began
                progress.seconds = time.perf_counter() - started
                if self._due(run.log_every):
                    tokens = (progress.step - counted) * run.batch_size * self.stepper.source.length
                    display.show(self._row(outcome, tokens / busy))
                    busy, counted = 0.0, progress.step
                display.advance(progress.step)
                self._between_steps(outcome.stop, display)
        self.stepper.denoiser.eval()
        return Result(progress.step, math.nan if progress.loss is None else progress.loss, self.directory)

    def _due(self, every: int) -> bool:
        return every > 0 and (self.progress.step % every == 0 or self.progress.step == self.run.steps)

    def _step(self, stop: bool) -> Outcome:
        progress = self.progress
        try:
            outcome = self.stepper(progress.step, stop)
        except NonFinite:
            raise self._non_finite() from None
        progress.step += 1
        progress.window_loss += outcome.loss_sum
        progress.window_scored += outcome.scored
        return outcome

    def _row(self, outcome: Outcome, tokens_per_second: float) -> dict[str, Any]:
        progress = self.progress
        progress.loss = progress.window_loss / max(progress.window_scored, 1.0)
        progress.window_loss = progress.window_scored = 0.0
        values = {
            "loss": progress.loss,
            "lr": outcome.learning_rate,
            "grad_norm": outcome.grad_norm,
            "tokens_per_second": tokens_per_second,
            "time": progress.seconds,
        }
        self._write(values)
        return values

    def _write(self, values: dict[str, Any]) -> None:
        self.world.on_main(lambda: self.metrics.write(self.progress.step, values))

    def _between_steps(self, stop: bool, display: Display) -> None:
        run, progress = self.run, self.progress
        best = self._due(run.validate_every) and self._validate(display)
        if self._due(run.sample_every):
            self._sample()
        if best or stop or self._due(run.save_every) or progress.step == run.steps:
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
        gathered = collect(self.stepper, self.progress, self.config)
        self.world.on_main(
            lambda: str(checkpoints.save(self.directory, gathered, keep=self.run.keep, best=best))
        )

    def _non_finite(self) -> UserError:
        """Save what this process was training on, for whoever wants to know why."""
        step, rank = self.progress.step, self.world.rank
        path = self.directory / f"nonfinite-step-{step:09d}-rank-{rank}.safetensors"
        parts = list(micro_batches(self.stepper.source, self.run, self.world, step))
        tensors = {
            "counters": torch.cat([c for _, _, c in parts]),
            "u": torch.cat([x.u for _, x, _ in parts]),
        }
        for name in ("tokens", "given", "scored", "attend"):
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
