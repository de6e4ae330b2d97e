"""What a first pass over the documents finds: the symbols they are made of, how long they are, classes of labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from simplax.data.text.documents import Content
from simplax.data.text.labels import CLASS, Label
from simplax.data.text.symbols import Symbols, split
from simplax.data.text.tokenizers import (
    Characters,
    Integers,
    Tokenizer,
    Values,
    cells_of,
    text_of,
    whole_numbers,
)


@dataclass(frozen=True)
class Collected:
    """A tokenizer made of what occurs: the symbols of a document, their number, and the tokenizer of all of them."""

    look: Callable[[Content], tuple[set[Any], int]]
    build: Callable[[set[Any], bool], Tokenizer]


def _characters(content: Content) -> tuple[set[Any], int]:
    return set(text_of(content)), len(content)


def _cells(content: Content) -> tuple[set[Any], int]:
    cells = cells_of(content)
    return set(cells), len(cells)


def _largest(content: Content) -> tuple[set[Any], int]:
    ids = whole_numbers(content)
    return ({int(ids.max())} if ids.size else set()), len(ids)


def _notation(name: str) -> Collected:
    def look(content: Content) -> tuple[set[Any], int]:
        found = split(name, text_of(content))
        return set(found), len(found)

    return Collected(look, lambda seen, end: Symbols(name, tuple(sorted(seen)), end))


COLLECTED: dict[str, Collected] = {
    "characters": Collected(_characters, lambda seen, end: Characters("".join(sorted(seen)), end)),
    "values": Collected(_cells, lambda seen, end: Values.of([list(seen)], end)),
    "integers": Collected(_largest, lambda seen, end: Integers(max(seen, default=0) + 1, end)),
    "smiles": _notation("smiles"),
    "selfies": _notation("selfies"),
}


@dataclass
class Survey:
    """Findings of a run of pieces. `head` tokens end a document begun before, `tail` tokens begin one that goes on.

    Without any document end in it (`ended`), all tokens are in `tail`.
    """

    symbols: set[Any] = field(default_factory=set)
    head: int = 0
    tail: int = 0
    longest: int = 0
    ended: bool = False
    values: list[set[str]] = field(default_factory=list)
    sums: np.ndarray = field(default_factory=lambda: np.zeros((3, 0)))

    def add(self, symbols: set[Any], size: int, last: bool) -> None:
        self.symbols |= symbols
        self.tail += size
        if last:
            if self.ended:
                self.longest = max(self.longest, self.tail)
            else:
                self.head, self.ended = self.tail, True
            self.tail = 0

    def describe(self, labels: tuple[Label, ...], texts: tuple[str, ...]) -> None:
        """The labels of one training document."""
        if not self.values:
            self.values, self.sums = [set() for _ in labels], np.zeros((3, len(labels)))
        for place, (label, text) in enumerate(zip(labels, texts)):
            if label.kind == CLASS:
                self.values[place].add(text)
            else:
                number = label.value(text)
                self.sums[:, place] += (1.0, number, number * number)


def combined(surveys: Iterable[Survey], labels: tuple[Label, ...]) -> tuple[set[Any], int, tuple[Label, ...]]:
    """All symbols, the length of the longest document, and the labels with their classes, means and deviations."""
    symbols: set[Any] = set()
    longest = carried = 0
    values: list[set[str]] = [set() for _ in labels]
    sums = np.zeros((3, len(labels)))
    for survey in surveys:
        symbols |= survey.symbols
        if survey.ended:
            longest, carried = max(longest, carried + survey.head, survey.longest), survey.tail
        else:
            carried += survey.tail
        for place, found in enumerate(survey.values):
            values[place] |= found
        if survey.values:
            sums += survey.sums
    return symbols, longest, tuple(_filled(*each) for each in zip(labels, values, sums.T))


def _filled(label: Label, values: set[str], sums: np.ndarray) -> Label:
    if label.kind == CLASS:
        return Label(label.name, label.kind, tuple(sorted(values)))
    count, total, squares = (float(x) for x in sums)
    mean = total / max(count, 1.0)
    deviation = max(squares / max(count, 1.0) - mean * mean, 0.0) ** 0.5
    return Label(label.name, label.kind, (), mean, deviation or 1.0)
