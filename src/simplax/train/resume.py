"""Taking a run up again, and starting one from the weights of another."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from simplax.errors import UserError
from simplax.io.files import sha256, write_json
from simplax.train import checkpoint as checkpoints
from simplax.train.checkpoint import Checkpoint
from simplax.train.sharded import full, local, shard_like
from simplax.train.step import Stepper

NEUTRAL_START = frozenset({"carry_norm", "trunk.carry_norm"})
"""Modules that change nothing at initialisation, and that the weights a run starts from may lack."""
_PACKAGED = Path(__file__).parents[1] / "pretrained" / "models"


@dataclass
class Progress:
    """What a run remembers besides tensors: enough to write the same rows as if it had never stopped.

    `window_loss` and `window_scored` are sums since the last row of metrics, `loss` the last row's mean. `started_from`
    says whose weights the run began with, if it did not begin with none.
    """

    step: int = 0
    window_loss: float = 0.0
    window_scored: float = 0.0
    loss: float | None = None
    best: float | None = None
    seconds: float = 0.0
    precision: str = "float32"
    started_from: dict[str, str] | None = None


def settle_config(
    directory: Path,
    config: dict[str, Any],
    modern: Callable[[dict[str, Any]], dict[str, Any]],
    may_change: Collection[str] = (),
) -> list[str]:
    """Write the resolved config before step 0, or refuse to continue with a different one.

    `modern` spells a stored config as this version would, so that a new option at its default changes no run. The
    sections that `may_change` decide nothing about the weights: what differs in them is returned.
    """
    path = directory / "config.json"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            write_json(path, config)
            return []
        stored = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(
            f"cannot use {directory} for a run ({error.strerror}): choose another directory."
        ) from error
    except json.JSONDecodeError:
        raise UserError(f"{path} is damaged: restore it or choose another directory.") from None
    before, now = json.loads(json.dumps(modern(stored))), json.loads(json.dumps(config))
    if changes := difference(_without(before, may_change), _without(now, may_change)):
        advice = "choose another directory or undo"
        if checkpoints.nothing_saved(directory):
            advice = f"it has saved nothing yet, so remove {path} if nothing trains there, or undo"
        raise UserError(
            f"{directory} holds a run with another configuration, {advice}: " + "; ".join(changes)
        )
    return difference(before, now)


def _without(config: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name not in names}


def difference(old: Any, new: Any, path: str = "") -> list[str]:
    """Where two plain configurations differ, one short line each."""
    if isinstance(old, dict) and isinstance(new, dict):
        absent = "absent"
        return [
            line
            for key in sorted(set(old) | set(new))
            if old.get(key, absent) != new.get(key, absent)
            for line in difference(
                old.get(key, absent), new.get(key, absent), f"{path}.{key}" if path else key
            )
        ]
    return [] if old == new else [f"{path or 'config'}: {_short(old)} -> {_short(new)}"]


def _short(value: Any) -> str:
    text = value if value == "absent" else json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def collect(stepper: Stepper, progress: Progress, config: dict[str, Any]) -> Checkpoint:
    """A checkpoint of this moment; every process must call it."""
    state = {
        "seed": stepper.run.seed,
        "processes": stepper.world.size,
        "progress": asdict(progress),
        "ema_updates": stepper.ema.count,
        "config": config,
    }
    return Checkpoint(
        progress.step,
        {name: full(value) for name, value in stepper.denoiser.state_dict().items()},
        {name: full(value) for name, value in stepper.ema.state_dict().items()},
        stepper.optimizers.state_dict(),
        state,
    )


def restore(stepper: Stepper, checkpoint: Checkpoint) -> Progress:
    """Put every number of a checkpoint back in its place."""
    put(stepper.denoiser.state_dict(), checkpoint.weights, stepper.denoiser)
    put(stepper.ema.state_dict(), checkpoint.ema, stepper.denoiser)
    stepper.optimizers.load_state_dict(checkpoint.optimizer)
    stepper.ema.count = checkpoint.state["ema_updates"]
    return Progress(**checkpoint.state["progress"])


def start_from(stepper: Stepper, source: Path) -> dict[str, str]:
    """Take weights and average of another run, of one of its checkpoints, or of a model directory; say which."""
    file, weights, average, updates = _read_start(source)
    put(stepper.denoiser.state_dict(), weights, stepper.denoiser)
    put(stepper.ema.state_dict(), average, stepper.denoiser)
    stepper.ema.count = updates
    # a model of the package has a name that holds on every machine; its path does not
    name = source.name if source.parent == _PACKAGED else str(source)
    return {"path": name, "sha256": sha256(file)}


def check_same_start(directory: Path, found: Path, source: Path) -> None:
    """Refuse to go on with a run that began with other weights.

    The same place is enough, for the source may have trained since, and so are the same weights at another place.
    Checkpoints of older versions do not know how their run began.
    """
    progress = checkpoints.verify(found)["progress"]
    if "started_from" not in progress:
        return
    began = progress["started_from"]
    if began is not None:
        if Path(began["path"]).resolve() == source.resolve():
            return
        if source.is_dir() and sha256(_start_file(source)) == began["sha256"]:
            return
    how = "from nothing" if began is None else f"with {began['path']}"
    raise UserError(
        f"{directory} holds a run that began {how}: leave out --init-from to go on, or choose another directory."
    )


def _start_file(source: Path) -> Path:
    """The weights that a run started from `source` begins with."""
    if not source.is_dir():
        raise UserError(f"{source} does not exist: init_from takes a run or a model directory.")
    found = source if (source / checkpoints.STATE).exists() else checkpoints.find(source)
    return (source if found is None else found) / checkpoints.WEIGHTS


def _read_start(source: Path) -> tuple[Path, dict[str, Tensor], dict[str, Tensor], int]:
    file = _start_file(source)
    if (file.parent / checkpoints.STATE).exists():
        loaded = checkpoints.load(file.parent)
        return file, loaded.weights, loaded.ema, loaded.state["ema_updates"]
    # a model directory holds one set of weights: it is its own average, and the average warms up anew
    weights = checkpoints.load_tensors(file)
    checkpoints.check_digest(file)
    return file, weights, weights, 0


@torch.no_grad()
def put(places: dict[str, Tensor], values: dict[str, Tensor], denoiser: nn.Module) -> None:
    """Copy whole tensors into (possibly sharded) ones of the same names and shapes.

    Options that start as an exact no-op and that the stored network does not have keep their start: a network with a
    carry may begin with the weights of one without, and computes the same.
    """
    neutral = {name: place for name, place in places.items() if name.rpartition(".")[0] in NEUTRAL_START}
    values = {**neutral, **values}
    if missing := sorted(set(places) ^ set(values)):
        raise UserError(
            f"these weights are of another architecture: {missing[0]} is in one network and not in the other."
        )
    for name, place in places.items():
        if place.shape != values[name].shape:
            raise UserError(_mismatch(name, tuple(values[name].shape), tuple(place.shape), denoiser))
    for name, place in places.items():
        local(place).copy_(local(shard_like(values[name], place)))


def _mismatch(name: str, stored: tuple[int, ...], wanted: tuple[int, ...], denoiser: nn.Module) -> str:
    size = getattr(denoiser, "vocab_size", None)
    for old, new in zip(stored, wanted):
        if old != new and new == size:
            return f"these weights were trained on {old} categories and this run has {new}: use the same vocabulary."
    return f"these weights are of another architecture: {name} is {stored} there and {wanted} here."
