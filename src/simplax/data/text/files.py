"""Documents that are runs of bytes of plain files: whole files, parts between separators, lines."""

from __future__ import annotations

import mmap
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from simplax.data.text.documents import (
    BETWEEN_WORDS,
    BOM,
    PIECE,
    START,
    Cursor,
    Documents,
    Extent,
    Piece,
    decode,
    existing,
    last_match,
)

_BETWEEN_WORDS = re.compile(BETWEEN_WORDS.pattern.encode())


class Span(NamedTuple):
    """A document's bytes are `begin` to `end`; looking for it again from `start` finds it, from `after` the next."""

    start: int
    begin: int
    end: int
    after: int


Spans = Callable[[mmap.mmap, int, Path], Iterator[Span]]


def after_mark(data: mmap.mmap) -> int:
    """Where the text begins: behind a byte-order mark, if there is one."""
    return len(BOM) if data[: len(BOM)] == BOM else 0


def whole_file(data: mmap.mmap, start: int, path: Path) -> Iterator[Span]:
    if start < len(data):
        yield Span(0, after_mark(data), len(data), len(data))


def separated_by(separator: str) -> Spans:
    """Documents between separators, without the line breaks around them; what is empty then is no document."""
    mark = separator.encode("utf-8")

    def spans(data: mmap.mmap, start: int, path: Path) -> Iterator[Span]:
        while start < len(data):
            begin = start or after_mark(data)
            found = data.find(mark, begin)
            stop = end = len(data) if found < 0 else found
            while begin < end and data[begin] in b"\r\n":
                begin += 1
            while begin < end and data[end - 1] in b"\r\n":
                end -= 1
            if begin < end:
                yield Span(start, begin, end, stop + len(mark))
            start = stop + len(mark)

    return spans


def first_words(data: mmap.mmap, start: int, path: Path) -> Iterator[Span]:
    """The first word of every line that has one: `.smi` files may name a molecule behind its string."""
    while start < len(data):
        found = data.find(b"\n", start)
        stop = len(data) if found < 0 else found
        begin = start or after_mark(data)
        line = data[begin:stop]
        word = line.lstrip()
        begin += len(line) - len(word)
        if word:
            yield Span(start, begin, begin + len(word.split(None, 1)[0]), stop + 1)
        start = stop + 1


@dataclass(frozen=True)
class ByteDocuments(Documents):
    """Documents that are runs of bytes of UTF-8 files, mapped into memory and never read whole."""

    paths: tuple[Path, ...]
    spans: Spans = whole_file
    errors: str = "strict"

    def __post_init__(self) -> None:
        existing(self.paths)

    def outline(self) -> Iterator[Extent]:
        for number, path in enumerate(self.paths):
            with mapped(path) as data:
                for span in self.spans(data, 0, path):
                    for begin, end, after in _cuts(data, number, span, span.begin):
                        yield Extent(after, end - begin, end == span.end)

    def read(self, cursor: Cursor = START) -> Iterator[Piece]:
        first, start, offset = cursor
        for number in range(first, len(self.paths)):
            path = self.paths[number]
            with mapped(path) as data:
                for span in self.spans(data, start, path):
                    first_byte = max(span.begin, offset) if span.start == start else span.begin
                    for begin, end, after in _cuts(data, number, span, first_byte):
                        yield Piece(self.text(data[begin:end], path, begin), end == span.end, after)
            start, offset = 0, 0

    def text(self, raw: bytes, path: Path, at: int) -> str:
        """What bytes from `at` on stand for."""
        return decode(raw, self.errors, path, at)


def _cuts(data: mmap.mmap, number: int, span: Span, begin: int) -> Iterator[tuple[int, int, Cursor]]:
    """Begin, end and cursor behind every piece of a document."""
    while True:
        end = _cut(data, begin, span.end)
        last = end == span.end
        yield begin, end, (number, span.after, 0) if last else (number, span.start, end)
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
def mapped(path: Path) -> Iterator[mmap.mmap]:
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data
