"""Rows of ids in memory-mapped files: written a few at a time, cut back to a known state after a crash."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from simplax.errors import UserError
from simplax.io.files import sha256

SHARD_BYTES = 1 << 28
_LENGTHS, _LABELS = np.dtype("<u4"), np.dtype("<f8")


def id_type(vocab_size: int) -> np.dtype[Any]:
    """Two bytes per id where they suffice, four otherwise."""
    if vocab_size > 1 << 31:
        raise UserError(f"a vocabulary of {vocab_size:,} categories is too large: number them from 0 up.")
    return np.dtype("<u2") if vocab_size <= 1 << 16 else np.dtype("<u4")


class ShardWriter:
    """Appends rows to `NAME-00000.bin` and so on, from row `rows`; whatever lies behind it is removed first.

    Every id is compared with `vocab_size`: one that is out of range would be stored as another without a word.
    """

    def __init__(
        self,
        directory: Path,
        name: str,
        length: int,
        vocab_size: int,
        per_shard: int,
        rows: int = 0,
        labels: int = 0,
    ):
        self.directory, self.name, self.length, self.vocab_size = directory, name, length, vocab_size
        self.dtype, self.per_shard, self.rows = id_type(vocab_size), per_shard, rows
        self._open: dict[str, BinaryIO] = {}
        number = rows // per_shard
        for path in directory.glob(f"{name}-*.*"):
            if int(path.stem.rsplit("-", 1)[1]) > number:
                path.unlink()
        widths = {
            ".bin": length * self.dtype.itemsize,
            ".len": _LENGTHS.itemsize,
            ".lab": labels * _LABELS.itemsize,
        }
        for ending, width in widths.items():
            path = directory / f"{name}-{number:05d}{ending}"
            if path.exists():
                os.truncate(path, rows % per_shard * width)

    def write(
        self, tokens: np.ndarray, lengths: np.ndarray | None = None, labels: np.ndarray | None = None
    ) -> None:
        if tokens.size and not (tokens.min() >= 0 and tokens.max() < self.vocab_size):
            wrong = tokens.min() if tokens.min() < 0 else tokens.max()
            raise UserError(
                f"the tokenizer made the id {wrong} and says that its ids are below {self.vocab_size}: use another one."
            )
        while len(tokens):
            room = self.per_shard - self.rows % self.per_shard
            self._file(".bin").write(np.ascontiguousarray(tokens[:room], dtype=self.dtype).data)
            if lengths is not None:
                self._file(".len").write(np.ascontiguousarray(lengths[:room], dtype=_LENGTHS).data)
                lengths = lengths[room:]
            if labels is not None:
                self._file(".lab").write(np.ascontiguousarray(labels[:room], dtype=_LABELS).data)
                labels = labels[room:]
            self.rows += min(room, len(tokens))
            tokens = tokens[room:]
            if self.rows % self.per_shard == 0:
                self.close()

    def sync(self) -> None:
        """Everything written so far is on the disk when this returns."""
        for file in self._open.values():
            file.flush()
            os.fsync(file.fileno())

    def close(self) -> None:
        self.sync()
        for file in self._open.values():
            file.close()
        self._open.clear()

    def _file(self, ending: str) -> BinaryIO:
        if ending not in self._open:
            number = self.rows // self.per_shard
            self._open[ending] = (self.directory / f"{self.name}-{number:05d}{ending}").open("ab")
        return self._open[ending]


def describe(directory: Path, name: str) -> list[dict[str, Any]]:
    """The files of a finished set of shards, for its manifest."""
    paths = sorted(directory.glob(f"{name}-*.*"))
    return [{"file": path.name, "bytes": path.stat().st_size, "sha256": sha256(path)} for path in paths]


@dataclass(frozen=True)
class Shards:
    """`rows` rows from `first` on, read without loading the files."""

    directory: Path
    name: str
    length: int
    dtype: str
    per_shard: int
    first: int
    rows: int
    padded: bool = False
    labels: int = 0

    def take_labels(self, rows: np.ndarray) -> np.ndarray:
        """(n, labels) float64 of these rows."""
        self._check(rows)
        where = rows + self.first
        values = np.empty((len(rows), self.labels))
        numbers = where // self.per_shard
        for number in np.unique(numbers).tolist() if self.labels else ():
            here = numbers == number
            values[here] = self._map(number, ".lab", _LABELS).reshape(-1, self.labels)[
                where[here] % self.per_shard
            ]
        return values

    def _check(self, rows: np.ndarray) -> None:
        if len(rows) and not (rows.min() >= 0 and rows.max() < self.rows):
            raise IndexError(f"rows must lie in [0, {self.rows})")

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Tokens (n, length) int64 of these rows, and how many of each are not padding."""
        self._check(rows)
        where = rows + self.first
        tokens = np.empty((len(rows), self.length), dtype=np.int64)
        lengths = np.empty(len(rows), dtype=np.int64) if self.padded else None
        numbers = where // self.per_shard
        for number in np.unique(numbers).tolist():
            here = numbers == number
            inside = where[here] % self.per_shard
            tokens[here] = self._map(number, ".bin", np.dtype(self.dtype)).reshape(-1, self.length)[inside]
            if lengths is not None:
                lengths[here] = self._map(number, ".len", _LENGTHS)[inside]
        return tokens, lengths

    @cached_property
    def _maps(self) -> dict[str, np.ndarray]:
        return {}

    def _map(self, number: int, ending: str, dtype: np.dtype[Any]) -> np.ndarray:
        name = f"{self.name}-{number:05d}{ending}"
        if name not in self._maps:
            try:
                self._maps[name] = np.memmap(self.directory / name, dtype=dtype, mode="r")
            except (OSError, ValueError) as error:
                raise UserError(
                    f"the prepared data {self.directory} is damaged at {name}: prepare it again."
                ) from error
        return self._maps[name]
