"""Taking a run up again, starting one from the weights of another, and branching one off to finish it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from simplax.errors import UserError
from simplax.io.files import sha256
from simplax.methods.distillation import TEACHER, without_teacher
from simplax.nn import lora
from simplax.train import adapters, shards
from simplax.train import checkpoint as checkpoints
from simplax.train.checkpoint import Checkpoint
from simplax.train.optimizer import Branch
from simplax.train.run import Run
from simplax.train.sharded import full, local, shard_like
from simplax.train.step import Stepper

_NEUTRAL = ("carry_norm", "self_condition_map", "label_embed")
NEUTRAL_START = tuple(f"{trunk}{part}." for trunk in ("", "trunk.") for part in _NEUTRAL)
"""Modules that change nothing at initialisation, and that the weights a run starts from may lack."""
_PACKAGED = Path(__file__).parents[1] / "pretrained" / "models"


@dataclass
class Progress:
    """What a run remembers besides tensors: enough to write the same rows as if it had never stopped.

    `window_loss` and `window_scored` are sums since the last row of metrics, `loss` the last row's mean. `started_from`
    says whose weights the run began with, if it did not begin with none; `branch` where it left that run to finish it;
    `adapters`, in a run that trains those, which frozen weights they belong to and what they are multiplied by.
    """

    step: int = 0
    window_loss: float = 0.0
    window_scored: float = 0.0
    loss: float | None = None
    best: float | None = None
    seconds: float = 0.0
    precision: str = "float32"
    started_from: dict[str, str] | None = None
    branch: Branch | None = None
    adapters: dict[str, Any] | None = None

    @staticmethod
    def from_state(state: dict[str, Any]) -> Progress:
        """What a checkpoint's state.json says."""
        said = dict(state["progress"])
        branch = said.pop("branch", None)
        return Progress(**said, branch=None if branch is None else Branch(**branch))


def describe(stepper: Stepper, progress: Progress, config: dict[str, Any]) -> dict[str, Any]:
    """Everything about this moment that is not a tensor."""
    return {
        "seed": stepper.run.seed,
        "processes": stepper.world.size,
        "steps": stepper.run.steps,
        "progress": asdict(progress),
        "ema_updates": stepper.ema.count,
        "config": config,
    }


def collect(stepper: Stepper, progress: Progress, config: dict[str, Any]) -> Checkpoint:
    """A checkpoint of this moment, of a network that every process holds whole."""
    denoiser = stepper.denoiser
    weights, average = (
        {name: full(value) for name, value in adapters.trained(denoiser, state).items()}
        for state in (denoiser.state_dict(), stepper.ema.state_dict())
    )
    return Checkpoint(
        progress.step,
        weights,
        average,
        stepper.optimizers.state_dict(),
        describe(stepper, progress, config),
    )


def write_split(stepper: Stepper, folder: Path) -> dict[str, str]:
    """Every process writes its share of weights, average and optimizer to `folder`; the digests of the files."""
    state = stepper.optimizers.state_dict(gather=False)
    parts = {
        "weights": stepper.denoiser.state_dict(),
        "ema": stepper.ema.state_dict(),
        "optimizer": {
            f"{name}/{key}": value for name, values in state.items() for key, value in values.items()
        },
    }
    return shards.write(folder, parts, stepper.world)


def resume_from(stepper: Stepper, path: Path) -> Progress:
    """Go on from a verified checkpoint; a network that is split takes shards without seeing the whole."""
    if not (stepper.sharded and checkpoints.split(path)):
        checkpoint = checkpoints.load(path, verified=True)
        _restore_base(stepper, path, checkpoint.state)
        return restore(stepper, checkpoint)
    state = checkpoints.read_state(path)
    for name, places in (
        (checkpoints.WEIGHTS, stepper.denoiser.state_dict()),
        (checkpoints.AVERAGE, stepper.ema.state_dict()),
    ):
        folder = checkpoints.part(path, name)
        fits(places, {key: shape for key, (shape, _) in shards.shapes(folder).items()}, stepper.denoiser)
        shards.read_into(folder, places)
    folder = checkpoints.part(path, checkpoints.OPTIMIZER)
    values = stepper.optimizers.empty_state(shards.shapes(folder))
    shards.read_into(
        folder, {f"{name}/{key}": v for name, inner in values.items() for key, v in inner.items()}
    )
    stepper.optimizers.load_state_dict(values)
    return _progress(stepper, state)


