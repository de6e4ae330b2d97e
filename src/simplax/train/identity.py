"""What makes a run the run it is, and what may be done differently when it goes on.

The identity decides the weights: seed, data, method, network, optimizer, batch. It is fixed when the run begins. The
operations (how long, how often something is logged or saved, on how many processes) may change at any resume.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from simplax.errors import UserError
from simplax.io.files import write_json
from simplax.train import checkpoint as checkpoints
from simplax.train.optimizer import Branch, Optimizer
from simplax.train.run import OPERATIONS, ROUNDING, Run

Config = dict[str, Any]
CONFIG = "config.json"
_ABSENT = "absent"


@dataclass(frozen=True)
class Change:
    """One setting, by its dotted name, before and now."""

    path: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.path or 'config'}: {_short(self.old)} -> {_short(self.new)}"


@dataclass(frozen=True)
class Settled:
    """The configuration a run goes on with, and what is different in it."""

    config: Config
    changes: tuple[Change, ...] = ()

    def changed(self, *names: str) -> bool:
        """Whether one of these fields of `Run` is different."""
        return any(change.path == f"run.{name}" for change in self.changes for name in names)


def default_config(run: Run) -> Config:
    """What is stored of a run that was given no configuration."""
    config: Config = json.loads(json.dumps({"run": asdict(run)}))
    return config


def default_modern(stored: Config) -> Config:
    """A stored configuration with the options that came later, at their defaults."""
    run = stored.get("run")
    if not isinstance(run, dict) or not isinstance(run.get("optimizer"), dict):
        return stored
    known = default_config(Run(steps=1, batch_size=1))["run"]
    return {**stored, "run": {**known, **run, "optimizer": {**known["optimizer"], **run["optimizer"]}}}


def settle_config(
    directory: Path,
    config: Config,
    modern: Callable[[Config], Config],
    may_change: Collection[str] = (),
    precision: str = "auto",
) -> Settled:
    """Write the resolved configuration before step 0, or refuse to continue a run of another identity.

    `modern` spells a stored configuration as this version would, so that a new option at its default changes no run.
    Settings at or below the dotted names that `may_change`, and the operations of `Run`, decide nothing about the
    weights: differences in them are reported. A new run is stored with the `precision` that was decided on.
    """
    path = directory / CONFIG
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            config = _with_precision(config, precision)
            write_json(path, config)
            return Settled(config)
        stored = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(stored, dict):
            raise ValueError
    except OSError as error:
        raise UserError(
            f"cannot use {directory} for a run ({error.strerror}): choose another directory."
        ) from error
    except ValueError:
        raise UserError(f"{path} is damaged: restore it or choose another directory.") from None
    try:
        before = json.loads(json.dumps(modern(stored)))
    except UserError as error:
        raise UserError(f"{path} is damaged or of another version of simplax: {error}") from error
    now = _same_precision(before, json.loads(json.dumps(config)))
    changes = difference(before, now)
    free = (*may_change, *(f"run.{name}" for name in OPERATIONS))
    if fixed := [change for change in changes if not _within(change.path, free)]:
        advice = "choose another directory or undo"
        if checkpoints.nothing_saved(directory):
            advice = f"it has saved nothing yet, so remove {path} if nothing trains there, or undo"
        raise UserError(
            f"{directory} holds a run with another configuration, {advice}: " + "; ".join(map(str, fixed))
        )
    return Settled(now, tuple(changes))


def _same_precision(before: Config, now: Config) -> Config:
    """`auto` was decided when the run began; a run of an older version may still say so, and `decided` knows more."""
    if "auto" in (_precision(before), _precision(now)):
        return _with_precision(_with_precision(now, "auto", always=True), _precision(before) or "auto")
    return now


def decided(
    directory: Path, requested: Config, settled: Config, rule: str, state: dict[str, Any] | None
) -> str:
    """The number format of a run: that of its checkpoint, or of its configuration, or, for a new one, of the rule."""
    taken = _precision(settled)
    taken = rule if taken in (None, "auto") else taken
    if state is not None:
        taken = str(state["progress"].get("precision", taken))
    if _precision(requested) not in (None, "auto", taken):
        raise UserError(
            f"{directory} computes in {taken}: leave out --run.precision to go on, or choose another directory."
        )
    return str(taken)


def _precision(config: Config) -> str | None:
    run = config.get("run")
    return run.get("precision") if isinstance(run, dict) else None


def _with_precision(config: Config, precision: str, always: bool = False) -> Config:
    """The configuration with the number format that was decided on in the place of `auto`."""
    if _precision(config) == "auto" or (always and _precision(config) is not None):
        return {**config, "run": {**config["run"], "precision": precision}}
    return config


def _within(path: str, names: Collection[str]) -> bool:
    return any(path == name or path.startswith(f"{name}.") for name in names)


def difference(old: Any, new: Any, path: str = "") -> list[Change]:
    """Where two plain configurations differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            change
            for key in sorted(set(old) | set(new))
            if old.get(key, _ABSENT) != new.get(key, _ABSENT)
            for change in difference(
                old.get(key, _ABSENT), new.get(key, _ABSENT), f"{path}.{key}" if path else key
            )
        ]
    return [] if old == new else [Change(path, old, new)]


def _short(value: Any) -> str:
    text = value if value == _ABSENT else json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def notes(
    settled: Settled, run: Run, branch: Branch | None, step: int, processes: tuple[int, int]
) -> list[str]:
    """What the changes of a run that goes on at `step` do to it; `processes` are those before and now."""
    lines = []
    if settled.changes:
        lines.append(f"other settings from here on: {'; '.join(map(str, settled.changes))}")
    if processes[0] != processes[1] or settled.changed(*ROUNDING):
        was, now = processes
        how = f"{was} process{'es' * (was > 1)} before and {now} now: " if was != now else ""
        lines.append(
            f"{how}the order of sums changes the last digits of what follows, and the masks of dropout"
        )
    for change in settled.changes:
        if change.path == "run.steps" and isinstance(change.old, int):
            old, new = (run.optimizer.factor(step, steps, branch) for steps in (change.old, run.steps))
            if old != new:
                lines.append(
                    f"the learning rate depends on the length: at step {step:,} it is {new:.3g} times its peak instead "
                    f"of {max(old, 0.0):.3g}"
                )
    return lines


def warm_up_note(optimizer: Optimizer, steps: int) -> str | None:
    """A warm-up that never ends is allowed, for trying things out, and reported."""
    if optimizer.warmup <= steps:
        return None
    return (
        f"the warm-up of {optimizer.warmup:,} steps is longer than the run of {steps:,}, so the learning rate ends at "
        f"{optimizer.factor(steps, steps):.1%} of its peak: --run.optimizer.warmup makes it shorter"
    )
