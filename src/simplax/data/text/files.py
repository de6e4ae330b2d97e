"""Documents in plain files: text, FASTA and JSON lines, by byte position."""

from __future__ import annotations

import json
import mmap
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from simplax.data.text.documents import (
    BETWEEN_WORDS,
    PIECE,
    START,
    Cursor,
    Documents,
    Piece,
    decode,
    existing,
    last_match,
    parts,
)
from simplax.errors import UserError

_BETWEEN_WORDS = re.compile(BETWEEN_WORDS.pattern.encode())
_LONGEST_LINE = 1 << 30


class Span(NamedTuple):
    """A document's bytes are `begin` to `end`; looking for it again from `start` finds it, from `after` the next."""

    start: int
    begin: int
    end: int
    after: int


Spans = Callable[[mmap.mmap, int], Iterator[Span]]


def whole_file(data: mmap.mmap, start: int) -> Iterator[Span]:
    if start < len(data):
        yield Span(0, 0, len(data), len(data))


def separated_by(separator: str) -> Spans:
    """Documents between separators, without the line breaks around them; what is empty then is no document."""
    mark = separator.encode("utf-8")

    def spans(data: mmap.mmap, start: int) -> Iterator[Span]:
        while start < len(data):
            found = data.find(mark, start)
            stop = len(data) if found < 0 else found
            begin, end = start, stop
            while begin < end and data[begin] in b"\r\n":
                begin += 1
            while begin < end and data[end - 1] in b"\r\n":
                end -= 1
            if begin < end:
                yield Span(start, begin, end, stop + len(mark))
            start = stop + len(mark)

    return spans


def fasta_records(data: mmap.mmap, start: int) -> Iterator[Span]:
    """Sequences behind their `>` lines."""
    while start < len(data):
        if data[start] != ord(">"):
            raise UserError(f"this is not FASTA: byte {start} should begin a record with '>'.")
        heading = data.find(b"\n", start)
        begin = len(data) if heading < 0 else heading + 1
        found = data.find(b"\n>", max(begin - 1, start))
        end = len(data) if found < 0 else found + 1
        yield Span(start, min(begin, end), end, end)
        start = end


@dataclass(frozen=True)
class ByteDocuments(Documents):
    """Documents that are runs of bytes of UTF-8 files, mapped into memory and never read whole."""

    paths: tuple[Path, ...]
    spans: Spans = whole_file
    errors: str = "strict"
    residues: bool = False  # letters of a sequence: white space means nothing, nor does case

    def __post_init__(self) -> None:
        existing(self.paths)

    def count(self) -> int:
        total = 0
        for path in self.paths:
            with _mapped(path) as data:
                total += sum(1 for _ in self.spans(data, 0))
        return total

    def read(self, cursor: Cursor = START) -> Iterator[Piece]:
        first, start, offset = cursor
        for number in range(first, len(self.paths)):
            with _mapped(self.paths[number]) as data:
                for span in self.spans(data, start):
                    begin = max(span.begin, offset) if span.start == start else span.begin
                    yield from self._pieces(data, number, span, begin)
            start, offset = 0, 0

    def _pieces(self, data: mmap.mmap, number: int, span: Span, begin: int) -> Iterator[Piece]:
        while True:
            end = _cut(data, begin, span.end)
            text = decode(data[begin:end], self.errors, self.paths[number], begin)
            text = "".join(text.split()).upper() if self.residues else text
            last = end == span.end
            yield Piece(text, last, (number, span.after, 0) if last else (number, span.start, end))
            if last:
                return
            begin = end


def _cut(data: mmap.mmap, begin: int, stop: int) -> int:
    """Where a piece ends: between words, or at least between characters."""
    if stop - begin <= PIECE:
        return stop
    end = begin + PIECE
    found = last_match(_BETWEEN_WORDS, data, begin, end)
    if found is not None:
        return found
    while data[end] & 0xC0 == 0x80 and end > begin + PIECE - 3:
        end -= 1
    return end


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap]:
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data


@dataclass(frozen=True)
class JsonLines(Documents):
    """One JSON object per line, its text under `column`; blank lines are no documents."""

    paths: tuple[Path, ...]
    column: str = "text"
    errors: str = "strict"

    def __post_init__(self) -> None:
        existing(self.paths)

    def count(self) -> int:
        total = 0
        for path in self.paths:
            with open(path, "rb") as file:
                total += sum(1 for line in file if not line.isspace())
        return total

    def read(self, cursor: Cursor = START) -> Iterator[Piece]:
        first, start, offset = cursor
        for number in range(first, len(self.paths)):
            with open(self.paths[number], "rb") as file:
                file.seek(start)
                while line := file.readline(_LONGEST_LINE):
                    here, start = start, start + len(line)
                    if line.isspace():
                        continue
                    text = self._text(line, self.paths[number], here)
                    yield from parts(text, offset, (number, here), (number, start, 0))
                    offset = 0
            start, offset = 0, 0

    def _text(self, line: bytes, path: Path, at: int) -> str:
        if len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
            raise UserError(
                f"the line at byte {at} of {path} is longer than 1 GiB: write it as a plain text file."
            )
        try:
            record = json.loads(decode(line, self.errors, path, at))
        except json.JSONDecodeError as error:
            raise UserError(f"the line at byte {at} of {path} is not JSON: {error}.") from None
        text = record.get(self.column) if isinstance(record, dict) else None
        if not isinstance(text, str):
            raise UserError(
                f"the line at byte {at} of {path} has no text under {self.column!r}: say --columns NAME."
            )
        return _without_surrogates(text, self.errors, path, at) if b"\\ud" in line.lower() else text


def _without_surrogates(text: str, errors: str, path: Path, at: int) -> str:
    """JSON can spell half a character, which is no text."""
    try:
        text.encode("utf-8")
        return text
    except UnicodeEncodeError:
        if errors == "replace":
            return text.encode("utf-8", "replace").decode("utf-8")
    raise UserError(
        f"the line at byte {at} of {path} has half a surrogate pair: repair it, or say --errors replace."
    )
