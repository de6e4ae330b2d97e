"""The work of a preparation cut into chunks that any process can do, in any order, with the same result."""

from __future__ import annotations

import os
import zipfile
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from simplax.data.text.documents import START, Cursor, Documents, Piece
from simplax.data.text.labels import Label, encode
from simplax.data.text.options import Options
from simplax.data.text.survey import COLLECTED, Survey
from simplax.data.text.tokenizers import Tokenizer, load_tokenizer
from simplax.errors import UserError

CHUNK = 1 << 20
_DOCUMENTS = 1 << 14


@dataclass(frozen=True)
class Chunk:
    """Pieces of one of the sources, from one place to another; `first` is the document it begins with or in."""

    number: int
    source: int
    start: Cursor
    end: Cursor
    first: int
    documents: int


def plan(sources: list[Documents]) -> tuple[list[Chunk], list[np.ndarray]]:
    """All chunks in order, and the sizes of every source's documents. Neither depends on who will do the work."""
    chunks: list[Chunk] = []
    sizes: list[np.ndarray] = []
    for number, source in enumerate(sources):
        found, document = array("q"), 0
        start, size, first = START, 0, 0
        end = START
        for extent in source.outline():
            end, size, document = extent.after, size + extent.size, document + extent.size
            if extent.last:
                found.append(document)
                document = 0
            if size >= CHUNK or len(found) - first >= _DOCUMENTS:
                chunks.append(Chunk(len(chunks), number, start, end, first, len(found) - first))
                start, size, first = end, 0, len(found)
        if end != start:
            chunks.append(Chunk(len(chunks), number, start, end, first, len(found) - first))
        sizes.append(np.array(found, dtype=np.int64))
    return chunks, sizes


@dataclass(frozen=True, eq=False)
class Encoded:
    """The ids of a chunk: of all pieces one after the other, the size of each, whether it ends its document.

    `labels` (documents that end here, labels) are stored values.
    """

    ids: np.ndarray
    sizes: np.ndarray
    lasts: np.ndarray
    labels: np.ndarray

    def save(self, path: Path) -> None:
        """Whole or not at all, whenever the writer is stopped."""
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        with open(temporary, "wb") as file:
            np.savez(file, ids=self.ids, sizes=self.sizes, lasts=self.lasts, labels=self.labels)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)

    @staticmethod
    def load(path: Path) -> Encoded | None:
        """What was saved; None if it is not there or not whole."""
        try:
            with np.load(path, allow_pickle=False) as stored:
                return Encoded(stored["ids"], stored["sizes"], stored["lasts"], stored["labels"])
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None


@dataclass(frozen=True)
class Reader:
    """Does the work of chunks. Everything it needs can be sent to another process; files are opened there.

    `tokenizer_file` is where the tokenizer is once it is known, `labels` likewise.
    """

    options: Options
    names: tuple[str, ...]
    scratch: Path
    tokenizer_file: Path
    labels: tuple[Label, ...] = ()

    @cached_property
    def sources(self) -> list[Documents]:
        return [self.options.open(name, scratch=self.scratch) for name in self.names]

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return load_tokenizer(self.tokenizer_file)

    def pieces(self, chunk: Chunk) -> Iterator[Piece]:
        for piece in self.sources[chunk.source].read(chunk.start):
            yield piece
            if piece.after == chunk.end:
                return
        raise UserError(f"{self.names[chunk.source]} has changed while it was read: start again.")

    def survey(self, chunk: Chunk) -> Survey:
        """What tokenizers made of what occurs, rows as long as the longest document, and labels need to know."""
        found, collected = Survey(), COLLECTED.get(self.options.tokenizer or "")
        for piece in self.pieces(chunk):
            if collected is not None:
                symbols, size = collected.look(piece.content)
            else:
                symbols, size = set(), len(self.tokenizer.encode_batch([piece.content])[0])
            found.add(symbols, size, piece.last)
            if piece.last and self.labels:
                found.describe(self.labels, piece.labels)
        return found

    def encode(self, chunk: Chunk) -> Encoded:
        pieces = list(self.pieces(chunk))
        ids = self.tokenizer.encode_batch([piece.content for piece in pieces])
        ended = [piece.labels for piece in pieces if piece.last]
        return Encoded(
            np.concatenate(ids).astype(np.uint32) if ids else np.zeros(0, dtype=np.uint32),
            np.array([len(each) for each in ids], dtype=np.int64),
            np.array([piece.last for piece in pieces], dtype=bool),
            encode(self.labels, ended if self.labels else [()] * len(ended)),
        )
