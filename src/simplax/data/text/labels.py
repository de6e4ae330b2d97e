"""Labels: values that describe a sequence, classes or numbers, stored beside it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from simplax.errors import UserError

CLASS, NUMBER = "class", "number"


@dataclass(frozen=True)
class Label:
    """One label: a class among `classes`, stored as its place there, or a `number`.

    `mean` and `deviation` of numbers are those of the training sequences, for whoever wants to standardise them.
    """

    name: str
    kind: str = CLASS
    classes: tuple[str, ...] = ()
    mean: float = 0.0
    deviation: float = 1.0

    def value(self, text: str) -> float:
        """The stored number of a value as people write it."""
        if self.kind == CLASS:
            if text not in self.classes:
                raise UserError(
                    f"{text!r} is no class of {self.name}: choose one of {', '.join(self.classes[:20])}."
                )
            return float(self.classes.index(text))
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise UserError(f"the label {self.name} is {text!r} and should be a number.")
        return number


def parse(texts: Sequence[str]) -> tuple[Label, ...]:
    """Labels as a user names them: `NAME` or `NAME:class`, `NAME:number`."""
    made = []
    for text in texts:
        name, _, kind = (
            text.rpartition(":") if text.endswith((f":{CLASS}", f":{NUMBER}")) else (text, "", CLASS)
        )
        made.append(Label(name, kind))
    if len({label.name for label in made}) != len(made):
        raise UserError("every label is named once: leave out the repetition in --labels.")
    return tuple(made)


def encode(labels: Sequence[Label], rows: Iterable[tuple[str, ...]]) -> np.ndarray:
    """(n, labels) float64, the stored form."""
    tables = [{name: float(i) for i, name in enumerate(label.classes)} for label in labels]
    values = [
        [
            table[text] if text in table else label.value(text)
            for label, table, text in zip(labels, tables, row)
        ]
        for row in rows
    ]
    return np.array(values, dtype=np.float64).reshape(len(values), len(labels))
