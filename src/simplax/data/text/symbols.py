"""Tokenizers of strings whose symbols are longer than a character: SMILES by atoms, SELFIES by brackets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from simplax.data.text.documents import Content
from simplax.data.text.tokenizers import END, Tokenizer, own_json, text_of
from simplax.errors import UserError

# atoms in brackets, two-letter halogens, atoms, bonds, branches, rings: the usual pattern of the literature
_SMILES = r"\[[^\]]+\]|Br?|Cl?|[NOSPFIbcnops]|[().=#\-+\\/:~@?>*$]|%[0-9]{2}|[0-9]"
_SELFIES = r"\[[^\[\]]+\]|\."
PATTERNS: dict[str, re.Pattern[str]] = {"smiles": re.compile(_SMILES), "selfies": re.compile(_SELFIES)}


@dataclass(frozen=True)
class Symbols(Tokenizer):
    """Strings of one `notation` (`smiles` or `selfies`), a symbol a token; the end symbol, if any, comes last."""

    notation: str
    symbols: tuple[str, ...]
    has_end: bool = True

    def __post_init__(self) -> None:
        if self.notation not in PATTERNS:
            raise ValueError(self.notation)

    @property
    def vocab_size(self) -> int:
        return len(self.symbols) + self.has_end

    @property
    def eos(self) -> int | None:
        return len(self.symbols) if self.has_end else None

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {symbol: number for number, symbol in enumerate(self.symbols)}

    def encode_batch(self, contents: Sequence[Content]) -> list[np.ndarray]:
        ids = self._ids
        try:
            return [
                np.array([ids[symbol] for symbol in split(self.notation, text_of(text))], dtype=np.int64)
                for text in contents
            ]
        except KeyError as error:
            raise UserError(f"the symbol {error.args[0]!r} is not one of this model's.") from None

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(END if i == self.eos else self.symbols[i] for i in ids)

    def to_json(self) -> str:
        return own_json("symbols", notation=self.notation, symbols=self.symbols, has_end=self.has_end)


def split(notation: str, text: str) -> list[str]:
    """The symbols of a string; together they are the string again, or it is not of this notation."""
    found = PATTERNS[notation].findall(text)
    if sum(map(len, found)) != len(text):
        place = 0
        while (match := PATTERNS[notation].match(text, place)) is not None:
            place = match.end()
        shown = text if len(text) <= 60 else text[:57] + "..."
        raise UserError(
            f"{shown!r} is not {notation.upper()} at position {place}: repair it, or say --tokenizer characters."
        )
    return found
