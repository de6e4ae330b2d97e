"""The registry of recipes: whole runs as functions that return a `RunConfig`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial

from simplax.config.run import RunConfig
from simplax.errors import UserError, nearest
from simplax.methods import METHODS, Method

Build = Callable[[Method], RunConfig]


@dataclass(frozen=True)
class Recipe:
    """A named run: a task at one scale (`family`) with one method (`label`).

    `description` is one line that says what it is and how its loss is weighted. `follows` names the recipe whose
    weights it is meant to start from, if any.
    """

    family: str
    label: str
    description: str
    build: Callable[[], RunConfig]
    follows: str | None = None

    @property
    def name(self) -> str:
        return f"{self.family}-{self.label}"

    def __call__(self) -> RunConfig:
        return replace(self.build(), name=self.name)


RECIPES: dict[str, Recipe] = {}
FAMILIES: dict[str, str] = {}
"""What each family of recipes is, as its first recipes describe it."""
_OPEN: dict[str, Callable[[str, Method], Recipe]] = {}
"""Families that have a recipe for every method, also for one that is registered after they are."""


def recipe(
    family: str, description: str, methods: Mapping[str, Method], *, follows: str | None = None
) -> Callable[[Build], Build]:
    """Register `family-<method>` for each of the methods; the function turns a method into a run."""
    FAMILIES.setdefault(family, description)

    def register(build: Build) -> Build:
        def made(label: str, method: Method) -> Recipe:
            weighting = getattr(method, "weighting", None)
            text = description if weighting is None else f"{description}; {weighting} weighting"
            if follows is not None:
                text = f"{text}; with --init-from runs/{follows}"
            return Recipe(family, label, text, partial(build, method), follows)

        for label, method in methods.items():
            RECIPES[f"{family}-{label}"] = made(label, method)
        if isinstance(methods, EveryMethod):
            _OPEN[family] = made
        return build

    return register


class EveryMethod(dict[str, Method]):
    """Methods of a family that is open to others."""


def every_method(chosen: Mapping[str, Method], but: Collection[str] = ()) -> EveryMethod:
    """Those that were chosen, then all other registered methods with their defaults, except those named in `but`.

    With it a family has a recipe for a method that is registered later, without a line here.
    """
    others = {name: kind() for name, kind in METHODS.items() if name not in (*chosen, *but)}
    return EveryMethod({**chosen, **others})


def get(name: str) -> RunConfig:
    """The run of that name."""
    for family, made in _OPEN.items():
        label = name.removeprefix(f"{family}-")
        if name not in RECIPES and label != name and label in METHODS:
            RECIPES[name] = made(label, METHODS[label]())
    if name not in RECIPES:
        raise UserError(f"there is no recipe {name!r}{nearest(name, list(RECIPES))}")
    return RECIPES[name]()


def smoke(config: RunConfig) -> RunConfig:
    """The same method and code path so small that it trains five steps in seconds."""
    architecture = replace(config.architecture, width=32, depth=2, heads=2, cond_dim=32)
    optimizer = replace(config.run.optimizer, warmup=min(2, config.run.optimizer.warmup))
    run = replace(
        config.run, steps=5, batch_size=4, accumulate=1, optimizer=optimizer, compile=False, precision="float32",
        log_every=1, save_every=5, validate_every=5, validation_batches=1, sample_every=0,
    )  # fmt: skip
    return replace(
        config,
        name=f"{config.name}-smoke",
        task=config.task.small(),
        architecture=architecture,
        run=run,
        sampling=replace(config.sampling, num_steps=min(4, config.sampling.num_steps)),
    )
