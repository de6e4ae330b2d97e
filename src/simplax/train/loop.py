"""`train`: the loop around one step that logs, validates, saves, stops and resumes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterator, Sequence, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from simplax.errors import UserError
from simplax.io.files import write_json
from simplax.io.lock import Lock, acquire
from simplax.nn import lora
from simplax.train import adapters
from simplax.train import checkpoint as checkpoints
from simplax.train import precision as precisions
from simplax.train.distributed import World, connect, forget_group
from simplax.train.hooks import Hook, SampleHook
from simplax.train.identity import (
    CONFIG,
    Settled,
    decided,
    default_config,
    default_modern,
    notes,
    settle_config,
    warm_up_note,
)
from simplax.train.interrupt import Interrupt
from simplax.train.metrics import truncate
from simplax.train.resume import Progress, branch_from, check_same_start, resume_from, start_from
from simplax.train.run import Run
from simplax.train.session import Result, Session
from simplax.train.step import Stepper
from simplax.train.validation import Metric
from simplax.typing import Source


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
    decay_from: bool = False,
    on_start: Callable[[], None] = lambda: None,
    hooks: Sequence[Hook | SampleHook] = (),
    device: str = "auto",
    quiet: bool = False,
) -> Result:
    """Train `denoiser` in place with `method.loss` on `source`, in `directory`.

    Run it again to continue: a run that was stopped or killed at any moment ends, on the CPU, with the same bits as
    one that was not. `config` (plain JSON) is stored; what decides the weights must not change in it, the operations of
    `Run` and the dotted names that `may_change` may. `modern_config` spells a stored one as this version would.
    `validation` and `metric` are evaluated with the averaged weights; the best checkpoint has the highest `score` of
    the metric, or else the lowest held-out loss. `init_from` starts from the weights of another run or model with a
    fresh optimizer; with `decay_from` also from its optimizer and its step, and the rate falls to zero from there.
    `on_start` is called in the first process once the directory is its own. Ctrl-C saves and exits 130.
    """
    directory = Path(directory)
    if config is None:
        config, modern_config = default_config(run), default_modern
    config = json.loads(json.dumps(config))
    if decay_from and init_from is None:
        raise UserError("decay_from says how to go on from another run: name that run with init_from.")
    with connect(device) as world, Interrupt() as interrupt, _own_random_state(world):
        tell = (lambda text: print(text, file=sys.stderr)) if world.main and not quiet else lambda text: None
        _check(denoiser, source, run, world)
        with _hold(directory, world, tell) as lock:
            asked = world.on_main(lambda: precisions.choose(run.precision, denoiser, world.device))
            start = world.on_main(
                lambda: _prepare(
                    directory,
                    config,
                    modern_config,
                    may_change,
                    resume,
                    allow_older,
                    init_from,
                    asked,
                    on_start,
                )
            )
            denoiser.to(world.device)

            def session() -> Result:
                """A frame of its own: what holds on to the other processes is gone when they part."""
                stepper, progress = _begin(method, denoiser, source, run, world, start, init_from, decay_from)
                if start.found is None and lora.is_adapted(denoiser):
                    progress.adapters = world.on_main(lambda: adapters.keep_base(directory, denoiser))
                for line in _told(directory, start, stepper, progress):
                    tell(line)
                settled = start.settled.config
                return Session(
                    method, stepper, progress, directory, settled, validation, metric, hooks, lock
                ).train(interrupt, quiet)

            try:
                return session()
            finally:
                method.release(denoiser)
                forget_group(denoiser)


def _check(denoiser: nn.Module, source: Source, run: Run, world: World) -> None:
    run.micro_batch(world.size)
    size = getattr(denoiser, "vocab_size", None)
    if size is not None and size < source.vocab_size:
        raise UserError(
            f"the denoiser knows {size} categories and the data has {source.vocab_size}: build it for the data."
        )
    if run.sharding == "fsdp" and world.size > 1 and lora.is_adapted(denoiser):
        raise UserError("adapters are small and are not split over processes: leave out run.sharding.")
    if isinstance(source, Sized) and len(source) < run.batch_size:
        raise UserError(
            f"the data has {len(source)} sequences and a batch {run.batch_size}: make run.batch_size at most that."
        )


@contextmanager
def _hold(directory: Path, world: World, tell: Callable[[str], None]) -> Iterator[Lock | None]:
    """The first process holds the directory for all of them."""
    held: list[Lock] = []
    world.on_main(lambda: held.append(acquire(directory, tell)))
    try:
        yield held[0] if held else None
    finally:
        for lock in held:
            lock.release()


@dataclass(frozen=True)
class _Start:
    """How a run begins or goes on: from which checkpoint, with which configuration and in which number format."""

    found: Path | None
    settled: Settled
    precision: str
    processes: int


def _prepare(
    directory: Path,
    config: dict[str, Any],
    modern: Callable[[dict[str, Any]], dict[str, Any]],
    may_change: Collection[str],
    resume: str,
    allow_older: bool,
    init_from: str | Path | None,
    precision: str,
    on_start: Callable[[], None],
) -> _Start:
    """Settle the run directory in the first process."""
    if resume == "never" and (directory / CONFIG).exists():
        raise UserError(f"{directory} already holds a run: resume it or choose another directory.")
    on_start()
    settled = settle_config(directory, config, modern, may_change, precision)
    found = checkpoints.find(directory, allow_older=allow_older)
    if found is not None and init_from is not None:
        check_same_start(directory, found, Path(init_from))
    state = None if found is None else checkpoints.read_state(found)
    chosen = decided(directory, config, settled.config, precision, state)
    try:
        if settled.changes:
            write_json(directory / CONFIG, settled.config)
        if found is not None:
            checkpoints.write_text(directory / "latest", found.name + "\n")
        truncate(directory / "metrics.jsonl", -1 if state is None else state["step"])
    except OSError as error:
        raise UserError(f"cannot write to {directory} ({error.strerror}): allow it, then resume.") from error
    return _Start(found, settled, chosen, 0 if state is None else state.get("processes", 0))


def _begin(
    method: Any,
    denoiser: nn.Module,
    source: Source,
    run: Run,
    world: World,
    start: _Start,
    init_from: str | Path | None,
    decay_from: bool,
) -> tuple[Stepper, Progress]:
    """Network, optimizer and average as they are when training begins; what was read from files is let go."""
    precisions.apply(start.precision, denoiser)
    method.prepare(denoiser)
    stepper = Stepper(method, denoiser, source, run, world)
    progress = Progress()
    if start.found is not None:
        progress = resume_from(stepper, start.found)
        if start.settled.changed("validation_batches"):
            progress.best = None  # scores of other samples do not compare
    elif init_from is not None and decay_from:
        progress = branch_from(stepper, Path(init_from))
    elif init_from is not None:
        progress.started_from = start_from(stepper, Path(init_from))
    progress.precision = start.precision
    return stepper, progress


def _told(directory: Path, start: _Start, stepper: Stepper, progress: Progress) -> Iterator[str]:
    """What is worth saying before the first step."""
    run, world = stepper.run, stepper.world
    if start.found is not None:
        state = "is complete" if progress.step >= run.steps else "goes on"
        yield f"{directory} {state}: step {progress.step:,} of {run.steps:,}"
        processes = (start.processes or world.size, world.size)
        yield from notes(start.settled, run, progress.branch, progress.step, processes)
    elif progress.branch is not None:
        yield f"{directory} begins at step {progress.step:,}: the learning rate falls to zero at {run.steps:,}"
    if (line := warm_up_note(run.optimizer, run.steps)) is not None:
        yield line


@contextmanager
def _own_random_state(world: World) -> Iterator[None]:
    """Training seeds torch's generators at every step; the caller gets its own back."""
    devices = [world.device] if world.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        yield
