"""Documents in a fixed order, read from any point, never more than a piece of one in memory."""

from __future__ import annotations

import abc
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from simplax.errors import UserError
from simplax.io.files import sha256

Content = str | list[str] | np.ndarray  # text, cells of a row, or ready-made ids
Cursor = tuple[int, int, int]  # file, where its document starts, where the next piece starts
START: Cursor = (0, 0, 0)
PIECE = 1 << 20
BOM = b"\xef\xbb\xbf"
# where a long document may be cut: GPT-2's pre-tokenizer ends a word there, so byte-level BPE never merges across it
BETWEEN_WORDS = re.compile(r"(?<=[!-~])(?= [!-~])|(?<=\S\n)(?=\S)")
_SEARCH = 4096


@dataclass(frozen=True, eq=False)
class Piece:
    """A document, or a part of a long one; `last` if it ends here. Reading goes on at `after`.

    `labels` are the values of the columns that describe the document, in the requested order.
    """

    content: Content
    last: bool
    after: Cursor
    labels: tuple[str, ...] = ()


class Extent(NamedTuple):
    """One or more pieces of a document without their content: where they end, and how large they are."""

    after: Cursor
    size: int
    last: bool


class Documents(abc.ABC):
    """A source. `paths` are its files, if it has any; `width` is the length of its rows, if all have the same."""

    paths: tuple[Path, ...]

    @property
    def width(self) -> int | None:
        return None

    def outline(self) -> Iterator[Extent]:
        """Where each piece of `read` stops, and its size, without decoding more than that needs."""
        for piece in self.read():
            yield Extent(piece.after, len(piece.content), piece.last)

    def count(self) -> int:
        return sum(extent.last for extent in self.outline())

    @abc.abstractmethod
    def read(self, cursor: Cursor = START) -> Iterator[Piece]:
        """All pieces from `cursor` on: the same ones whether or not reading was ever interrupted."""

    def sizes(self) -> list[dict[str, Any]]:
        """Names and sizes of the files: what must be unchanged for an interrupted preparation to go on."""
        return [{"name": path.name, "bytes": path.stat().st_size} for path in self.paths]

    def digests(self) -> list[dict[str, Any]]:
        return [{**facts, "sha256": sha256(path)} for facts, path in zip(self.sizes(), self.paths)]


def existing(paths: tuple[Path, ...]) -> tuple[Path, ...]:
    """The files, each there and with something in it."""
    for path in paths:
        if not path.is_file():
            raise UserError(f"there is no file {path}: name a file or a directory of files.")
        if not path.stat().st_size:
            raise UserError(f"{path} is empty: remove it or name another source.")
    return paths


def decode(raw: bytes, errors: str, path: Path, offset: int) -> str:
    """UTF-8, or a sentence that names the first bad byte; `offset` is where `raw` starts in the file."""
    if errors == "strict" and (found := raw.find(0)) >= 0:
        raise UserError(
            f"{path} is not text: byte {offset + found} is 0x00; give the file the ending of what it is."
        )
    try:
        return raw.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        raise bad_byte(path, offset + error.start, raw[error.start]) from None


def bad_byte(path: Path, offset: int, value: int) -> UserError:
    return UserError(
        f"{path} is not UTF-8: byte {offset} is 0x{value:02x}; repair it, or say --errors replace to read on."
    )


def parts(
    text: str, begin: int, row: tuple[int, int], after: Cursor, labels: tuple[str, ...] = ()
) -> Iterator[Piece]:
    """A document stored as a string, from character `begin` on, in pieces; `row` says which document it is."""
    while len(text) - begin > PIECE:
        end = last_match(BETWEEN_WORDS, text, begin, begin + PIECE) or begin + PIECE
        yield Piece(text[begin:end], False, (*row, end), labels)
        begin = end
    yield Piece(text[begin:], True, after, labels)


def last_match(pattern: re.Pattern[Any], data: Any, begin: int, end: int) -> int | None:
    """Where the last match shortly before `end` is, if there is one after `begin`."""
    places = [match.start() for match in pattern.finditer(data, max(begin + 1, end - _SEARCH), end)]
    return places[-1] if places else None
