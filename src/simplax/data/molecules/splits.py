"""Which molecules are trained on, which are looked at while choosing, and which are for the final table only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simplax.data.molecules.packages import MOSES_SPLITS, csv_columns, moses_strings, qm9_strings
from simplax.errors import UserError

_SEED = 0
_VALIDATION_SHARE = 0.01
_QM9_TEST = 10_000


@dataclass(frozen=True)
class Splits:
    """Strings in canonical form. `scaffolds` is the second test set of MOSES, of scaffolds that are not trained on."""

    train: list[str]
    validation: list[str]
    test: list[str]
    scaffolds: list[str]


def moses_splits(file: Path | None = None) -> Splits:
    """The published splits, except that 1 % of a seeded permutation of the training strings is for validation.

    The published order is that of a database: its first thousands are no sample of it, so every split is shuffled. A
    CSV file has the columns SMILES and SPLIT, as in the public repository.
    """
    if file is None:
        train, test, scaffolds = (moses_strings(split) for split in MOSES_SPLITS)
    else:
        found: dict[str, list[str]] = {name: [] for name in MOSES_SPLITS}
        for text, split in csv_columns(file, "SMILES", "SPLIT"):
            if split not in found:
                raise UserError(f"{file} has a split {split!r}: name them {', '.join(MOSES_SPLITS)}.")
            found[split].append(text)
        train, test, scaffolds = (found[name] for name in MOSES_SPLITS)
    train, test, scaffolds = shuffled(train), shuffled(test), shuffled(scaffolds)
    held = _held_out(train)
    return Splits(train[held:], train[:held], test, scaffolds)


def qm9_splits(file: Path | None = None) -> Splits:
    """The distinct canonical strings, shuffled: 10,000 to test on, 1 % of the others for validation, the rest to train.

    QM9 has no published split. A CSV file needs a column SMILES.
    """
    from simplax.data.molecules.canonical import canonical

    raw = qm9_strings() if file is None else [row[0] for row in csv_columns(file, "SMILES")]
    forms = (canonical(text) for text in raw)
    distinct = shuffled(list(dict.fromkeys(text for text in forms if text is not None)))
    if len(distinct) < 2:
        raise UserError(f"{file or 'the data'} holds fewer than two molecules: name another file.")
    tested = min(_QM9_TEST, len(distinct) // 10)
    test, rest = distinct[:tested], distinct[tested:]
    held = _held_out(rest)
    return Splits(rest[held:], rest[:held], test, [])


SPLITS: dict[str, Callable[[Path | None], Splits]] = {"qm9": qm9_splits, "moses": moses_splits}


def shuffled(strings: list[str]) -> list[str]:
    """A fixed permutation."""
    order = np.random.default_rng(_SEED).permutation(len(strings))
    return [strings[i] for i in order]


def _held_out(strings: list[str]) -> int:
    return max(1, round(_VALIDATION_SHARE * len(strings)))
