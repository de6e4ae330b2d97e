"""Tokenizers: what turns documents into ids and back. Each stores itself in one file, `tokenizer.json`."""

from __future__ import annotations

import abc
import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from simplax.data.text.documents import Content
from simplax.errors import UserError
from simplax.io.files import write_text

FILE = "tokenizer.json"
END = "<|endoftext|>"
_OWN = "simplax-tokenizer"


class Tokenizer(abc.ABC):
    """`eos` ends a document and `bos` begins a wrapped block; both are None where documents have no end symbol.

    `spaces_lead` says that a space belongs to the token after it.
    """

    spaces_lead = False

    @property
    @abc.abstractmethod
    def vocab_size(self) -> int: ...

    @property
    @abc.abstractmethod
    def eos(self) -> int | None: ...

    @property
    def bos(self) -> int | None:
        return self.eos

    @abc.abstractmethod
    def encode_batch(self, contents: Sequence[Content]) -> list[np.ndarray]:
        """Ids of each, without any special ones added."""

    @abc.abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Text, the special symbols included."""

    @abc.abstractmethod
    def to_json(self) -> str: ...

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self.encode_batch([text])[0].tolist()
        return ids

    def save(self, directory: Path) -> Path:
        write_text(directory / FILE, self.to_json())
        return directory / FILE


@dataclass(frozen=True)
class Characters(Tokenizer):
    """Every character is a token: `alphabet` in order, then the end symbol if there is one."""

    alphabet: str
    has_end: bool = True

    @property
    def vocab_size(self) -> int:
        return len(self.alphabet) + self.has_end

    @property
    def eos(self) -> int | None:
        return len(self.alphabet) if self.has_end else None

    @cached_property
    def _points(self) -> np.ndarray:
        return _code_points(self.alphabet)

    def encode_batch(self, contents: Sequence[Content]) -> list[np.ndarray]:
        return [self._encode(text_of(text)) for text in contents]

    def _encode(self, text: str) -> np.ndarray:
        points = _code_points(text)
        if not self.alphabet and text:
            raise UserError(f"the character {text[0]!r} is not in this model's alphabet, which is empty.")
        if not text:
            return np.zeros(0, dtype=np.int64)
        ids = np.searchsorted(self._points, points).clip(max=len(self.alphabet) - 1)
        wrong = self._points[ids] != points
        if wrong.any():
            raise UserError(f"the character {text[int(wrong.argmax())]!r} is not in this model's alphabet.")
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(END if i == self.eos else self.alphabet[i] for i in ids)

    def to_json(self) -> str:
        return own_json("characters", alphabet=self.alphabet, has_end=self.has_end)

    @staticmethod
    def of(contents: Iterable[Content], end: bool) -> Characters:
        """The tokenizer of the characters that occur."""
        return Characters("".join(sorted(set().union(*map(text_of, contents)))), end)


def text_of(content: Content) -> str:
    """The text of a document; ids and cells have none, and how Python shows them is not meant."""
    if not isinstance(content, str):
        raise UserError(
            "the source holds ready-made symbols and no text: say --tokenizer integers or values."
        )
    return content


def _code_points(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le"), dtype="<u4")


@dataclass(frozen=True)
class Values(Tokenizer):
    """Every cell is a token: the distinct values in order, then the end symbol if there is one."""

    values: tuple[str, ...]
    has_end: bool = False

    @property
    def vocab_size(self) -> int:
        return len(self.values) + self.has_end

    @property
    def eos(self) -> int | None:
        return len(self.values) if self.has_end else None

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {value: number for number, value in enumerate(self.values)}

    def encode_batch(self, contents: Sequence[Content]) -> list[np.ndarray]:
        try:
            return [
                np.fromiter(map(self._ids.__getitem__, cells_of(row)), dtype=np.int64) for row in contents
            ]
        except KeyError as error:
            raise UserError(f"the value {error.args[0]!r} is not one of this model's categories.") from None

    def decode(self, ids: Sequence[int]) -> str:
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow(END if i == self.eos else self.values[i] for i in ids)
        return line.getvalue()

    def to_json(self) -> str:
        return own_json("values", values=self.values, has_end=self.has_end)

    @staticmethod
    def of(contents: Iterable[Content], end: bool) -> Values:
        """The tokenizer of the values that occur, numbers in their own order."""
        seen: set[str] = set().union(*map(cells_of, contents))
        numbers = all(value.removeprefix("-").isdecimal() and len(value) < 1000 for value in seen)
        ordered = sorted(seen, key=lambda value: (int(value), value)) if numbers else sorted(seen)
        return Values(tuple(ordered), end)


def cells_of(content: Content) -> Sequence[str]:
    """The cells of a row; of text those that it has as a line of CSV."""
    if not isinstance(content, str):
        return [str(cell) for cell in content]
    try:
        return next(csv.reader([content]), [])
    except csv.Error:
        shown = content if len(content) <= 60 else content[:57] + "..."
        raise UserError(f"{shown!r} is not a row of values: choose another --tokenizer.") from None


@dataclass(frozen=True)
class Integers(Tokenizer):
    """Ids as they are, below `size`; the end symbol, if there is one, comes after them."""

    size: int
    has_end: bool = False

    @property
    def vocab_size(self) -> int:
        return self.size + self.has_end

    @property
    def eos(self) -> int | None:
        return self.size if self.has_end else None

    def encode_batch(self, contents: Sequence[Content]) -> list[np.ndarray]:
        arrays = [whole_numbers(content) for content in contents]
        for array in arrays:
            if array.size and int(array.min()) < 0:
                raise UserError(f"the data has category {array.min()}: categories are counted from 0.")
            if array.size and int(array.max()) >= self.size:
                raise UserError(
                    f"the data has category {array.max()} and there are {self.size}: say --vocab-size."
                )
        return arrays

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(END if i == self.eos else str(i) for i in ids)

    def to_json(self) -> str:
        return own_json("integers", size=self.size, has_end=self.has_end)

    @staticmethod
    def of(contents: Iterable[Content], end: bool) -> Integers:
        arrays = (whole_numbers(content) for content in contents)
        largest = max((int(ids.max()) for ids in arrays if ids.size), default=0)
        return Integers(largest + 1, end)


def whole_numbers(content: Content) -> np.ndarray:
    if not isinstance(content, str):
        return np.asarray(content)
    try:
        return np.array([int(word) for word in content.split()], dtype=np.int64)
    except (ValueError, OverflowError):
        shown = content if len(content) <= 60 else content[:57] + "..."
        raise UserError(f"{shown!r} is not a list of whole numbers: choose another --tokenizer.") from None


@dataclass(frozen=True)
class StopsAtEnd(Tokenizer):
    """Another tokenizer that decodes up to the first end symbol: for sequences that are padded with it."""

    inner: Tokenizer

    @property
    def spaces_lead(self) -> bool:  # type: ignore[override]
        return self.inner.spaces_lead

    @property
    def vocab_size(self) -> int:
        return self.inner.vocab_size

    @property
    def eos(self) -> int | None:
        return self.inner.eos

    @property
    def bos(self) -> int | None:
        return self.inner.bos

    def encode_batch(self, contents: Sequence[Content]) -> list[np.ndarray]:
        return self.inner.encode_batch(contents)

    def decode(self, ids: Sequence[int]) -> str:
        ids = list(ids)
        return self.inner.decode(ids[: ids.index(self.eos)] if self.eos in ids else ids)

    def to_json(self) -> str:
        return self.inner.to_json()


_OWN_KINDS: dict[str, Any] = {"characters": Characters, "values": Values, "integers": Integers}


def own_json(kind: str, **fields: Any) -> str:
    return json.dumps({_OWN: kind, **fields}, ensure_ascii=False) + "\n"


def load_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer stored in a file, or in a directory."""
    path = path / FILE if path.is_dir() else path
    try:
        text = path.read_text(encoding="utf-8")
        if text.startswith(f'{{"{_OWN}"'):
            from simplax.data.text.symbols import Symbols

            fields = json.loads(text)
            kind = {**_OWN_KINDS, "symbols": Symbols}[fields.pop(_OWN)]
            return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in fields.items()})
    except OSError as error:
        raise UserError(f"the tokenizer {path} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path} is damaged: it is not a tokenizer.") from None
    from simplax.data.text.subwords import Subwords

    return Subwords.from_text(text, path)
