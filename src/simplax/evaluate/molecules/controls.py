"""Sets of strings that have learned nothing: each must be caught by the column that is there for it.

Training copies are perfect except for Novelty. AddCarbon (Renz et al. 2019) is valid, unique and novel, and only
distances to the data give it away. Shuffled characters have the right symbols in the right numbers and are not valid.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from simplax.data.molecules.canonical import canonical
from simplax.errors import UserError

_ATTEMPTS = 200


@dataclass(frozen=True)
class Control:
    """Strings, and the column that catches them."""

    strings: list[str]
    caught_by: str
    note: str


def training_copies(train: Sequence[str], num: int) -> Control:
    """The first strings of the training set."""
    return Control(list(train[:num]), "Novelty", "strings of the training set")


def add_carbon(
    train: Sequence[str], num: int, seed: int = 0, known: Collection[str] | None = None
) -> Control:
    """One C put into each training string, at places tried in random order until it is valid and not trained on."""
    generator = random.Random(seed)
    known = set(train) if known is None else known
    made: list[str] = []
    for text in train:
        if len(made) == num:
            break
        for place in generator.sample(range(len(text) + 1), k=min(len(text) + 1, _ATTEMPTS)):
            form = canonical(text[:place] + "C" + text[place:])
            if form is not None and form not in known:
                made.append(form)
                break
    if len(made) < num:
        raise UserError(f"{num:,} strings were requested and only {len(made):,} can be made: request fewer.")
    return Control(made, "FCD/Test", "AddCarbon: training strings with one C more")


def shuffled_characters(train: Sequence[str], num: int, seed: int = 0) -> Control:
    """Training strings, the characters of each in random order."""
    generator = random.Random(seed)
    strings = ["".join(generator.sample(text, k=len(text))) for text in train[:num]]
    return Control(strings, "valid", "training strings, characters in random order")


def controls(train: Sequence[str], num: int, seed: int = 0) -> dict[str, Control]:
    """All of them, by name."""
    return {
        "training copies": training_copies(train, num),
        "AddCarbon": add_carbon(train, num, seed),
        "shuffled characters": shuffled_characters(train, num, seed),
    }
