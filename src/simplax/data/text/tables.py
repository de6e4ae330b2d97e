"""Documents that are rows: CSV, Parquet, a data set of the Hugging Face hub, an array of integers."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from simplax.data.text.documents import PIECE, START, Cursor, Documents, Piece, bad_byte, existing, parts
from simplax.errors import UserError

_ROWS = 1024
_FIELD_LIMIT = 1 << 30


@dataclass(frozen=True)
class Csv(Documents):
    """The chosen columns of every row: each cell one symbol, or (`text`) one column whose text is the document."""

    paths: tuple[Path, ...]
    columns: tuple[str, ...] = ()
    text: bool = False
    errors: str = "strict"

    def __post_init__(self) -> None:
        existing(self.paths)
        for path in self.paths:
            with self._open(path) as file:
                header = next(csv.reader(file, delimiter=_delimiter(path)), [])
            for name in self.columns:
                if name not in header:
                    raise UserError(f"{path} has no column {name!r}: it has {', '.join(header)}.")
        if self.text and len(self.columns) != 1:
            raise UserError("name the one column that holds the text with --columns NAME.")

    @property
    def width(self) -> int | None:
        if self.text:
            return None
        return len(self.columns) or len(next(self._rows(self.paths[0]), ()))

    def count(self) -> int:
        return sum(sum(1 for _ in self._rows(path)) for path in self.paths)

    def read(self, cursor: Cursor = START) -> Iterator[Piece]:
        first, start, offset = cursor
        for number in range(first, len(self.paths)):
            for row, cells in enumerate(islice(self._rows(self.paths[number]), start, None), start):
                after = (number, row + 1, 0)
                if self.text:
                    yield from parts(cells[0], offset, (number, row), after)
                else:
                    yield Piece(cells, True, after)
                offset = 0
            start, offset = 0, 0

    def _rows(self, path: Path) -> Iterator[list[str]]:
        csv.field_size_limit(_FIELD_LIMIT)
        try:
            with self._open(path) as file:
                rows = csv.reader(file, delimiter=_delimiter(path))
                header = next(rows, [])
                wanted = [header.index(name) for name in self.columns] or list(range(len(header)))
                for cells in rows:
                    if not cells:
                        continue
                    if len(cells) != len(header):
                        raise UserError(
                            f"line {rows.line_num} of {path} has {len(cells)} cells and the first has {len(header)}."
                        )
                    yield [cells[index] for index in wanted]
        except UnicodeDecodeError:
            raise _find_bad_byte(path) from None
        except csv.Error as error:
            raise UserError(f"{path} is not CSV: {error}.") from None

    def _open(self, path: Path) -> Any:
        return open(path, encoding="utf-8-sig", errors=self.errors, newline="")


def _delimiter(path: Path) -> str:
    return "\t" if path.suffix.lower() == ".tsv" else ","


def _find_bad_byte(path: Path) -> UserError:
    """The csv module reads ahead, so the place has to be looked for."""
    import codecs

    decoder, offset = codecs.getincrementaldecoder("utf-8")(), 0
    with open(path, "rb") as file:
        while chunk := file.read(PIECE):
            held = len(decoder.getstate()[0])
            try:
                decoder.decode(chunk)
            except UnicodeDecodeError as error:
                at = offset - held + error.start
                return bad_byte(path, at, error.object[error.start])
            offset += len(chunk)
    return bad_byte(path, offset, 0)


@dataclass(frozen=True)
class Parquet(Documents):
    """A column of text of Parquet files."""

    paths: tuple[Path, ...]
    column: str = "text"

    def __post_init__(self) -> None:
        existing(self.paths)
        for path in self.paths:
            names = self._file(path).schema_arrow.names
            if self.column not in names:
                raise UserError(
                    f"{path} has no column {self.column!r}: say --columns with one of {', '.join(names)}."
                )

    def count(self) -> int:
        return sum(self._file(path).metadata.num_rows for path in self.paths)

    def read(self, cursor: Cursor = START) -> Iterator[Piece]:
        first, start, offset = cursor
        for number in range(first, len(self.paths)):
            for row, text in self._texts(self.paths[number], start):
                yield from parts(text, offset, (number, row), (number, row + 1, 0))
                offset = 0
            start, offset = 0, 0

    def _texts(self, path: Path, start: int) -> Iterator[tuple[int, str]]:
        file = self._file(path)
        row, groups = 0, range(file.metadata.num_row_groups)
        for group in groups:
            size = file.metadata.row_group(group).num_rows
            if row + size <= start:
                row += size
                continue
            for batch in file.iter_batches(_ROWS, row_groups=[group], columns=[self.column]):
                for text in batch.column(0).to_pylist():
                    if row >= start:
                        yield row, _text(text, row, str(path))
                    row += 1

    def _file(self, path: Path) -> Any:
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as error:
            raise UserError('Parquet files need pyarrow: pip install "simplax[hub]".') from error
        try:
            return pyarrow.parquet.ParquetFile(path)
        except pyarrow.ArrowInvalid as error:
            raise UserError(f"{path} is not a Parquet file: {error}.") from None


def _text(value: Any, row: int, where: str) -> str:
    if not isinstance(value, str):
        raise UserError(
            f"row {row} of {where} is not text but {type(value).__name__}: choose another column."
        )
    return value


@dataclass(frozen=True)
class HubDataset(Documents):
    """A data set by its name on the Hugging Face hub, memory-mapped by the `datasets` library."""

    name: str
    config: str | None = None
    split: str = "train"
    column: str = "text"
    paths: tuple[Path, ...] = ()

    @cached_property
    def _rows(self) -> Any:
        try:
            import datasets
        except ImportError as error:
            raise UserError(
                'data sets of the hub need the datasets library: pip install "simplax[hub]".'
            ) from error
        try:
            rows = datasets.load_dataset(self.name, self.config, split=self.split)
        except Exception as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise UserError(f"the data set {self.name} cannot be loaded from the hub: {reason}") from error
        if self.column not in rows.column_names:
            names = ", ".join(rows.column_names)
            raise UserError(f"{self.name} has no column {self.column!r}: say --columns with one of {names}.")
        return rows

    def count(self) -> int:
        return len(self._rows)

    def read(self, cursor: Cursor = START) -> Iterator[Piece]:
        _, start, offset = cursor
        for first in range(start, len(self._rows), _ROWS):
            texts = self._rows[first : first + _ROWS][self.column]
            for row, text in enumerate(texts, first):
                yield from parts(_text(text, row, self.name), offset, (0, row), (0, row + 1, 0))
                offset = 0

    def sizes(self) -> list[dict[str, Any]]:
        return [{"name": self.name, "documents": self.count()}]

    def digests(self) -> list[dict[str, Any]]:
        return [{**self.sizes()[0], "fingerprint": getattr(self._rows, "_fingerprint", None)}]


@dataclass(frozen=True)
class Arrays(Documents):
    """Integer `.npy` files: a row of a matrix is a document, a vector is one long document."""

    paths: tuple[Path, ...]

    def __post_init__(self) -> None:
        existing(self.paths)
        for path in self.paths:
            array = self._array(path)
            if array.ndim not in (1, 2) or array.dtype.kind not in "iu":
                raise UserError(
                    f"{path} holds {array.dtype} of shape {array.shape}: a vector or a matrix of integers is needed."
                )
            if not array.size:
                raise UserError(f"{path} is empty: remove it or name another source.")

    @property
    def width(self) -> int | None:
        shapes = {self._array(path).shape[1:] for path in self.paths}
        return next(iter(shapes))[0] if len(shapes) == 1 and shapes != {()} else None

    def count(self) -> int:
        arrays = map(self._array, self.paths)
        return sum(1 if array.ndim == 1 else len(array) for array in arrays)

    def read(self, cursor: Cursor = START) -> Iterator[Piece]:
        first, start, offset = cursor
        for number in range(first, len(self.paths)):
            array = np.atleast_2d(self._array(self.paths[number]))
            for row in range(start, len(array)):
                for begin in range(offset, array.shape[1], PIECE):
                    end = min(begin + PIECE, array.shape[1])
                    last = end == array.shape[1]
                    after = (number, row + 1, 0) if last else (number, row, end)
                    yield Piece(self._checked(array[row, begin:end], number), last, after)
                offset = 0
            start = 0

    def _checked(self, ids: np.ndarray, number: int) -> np.ndarray:
        if ids.size and ids.min() < 0:
            raise UserError(f"{self.paths[number]} holds {ids.min()}: categories are counted from 0.")
        return np.asarray(ids)

    def _array(self, path: Path) -> np.ndarray:
        try:
            array: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
            return array
        except (ValueError, EOFError, OSError) as error:
            raise UserError(f"{path} is not a readable .npy file of integers: {error}.") from None
