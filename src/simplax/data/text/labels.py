"""Labels: values that describe a sequence, classes or numbers, stored beside it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simplax.errors import UserError, nearest

CLASS, NUMBER = "class", "number"
_LARGEST = 1e100  # the squares of many can still be added up


@dataclass(frozen=True)
class Label:
    """One label: a class among `classes`, stored as its place there, or a `number`.

    `mean` and `deviation` of numbers are those of the training sequences: a network reads them standardised.
    """

    name: str
    kind: str = CLASS
    classes: tuple[str, ...] = ()
    mean: float = 0.0
    deviation: float = 1.0

    @property
    def size(self) -> int:
        """The number of classes; 0 for a number, as `Architecture.labels` says it."""
        return len(self.classes) if self.kind == CLASS else 0

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
        if abs(number) > _LARGEST:
            raise UserError(
                f"the label {self.name} is {text!r}, which is too large: give it in another unit."
            )
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


def standardised(labels: Sequence[Label], values: np.ndarray) -> Tensor:
    """Stored values (n, labels) as networks read them (`Batch.labels`)."""
    shift = np.array([0.0 if label.size else label.mean for label in labels])
    scale = np.array([1.0 if label.size else label.deviation for label in labels])
    with np.errstate(over="ignore"):
        found = ((values - shift) / scale).astype(np.float32)
    if len(wrong := np.argwhere(np.isinf(found))):
        row, place = wrong[0]
        raise UserError(
            f"the label {labels[place].name} is {values[row, place]:g}, too far from those of the training sequences."
        )
    return torch.from_numpy(found)


def chosen(labels: Sequence[Label], values: Mapping[str, Any], number: int) -> Tensor:
    """What was said about `number` sequences, as networks read it: for each label one value for all, or one each.

    A label that is not named, and a value None, is no label.
    """
    for name in values:
        if name not in [label.name for label in labels]:
            raise UserError(f"there is no label {name!r}{nearest(name, [label.name for label in labels])}")
    stored = np.full((number, len(labels)), np.nan)
    for place, label in enumerate(labels):
        said: Any = values.get(label.name)
        said = said.tolist() if hasattr(said, "tolist") else said
        several = not isinstance(said, str) and isinstance(said, Iterable)
        each = list(said) if several else [said] * number
        if len(each) != number:
            raise UserError(
                f"give one {label.name} for all or one each: {number} samples, {len(each)} values."
            )
        stored[:, place] = [np.nan if value is None else label.value(str(value)) for value in each]
    return standardised(labels, stored)


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
