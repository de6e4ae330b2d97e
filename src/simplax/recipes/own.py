"""Runs on your own sequences: any method, a size, and a directory of prepared data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from simplax.config.run import RunConfig, SamplingDefaults
from simplax.errors import UserError, nearest
from simplax.methods import METHODS, Method, Simplax
from simplax.nn import PRESETS, Architecture
from simplax.recipes.continuous import SHORT
from simplax.recipes.discrete import discrete
from simplax.recipes.registry import RECIPES, get
from simplax.tasks import SequenceTask, Task
from simplax.train import Optimizer, Run


@dataclass(frozen=True)
class Size:
    """A network and how long it is trained: `steps` of `batch_size` sequences."""

    preset: str
    steps: int
    batch_size: int = 64


# the first three train on a CPU in minutes to hours, the others are the published networks
SIZES: dict[str, Size] = {
    "nano": Size("cpu-nano", 2000),
    "micro": Size("cpu-micro", 5000),
    "mini": Size("cpu-mini", 10_000),
    "tiny": Size("tiny", 50_000, 128),
    "small": Size("small", 200_000, 256),
}


def own_data(method_name: str, directory: str | Path, size: str = "nano") -> RunConfig:
    """A run of a method on the data in `directory`, whose length, vocabulary and layout are the data's own."""
    if method_name not in METHODS:
        raise UserError(f"there is no method {method_name!r}{nearest(method_name, list(METHODS))}")
    if size not in SIZES:
        raise UserError(f"there is no size {size!r}{nearest(size, list(SIZES))}")
    chosen, task = SIZES[size], SequenceTask(str(directory))
    method = _method(method_name, chosen.steps)
    optimizer = Optimizer(
        "muon", learning_rate=2e-3, matrix_learning_rate=0.02, warmup=chosen.steps // 20, decay="linear"
    )
    every = max(1, chosen.steps // 10)
    run = Run(
        steps=chosen.steps,
        batch_size=chosen.batch_size,
        optimizer=optimizer,
        ema=0.995,
        validate_every=every,
        save_every=every,
    )
    return RunConfig(
        f"{method_name}-{Path(directory).resolve().name}",
        task,
        method,
        reading_labels(_architecture(PRESETS[chosen.preset], method, task), task),
        run,
        SamplingDefaults(num_steps=min(128, max(32, task.length))),
    )


def on_data(config: RunConfig, directory: str | Path) -> RunConfig:
    """Any run on other data: everything as it is but the task, and what its network knows of boards."""
    name = f"{config.name}-{Path(directory).resolve().name}"
    task = SequenceTask(str(directory))
    trunk = replace(config.architecture, relations=None)  # pairs of cells mean nothing in other sequences
    return replace(config, name=name, task=task, architecture=reading_labels(trunk, task))


def reading_labels(architecture: Architecture, task: Task) -> Architecture:
    """A network that reads the labels of the data, if there are any."""
    return replace(architecture, labels=tuple(label.size for label in task.described_by()))


def choose(name: str, directory: str | Path | None, size: str | None = None) -> RunConfig:
    """What `simplax train NAME --data DIR --size SIZE` trains: a recipe, a recipe on other data, or a method."""
    if directory is None:
        if size is not None:
            raise UserError("a size belongs to your own data: say --data DIRECTORY too.")
        if name in METHODS and name not in RECIPES:
            raise UserError(
                f"{name} is a method and not a recipe: say --data DIRECTORY, or see `simplax recipes`."
            )
        return get(name)
    if name in METHODS:
        return own_data(name, directory, size or "nano")
    if size is not None:
        raise UserError(f"the recipe {name} has a size of its own: leave out --size, or name a method.")
    return on_data(get(name), directory)


def _method(name: str, steps: int) -> Method:
    """With settings that suit a run of so many steps."""
    if name == "simplax":
        return Simplax(weighting="constant", concentration=0.01)
    return {**discrete(steps), **SHORT}.get(name) or METHODS[name]()


def _architecture(preset: Architecture, method: Method, task: SequenceTask) -> Architecture:
    """Positions have vectors of their own where sequences begin at the first of them, which packed rows do not.

    The paper caps the logits of Simplax only.
    """
    cap = 30.0 if isinstance(method, Simplax) else None
    return replace(preset, soft_cap=cap, position_embedding=task.layout != "packed")