def restore(stepper: Stepper, checkpoint: Checkpoint) -> Progress:
    """Put every number of a checkpoint back in its place."""
    denoiser = stepper.denoiser
    put(adapters.trained(denoiser, denoiser.state_dict()), checkpoint.weights, denoiser)
    put(adapters.trained(denoiser, stepper.ema.state_dict()), checkpoint.ema, denoiser)
    stepper.optimizers.load_state_dict(checkpoint.optimizer)
    return _progress(stepper, checkpoint.state)


def _restore_base(stepper: Stepper, path: Path, state: dict[str, Any]) -> None:
    known = state["progress"].get("adapters")
    if known is not None and lora.is_adapted(stepper.denoiser):
        base = adapters.read_base(path.resolve().parent.parent, known)
        put(adapters.frozen_places(stepper.denoiser), base, stepper.denoiser)


def _progress(stepper: Stepper, state: dict[str, Any]) -> Progress:
    stepper.ema.count = state["ema_updates"]
    progress = Progress.from_state(state)
    stepper.optimizers.branch = progress.branch
    return progress


def start_from(stepper: Stepper, source: Path) -> dict[str, str]:
    """Take weights and average of another run, of one of its checkpoints, or of a model directory; say which.

    A prior is part of the process and not of what was learned: this run keeps its own. Adapters are trained on the
    average, which is what the other model is used with.
    """
    weights, average, updates, digest = _read_start(source)
    denoiser = stepper.denoiser
    starts = [(without_teacher(denoiser.state_dict()), weights), (stepper.ema.state_dict(), average)]
    if lora.is_adapted(denoiser):
        starts, updates = [(adapters.start_places(denoiser), average)], 0
    if (teacher := getattr(denoiser, TEACHER, None)) is not None:
        starts.append((teacher.state_dict(), average))
    for places, values in starts:
        own, others = ({k: v for k, v in part.items() if k != "pi"} for part in (places, values))
        put(own, others, denoiser)
    stepper.ema.count = updates
    return _named(source, digest)


def branch_from(stepper: Stepper, source: Path) -> Progress:
    """Go on from a checkpoint of another run with everything it holds, while the learning rate falls to zero.

    Steps are counted on from there, so data and noise are those the other run would have seen next.
    """
    file = _start_file(source)
    if not (file.parent / checkpoints.STATE).exists() and checkpoints.nothing_saved(source):
        raise UserError(
            f"{source} has no optimizer to go on with: decay_from needs a run or a checkpoint of one."
        )
    state = checkpoints.verify(file.parent)
    branch = _branch(stepper.run, state, source)
    resume_from(stepper, file.parent)
    stepper.optimizers.branch = branch
    digest = checkpoints.weights_digest(file.parent, state)
    return Progress(branch.step, started_from=_named(source, digest), branch=branch)


def _branch(run: Run, state: dict[str, Any], source: Path) -> Branch:
    step = state["step"]
    if step < run.optimizer.warmup:
        raise UserError(
            f"{source} is at step {step}, inside the warm-up of {run.optimizer.warmup} steps: decay from a later one."
        )
    if run.steps <= step:
        raise UserError(
            f"{source} is at step {step} and steps are counted on from there: say --run.steps above {step}."
        )
    length = state.get("steps") or state["config"].get("run", {}).get("steps") or run.steps
    return Branch(step, run.optimizer.factor(step, length, Progress.from_state(state).branch))


def _named(source: Path, digest: str) -> dict[str, str]:
    # a model of the package has a name that holds on every machine; its path does not
    name = source.name if source.parent == _PACKAGED else str(source)
    return {"path": name, "sha256": digest}


