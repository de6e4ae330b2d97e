"""Features of a text that need no model: the list behind the energy distance and typicality.

Words are runs of letters, digits and inner apostrophes or hyphens; marks are single other visible characters; a
sentence ends at `.`, `!` or `?`. Every feature is a number per text; rates are per word unless said otherwise. The list
is part of a result: whoever changes it changes `VERSION`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor

from simplax.data.text.tokenizers import END

VERSION = 1
_PIECES = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*|[^\w\s]|_")
_ENDS = frozenset(".!?")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTION_WORDS = _words(
    """a an the this that these those and or but nor so if then than as of in on at by for with from to into upon over
    under between through about against during before after i you he she it we they me him her us them my your his its
    our their who whom which what is are was were be been being am do does did have has had will would shall should may
    might must can could not no all any each every some such there here when where while because"""
)
CONNECTIVES = _words(
    """however therefore moreover furthermore thus hence also because although though while whereas since unless until
    nevertheless instead otherwise meanwhile finally first second then still yet indeed besides accordingly"""
)


@dataclass(frozen=True)
class _Text:
    """A text cut into words and marks, documents' ends left out."""

    pieces: tuple[str, ...]
    lines: int

    @staticmethod
    def of(text: str) -> _Text:
        text = text.replace(END, "\n")
        return _Text(tuple(_PIECES.findall(text)), text.count("\n"))

    @cached_property
    def cased(self) -> list[str]:
        return [piece for piece in self.pieces if piece[0].isalnum()]

    @cached_property
    def words(self) -> list[str]:
        return [word.lower() for word in self.cased]

    @cached_property
    def is_word(self) -> list[bool]:
        return [piece[0].isalnum() for piece in self.pieces]

    @cached_property
    def counts(self) -> Counter[str]:
        return Counter(self.words)

    @cached_property
    def sentences(self) -> list[int]:
        """Words in each stretch between ends of sentences."""
        lengths, current = [], 0
        for piece, word in zip(self.pieces, self.is_word):
            current += word
            if piece in _ENDS and current:
                lengths.append(current)
                current = 0
        return [*lengths, current] if current or not lengths else lengths

    def rate(self, holds: Callable[[str], bool]) -> float:
        """The share of (lower-case) words of which this holds."""
        return sum(map(holds, self.words)) / max(len(self.words), 1)

    def marks(self, holds: Callable[[str], bool]) -> float:
        """Marks of which this holds, per word."""
        chosen = sum(holds(piece) for piece, word in zip(self.pieces, self.is_word) if not word)
        return chosen / max(len(self.words), 1)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _spread(values: Sequence[float]) -> float:
    middle = _mean(values)
    return math.sqrt(_mean([(value - middle) ** 2 for value in values]))


def _pairs(items: Sequence[bool]) -> float:
    """The share of neighbours that are both true."""
    return _mean([float(a and b) for a, b in pairwise(items)])


def _names(text: _Text) -> float:
    """Capitalised words that do not begin a sentence: a stand-in for named entities."""
    found, begins = 0, True
    for piece, word in zip(text.pieces, text.is_word):
        found += word and not begins and piece[0].isupper() and piece != "I"
        begins = piece in _ENDS if not word else False
    return found / max(len(text.words), 1)


FEATURES: dict[str, Callable[[_Text], float]] = {
    "word_length_mean": lambda text: _mean([len(word) for word in text.words]),
    "word_length_spread": lambda text: _spread([len(word) for word in text.words]),
    "short_words": lambda text: text.rate(lambda word: len(word) <= 3),
    "long_words": lambda text: text.rate(lambda word: len(word) >= 8),
    "type_token_ratio": lambda text: len(text.counts) / max(len(text.words), 1),
    "hapax_share": lambda text: sum(c == 1 for c in text.counts.values()) / max(len(text.counts), 1),
    "top_word_share": lambda text: max(text.counts.values(), default=0) / max(len(text.words), 1),
    "function_words": lambda text: text.rate(FUNCTION_WORDS.__contains__),
    "function_word_pairs": lambda text: _pairs([word in FUNCTION_WORDS for word in text.words]),
    "content_word_pairs": lambda text: _pairs([word not in FUNCTION_WORDS for word in text.words]),
    "connectives": lambda text: text.rate(CONNECTIVES.__contains__),
    "names": _names,
    "numbers": lambda text: text.rate(lambda word: any(map(str.isdigit, word))),
    "commas": lambda text: text.marks(",".__eq__),
    "sentence_ends": lambda text: text.marks(_ENDS.__contains__),
    "other_marks": lambda text: text.marks(lambda mark: mark != "," and mark not in _ENDS),
    "adjacent_marks": lambda text: _pairs([not word for word in text.is_word]),
    "repeated_words": lambda text: _mean([float(a == b) for a, b in pairwise(text.words)]),
    "sentence_length_mean": lambda text: math.log1p(_mean(text.sentences)),
    "sentence_length_spread": lambda text: math.log1p(_spread(text.sentences)),
    "lines": lambda text: text.lines / max(len(text.words), 1),
}
"""Name and rule of each feature, in the order of the columns of `features`."""


def features(texts: Sequence[str]) -> Tensor:
    """(texts, features) float64, raw."""
    rows = []
    for text in texts:
        cut = _Text.of(text)
        rows.append([rule(cut) for rule in FEATURES.values()])
    return torch.tensor(rows, dtype=torch.float64).reshape(len(texts), len(FEATURES))
