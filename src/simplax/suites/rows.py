"""Rows of a suite: every registered method on one task, with one trunk and one optimizer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

from simplax.concentration import Normalised
from simplax.config.run import RunConfig
from simplax.methods import AR, METHODS, UDLM, Method, Simplax
from simplax.nn import Architecture
from simplax.nn.carry import carry_of
from simplax.recipes.continuous import SHORT
from simplax.recipes.discrete import SUDOKU_NU, discrete
from simplax.recipes.launch import build
from simplax.suites.declared import Entry, Options, Setting
from simplax.suites.fair import matched, parameters
from simplax.suites.grids import own_tries
from simplax.tasks import Task
from simplax.train import Optimizer, Run

SAME_OBJECTIVE = ("duo-base",)
"""Methods that are left out: value for value another one of the table."""
BOUND_WEIGHTING = (
    "the loss has the weighting of the bound, as in the paper's first phase, not the constant one"
)
SOFT_CAP = "the logits are capped at 30, as published"
FITTED = "another width, with which the network has as many parameters as the others"


def method_of(name: str, steps: int, nu: Normalised = SUDOKU_NU) -> Method:
    """As published, with warm-ups and curricula for a run of so many steps; `nu` is SDM's, published per domain."""
    known: dict[str, Method] = {
        "simplax": Simplax(weighting="constant", concentration=0.01),
        "udlm": UDLM(),
        **discrete(steps, nu),
        **SHORT,
    }
    return known.get(name) or METHODS[name]()


@dataclass(frozen=True)
class Plan:
    """What all rows of a suite have in common. `place` fits task and trunk to a method and names what it changed."""

    task: Task
    trunk: Architecture
    steps: int
    batch_size: int
    precision: str
    place: Callable[[Method, Task, Architecture], tuple[Task, Architecture, Mapping[str, str]]]
    warmup: int = 100
    ema: float = 0.998
    soft_cap: float | None = None
    nu: Normalised = SUDOKU_NU
    methods: Mapping[str, tuple[Method, str]] = field(default_factory=dict)
    """Methods that this benchmark needs otherwise than `method_of` has them, and why."""
    optimizer: Optimizer = field(
        default_factory=lambda: Optimizer(
            "muon", learning_rate=2e-3, matrix_learning_rate=0.02, decay="linear"
        )
    )

    def run(self) -> Run:
        """No validation: a suite chooses nothing by it, and it would take time from training."""
        optimizer = replace(self.optimizer, warmup=min(self.warmup, max(1, self.steps // 10)))
        precision = cast(Literal["float32", "bfloat16"], self.precision)
        every = max(1, self.steps // 10)
        return Run(
            steps=self.steps,
            batch_size=self.batch_size,
            optimizer=optimizer,
            ema=self.ema,
            precision=precision,
            log_every=min(50, every),
            save_every=every,
            keep=1,
        )

    def config(self, method: Method, trunk: Architecture) -> tuple[RunConfig, Mapping[str, str]]:
        task, architecture, differs = self.place(method, self.task, trunk)
        return RunConfig("", task, method, architecture, self.run()), differs

    def entry(
        self,
        name: str,
        title: str,
        method: Method,
        tries: tuple[Setting, ...] | None = None,
        *,
        trunk: Architecture | None = None,
        differs: Mapping[str, str] | None = None,
        notes: tuple[str, ...] = (),
    ) -> Entry:
        """A row, its width fitted if the method's network would otherwise have another number of parameters."""
        chosen = self.trunk if trunk is None else trunk
        size = parameters(self.config(UDLM(), self.trunk)[0])
        config = matched(
            lambda width: self.config(method, replace(chosen, width=width))[0],
            chosen.width,
            chosen.heads,
            size,
        )
        reasons = {**self.config(method, chosen)[1], **(differs or {})}
        if config.architecture.width != self.trunk.width:
            reasons["architecture.width"] = f"{FITTED} ({config.architecture.width})"
        return Entry(name, title, replace(config, name=name), tries or own_tries(method), reasons, notes)

    def every_method(self, but: Collection[str] = SAME_OBJECTIVE) -> tuple[Entry, ...]:
        """A row for each entry of `METHODS`, also for one that is registered later."""
        return tuple(self._row(name) for name in METHODS if name not in but)

    def _row(self, name: str) -> Entry:
        chosen, why = self.methods.get(name, (None, None))
        method = method_of(name, self.steps, self.nu) if chosen is None else chosen
        notes = () if why is None else (why,)
        return self.entry(name, METHODS[name].facts.title, method, notes=notes, **self._capped(name))

    def _capped(self, name: str) -> dict[str, Any]:
        if self.soft_cap is None or not issubclass(METHODS[name], Simplax):
            return {}
        trunk = replace(self.trunk, soft_cap=self.soft_cap)
        return {"trunk": trunk, "differs": {"architecture.soft_cap": SOFT_CAP}}


def can_carry(entry: Entry) -> bool:
    """Whether the row's network can hand its hidden state to the next call."""
    config = entry.config
    if isinstance(config.method, AR):
        return False
    try:
        trunk = replace(config.architecture, carry="hidden")
        return carry_of(build(replace(config, architecture=trunk))).hidden
    except ValueError:  # a method that refuses it
        return False


def steps_of(options: Options, own: int) -> int:
    return own if options.budget_steps is None else options.budget_steps


def seeds_of(options: Options, own: tuple[int, ...] = (0,)) -> tuple[int, ...]:
    return own if options.seeds is None else options.seeds