def check_same_start(directory: Path, found: Path, source: Path) -> None:
    """Refuse to go on with a run that began with other weights.

    The same place is enough, for the source may have trained since, and so are the same weights at another place.
    Checkpoints of older versions do not know how their run began.
    """
    progress = checkpoints.read_state(found)["progress"]
    if "started_from" not in progress:
        return
    began = progress["started_from"]
    if began is not None:
        if Path(began["path"]).resolve() == source.resolve():
            return
        if source.is_dir():
            file = _start_file(source)
            if (file.parent / checkpoints.STATE).exists() or not checkpoints.nothing_saved(source):
                checkpoints.verify(file.parent, {checkpoints.WEIGHTS})
            elif not file.exists():
                raise UserError(f"{file} does not exist: init_from takes a run or a model directory.")
            if sha256(file) == began["sha256"]:
                return
    how = "from nothing" if began is None else f"with {began['path']}"
    raise UserError(
        f"{directory} holds a run that began {how}: leave out --init-from to go on, or choose another directory."
    )


def _start_file(source: Path) -> Path:
    """The weights that a run started from `source` begins with, not verified: who reads them does that, once."""
    if not source.is_dir():
        raise UserError(f"{source} does not exist: init_from takes a run or a model directory.")
    if (source / checkpoints.ADAPTER).is_file():
        raise UserError(
            f"{source} holds adapters alone: merge them with `simplax export {source} DIR`, and name that."
        )
    if (source / checkpoints.STATE).exists():
        return checkpoints.part(source, checkpoints.WEIGHTS)
    if checkpoints.nothing_saved(source):
        return source / checkpoints.WEIGHTS
    return checkpoints.part(checkpoints.newest(source), checkpoints.WEIGHTS)


def _read_start(source: Path) -> tuple[dict[str, Tensor], dict[str, Tensor], int, str]:
    """Weights, average, how often that was updated, and the digest of the weights; every file is hashed once."""
    file = _start_file(source)
    folder = file.parent
    if (folder / checkpoints.STATE).exists() or not checkpoints.nothing_saved(source):
        loaded = checkpoints.load(folder)
        weights, average = map(
            without_teacher, adapters.whole(folder, loaded.state, loaded.weights, loaded.ema)
        )
        return weights, average, loaded.state["ema_updates"], checkpoints.weights_digest(folder, loaded.state)
    # a model directory holds one set of weights: it is its own average, and the average warms up anew
    weights = checkpoints.load_tensors(file)
    return weights, weights, 0, checkpoints.check_digest(file)


@torch.no_grad()
def put(places: dict[str, Tensor], values: dict[str, Tensor], denoiser: nn.Module) -> None:
    """Copy whole tensors into (possibly sharded) ones of the same names and shapes.

    Options that start as an exact no-op and that the stored network does not have keep their start: a network with a
    carry or with labels may begin with the weights of one without, and computes the same.
    """
    neutral = {name: place for name, place in places.items() if name.startswith(NEUTRAL_START)}
    shapes = {name: tuple(value.shape) for name, value in {**neutral, **values}.items()}
    fits(places, shapes, denoiser)
    for name, place in places.items():
        if name in values:
            local(place).copy_(local(shard_like(values[name], place)))


def fits(places: dict[str, Tensor], shapes: dict[str, tuple[int, ...]], denoiser: nn.Module) -> None:
    """Refuse weights of other names or shapes."""
    if missing := sorted(set(places) ^ set(shapes)):
        raise UserError(
            f"these weights are of another architecture: {missing[0]} is in one network and not in the other."
        )
    for name, place in places.items():
        if tuple(place.shape) != shapes[name]:
            raise UserError(_mismatch(name, shapes[name], tuple(place.shape), denoiser))


def _mismatch(name: str, stored: tuple[int, ...], wanted: tuple[int, ...], denoiser: nn.Module) -> str:
    size = getattr(denoiser, "vocab_size", None)
    for old, new in zip(stored, wanted):
        if old != new and new == size:
            return f"these weights were trained on {old} categories and this run has {new}: use the same vocabulary."
    return f"these weights are of another architecture: {name} is {stored} there and {wanted} here."
