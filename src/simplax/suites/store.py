"""Where the parts of a suite are, and what of them is done: results are files that say which settings they are of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from simplax.config.codec import encode
from simplax.config.run import FAMILIES, from_json, to_json
from simplax.errors import UserError
from simplax.io.digest import digest, with_digest, without_digest
from simplax.io.files import sha256, write_json
from simplax.pretrained.stored import CONFIG, WEIGHTS
from simplax.suites.benchmark import Surroundings
from simplax.suites.declared import Entry, Job, Options, Suite, row_name, seeded, training_key

DECLARED = "suite.json"


@dataclass(frozen=True)
class Store:
    """`results`, `failures` and `models` below the directory of a suite; runs of all suites beside it, by their key."""

    directory: Path
    runs: Path

    @staticmethod
    def at(directory: Path, runs: Path | None = None) -> Store:
        return Store(directory, directory.parent / "runs" if runs is None else runs)

    def result(self, entry: Entry, seed: int) -> Path:
        return self.directory / "results" / f"{row_name(entry, seed)}.json"

    def reference(self, name: str) -> Path:
        return self.directory / "results" / f"reference-{name.replace(' ', '-')}.json"

    def failure(self, job: str) -> Path:
        return self.directory / "failures" / f"{job}.json"

    def model(self, job: Job) -> Path:
        return self.directory / "models" / job.name

    def run(self, job: Job) -> Path:
        return self.runs / job.key

    @property
    def claims(self) -> Path:
        """Beside the runs, for two suites may share a training."""
        return self.runs / "claims"


def read(path: Path) -> dict[str, Any] | None:
    """A record, or None if there is none that can be read, or it is not as it was written."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return without_digest(found) if isinstance(found, dict) else None


def keep(path: Path, record: Mapping[str, Any]) -> None:
    """Write a record with its digest, making its directory."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, with_digest(record))


def identity(suite: Suite, entry: Entry, seed: int) -> str:
    """Of all that is declared about a row and decides its numbers."""
    data = {
        "training": training_key(seeded(entry.config, seed)),
        "tries": [encode(setting, FAMILIES) for setting in entry.tries],
        "benchmark": {"kind": type(suite.benchmark).__name__, **asdict(suite.benchmark)},  # type: ignore[call-overload]
    }
    return digest(data)


def started(store: Store, suite: Suite, entry: Entry, seed: int) -> dict[str, Any] | None:
    """What is known of a row under its present settings, finished or not."""
    found = read(store.result(entry, seed))
    return found if found is not None and found.get("identity") == identity(suite, entry, seed) else None


def measured_beside(store: Store, wanted: str, weights: str, seed: int) -> dict[str, Any] | None:
    """What a suite beside this one knows of a row with the same identity and weights (their digest)."""
    for file in sorted(store.directory.parent.glob(f"*/results/*-seed{seed}.json")):
        found = read(file)
        if found is None or found.get("identity") != wanted:
            continue
        if found["manifest"]["model"]["sha256"] == weights:
            return found
    return None


def weights_of(store: Store, job: Job) -> Path | None:
    """The exported model of this training, as it is declared now: this suite's own, or that of a suite beside it."""
    beside = sorted(store.directory.parent.glob(f"*/models/*-seed{job.seed}"))
    for place in (store.model(job), *beside):
        config = place / CONFIG
        if (
            (place / WEIGHTS).is_file()
            and config.is_file()
            and _trained(config, config.stat().st_mtime_ns) == job.key
        ):
            return place
    return None


@lru_cache(maxsize=1024)
def _trained(config: Path, changed: int) -> str | None:
    """The key of the training an export is of; `changed` is when its file was written."""
    found = read(config)
    try:
        return None if found is None else training_key(from_json(found))
    except UserError:  # of another version
        return None


def finished(store: Store, suite: Suite, job: Job, around: Surroundings) -> bool:
    """Whether every row of a job has all numbers that can be had here, made with the weights that are kept."""
    place = weights_of(store, job)
    if place is None:
        return False
    digest_of_weights = sha256(place / WEIGHTS)
    wanted = {p.key for p in suite.benchmark.points() if suite.benchmark.missing(p, around) is None}
    for entry in job.entries:
        record = started(store, suite, entry, job.seed)
        if record is None or record["manifest"]["model"]["sha256"] != digest_of_weights:
            return False
        if not wanted <= set(record["points"]):
            return False
    return True


def keep_options(store: Store, suite: Suite, options: Options) -> None:
    """Write down what the directory is for; refuse one that is for something else."""
    before = read(store.directory / DECLARED)
    said = {"suite": suite.name, "options": json.loads(json.dumps(asdict(options)))}
    if before is not None:
        held = {name: before.get(name) for name in said}
        if held != said:
            raise UserError(
                f"{store.directory} holds the suite {held['suite']} with {_spelled(held['options'])}, not "
                f"{suite.name} with {_spelled(said['options'])}: name another directory with --out."
            )
    store.directory.mkdir(parents=True, exist_ok=True)
    rows = {entry.name: to_json(entry.config) for entry in suite.entries}
    write_json(store.directory / DECLARED, {**said, "rows": rows})


def stored_options(directory: Path) -> tuple[str, Options] | None:
    """What a directory says it is for."""
    found = read(directory / DECLARED)
    if found is None:
        return None
    try:
        given = dict(found["options"])
        seeds = given.get("seeds")
        return str(found["suite"]), Options(**{**given, "seeds": None if seeds is None else tuple(seeds)})
    except (KeyError, TypeError) as error:
        raise UserError(
            f"{directory / DECLARED} was not written by this version of simplax: name another --out."
        ) from error


def _spelled(options: Any) -> str:
    if not isinstance(options, dict):
        return "other options"
    said = [f"{name.replace('_', '-')} {value}" for name, value in options.items() if value is not None]
    return ", ".join(said) or "no options"
