"""What a suite is: rows to be trained and measured in the same way, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from simplax.config.run import RunConfig, to_json
from simplax.errors import UserError
from simplax.io.digest import digest
from simplax.samplers import Sampler
from simplax.suites.benchmark import Benchmark

# what decides neither the weights nor, in a suite, how they are sampled
_HABITS = (
    "log_every",
    "save_every",
    "keep",
    "keep_every",
    "validate_every",
    "validation_batches",
    "sample_every",
)
_NAMES = ("name", "sampling", "unconditional")


@dataclass(frozen=True)
class Setting:
    """How a model is sampled: one of the settings that are tried on the development set."""

    sampler: Sampler[Any]
    temperature: float = 1.0


@dataclass(frozen=True)
class Entry:
    """A row of the table: what is trained, and the settings of its sampler that are tried.

    `differs` names every setting outside the method that is not that of the other rows (`task.layout`,
    `architecture.width`), with the reason: it becomes a footnote. One that differs and is not named here is refused.
    Rows whose runs are the same share the weights.
    """

    name: str
    title: str
    config: RunConfig
    tries: tuple[Setting, ...]
    differs: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Published:
    """Numbers of a publication, by row and column."""

    source: str
    rows: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Suite:
    """Rows, each trained once per seed, and what is measured on all of them."""

    name: str
    title: str
    benchmark: Benchmark
    entries: tuple[Entry, ...]
    seeds: tuple[int, ...] = (0,)
    published: Published | None = None

    def __post_init__(self) -> None:
        names = [entry.name for entry in self.entries]
        if len(set(names)) < len(names):
            raise ValueError(f"the suite {self.name} names a row twice: {', '.join(names)}")

    def jobs(self) -> list[Job]:
        """Every training of the suite with the rows that use its weights, the first seed of all rows first."""
        found: dict[str, Job] = {}
        for seed in self.seeds:
            for entry in self.entries:
                config = seeded(entry.config, seed)
                key = training_key(config)
                before = found.get(key)
                entries = (entry,) if before is None else (*before.entries, entry)
                found[key] = Job(key, seed, config, entries)
        return list(found.values())


@dataclass(frozen=True)
class Job:
    """One training and the rows measured on its weights."""

    key: str
    seed: int
    config: RunConfig
    entries: tuple[Entry, ...]
    owner: str | None = None

    @property
    def name(self) -> str:
        """That of its first row; if only some rows are asked for, `owner` keeps it."""
        return self.owner or row_name(self.entries[0], self.seed)


def row_name(entry: Entry, seed: int) -> str:
    """Of the files of a row."""
    return f"{entry.name}-seed{seed}"


def seeded(config: RunConfig, seed: int) -> RunConfig:
    """The run of a seed: the order of the data, the first weights and the noise are all of that seed."""
    task: Any = config.task
    return replace(
        config, task=replace(task, seed=seed), run=replace(config.run, seed=config.run.seed + seed)
    )


def training_key(config: RunConfig) -> str:
    """Of everything that decides the weights: rows and suites with the same one share them."""
    data = to_json(config)
    for name in _NAMES:
        data.pop(name, None)
    for name in _HABITS:
        data["run"].pop(name)
    return digest(data)[:16]


@dataclass(frozen=True)
class Options:
    """What a suite may be asked for besides its name: it is stored with the results, and `show` reads it there."""

    budget_steps: int | None = None
    """optimizer steps of every training; the suite's own if none"""
    seeds: tuple[int, ...] | None = None
    """a training of every row for each; the suite's own if none"""
    num: int | None = None
    """size of every evaluation set; the suite's own if none"""
    precision: str = "float32"
    """number format of training and evaluation"""

    def __post_init__(self) -> None:
        for name in ("budget_steps", "num"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"{name.replace('_', ' ')} must be at least 1, got {value}.")
        if self.seeds is not None and (not self.seeds or len(set(self.seeds)) < len(self.seeds)):
            raise UserError("name at least one seed, and each of them once.")
        if self.seeds is not None and min(self.seeds) < 0:
            raise UserError("seeds must not be negative.")


@dataclass(frozen=True)
class Declaration:
    """A suite by name; `build` makes it for given options."""

    about: str
    build: Callable[[Options], Suite]
