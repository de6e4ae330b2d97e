"""What generated molecules are compared with: the test sets and the training strings of a data set."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from simplax.data.cache import cache_directory
from simplax.data.molecules.packages import moses_strings
from simplax.data.molecules.prepared import prepare
from simplax.data.molecules.splits import shuffled
from simplax.data.molecules.tokens import smiles_tokens
from simplax.errors import UserError
from simplax.evaluate.molecules.statistics import Statistics, published

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, eq=False)
class References:
    """`test` and, if there is one, the second test set `scaffolds`; `train` are the strings that are not novel.

    `train` is in a fixed random order: its first n are what the floor of n molecules is measured on. `name` names the
    data in files that are kept, so other strings have another one.
    """

    name: str
    test: Statistics
    scaffolds: Statistics | None
    train: list[str]


def references(name: str, *, workers: int = 1, progress: Progress | None = None) -> References:
    """Those of `moses` (its published statistics) or of `qm9` (made when first used, in a minute or two)."""
    makers = {"moses": _moses, "qm9": _qm9}
    if name not in makers:
        raise UserError(f"molecules are compared with moses or qm9, not {name!r}.")
    return makers[name](workers, progress)


def cached_file(name: str) -> Path:
    return cache_directory() / "molecules" / "references" / f"{name}-1.safetensors"


def _kept(name: str, make: Callable[[], Statistics]) -> Statistics:
    path = cached_file(name)
    if not path.is_file():
        make().save(path)
    return Statistics.load(path)


def _moses(workers: int, progress: Progress | None) -> References:
    test, scaffolds = (
        _kept(f"moses-{split}", lambda split=split: published(split))  # type: ignore[misc]
        for split in ("test", "test_scaffolds")
    )
    return References("moses", test, scaffolds, shuffled(moses_strings("train")))


def _qm9(workers: int, progress: Progress | None) -> References:
    tokens, made = smiles_tokens("qm9"), prepare("qm9")
    train, strings = (tokens.decode(made.rows(split).tolist()) for split in ("train", "test"))
    # the data may come from a CSV file instead of the package
    name = f"qm9-{hashlib.sha256(' '.join([*strings, *train]).encode()).hexdigest()[:8]}"
    test = _kept(f"{name}-test", lambda: Statistics.of(strings, workers=workers, progress=progress))
    return References(name, test, None, train)
