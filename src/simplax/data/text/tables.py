"""Documents that are rows of CSV and Parquet files."""

from __future__ import annotations

import abc
import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from simplax.data.text.documents import BOM, START, Cursor, Documents, Piece, decode, existing, parts
from simplax.errors import UserError

_ROWS = 1024
_FIELD_LIMIT = 1 << 28


class Row(NamedTuple):
    """Where a row begins, where the next one does, and its chosen cells, those of the labels last."""

    here: int
    after: int
    cells: list[str]


@dataclass(frozen=True)
class Table(Documents):
    """The chosen columns of every row: each cell one symbol, or (`text`) one column whose text is the document.

    Without `columns` all of them are symbols but those of `labels`; text is then in the only column, or in `text`.
    """

    paths: tuple[Path, ...]
    columns: tuple[str, ...] = ()
    text: bool = False
    errors: str = "strict"
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        existing(self.paths)
        for path in self.paths:
            self._wanted(path)

    @property
    def width(self) -> int | None:
        return None if self.text else len(self._wanted(self.paths[0])) - len(self.labels)

    def read(self, cursor: Cursor = START) -> Iterator[Piece]:
        first, start, offset = cursor
        for number in range(first, len(self.paths)):
            wanted = self._wanted(self.paths[number])
            symbols = len(wanted) - len(self.labels)
            for row in self._rows(self.paths[number], start, wanted):
                after, labels = (number, row.after, 0), tuple(row.cells[symbols:])
                if self.text:
                    yield from parts(row.cells[0], offset, (number, row.here), after, labels)
                else:
                    yield Piece(row.cells[:symbols], True, after, labels)
                offset = 0
            start, offset = 0, 0

    def _wanted(self, path: Path) -> list[str]:
        """Names of the columns that are read, those of the labels last."""
        header = self._header(path)
        for name in (*self.columns, *self.labels):
            if header.count(name) != 1:
                has = "no column" if name not in header else "several columns"
                raise UserError(f"{path} has {has} {name!r}: say --columns with one of {_listed(header)}.")
        chosen = list(self.columns) or [name for name in header if name not in self.labels]
        if self.text and not self.columns and "text" in chosen:
            chosen = ["text"]
        if self.text and len(chosen) != 1:
            raise UserError(f"name the one column of {path} that holds the text with --columns NAME.")
        if not chosen:
            raise UserError(f"{path} has no columns: name another source.")
        return [*chosen, *self.labels]

    @abc.abstractmethod
    def _header(self, path: Path) -> list[str]: ...

    @abc.abstractmethod
    def _rows(self, path: Path, start: int, wanted: list[str]) -> Iterator[Row]: ...


@dataclass(frozen=True)
class Csv(Table):
    """Comma-separated values, or tab-separated ones if the file's name says so, with a header."""

    def _header(self, path: Path) -> list[str]:
        with open(path, "rb") as file:
            return next(self._cells(_Lines(file, path, self.errors)), [])

    def _rows(self, path: Path, start: int, wanted: list[str]) -> Iterator[Row]:
        with open(path, "rb") as file:
            lines = _Lines(file, path, self.errors)
            header = next(self._cells(lines), [])
            places = self._places(header, wanted)
            lines.seek(max(start, lines.at))
            here = lines.at
            for cells in self._cells(lines):
                if cells:
                    if len(cells) != len(header):
                        raise UserError(
                            f"the row at byte {here} of {path} has {len(cells)} cells and the header has {len(header)}."
                        )
                    yield Row(here, lines.at, [cells[index] for index in places])
                here = lines.at

    def _places(self, header: list[str], wanted: list[str]) -> list[int]:
        """Names chosen by the user occur once; all columns are taken by place, for two may have one name."""
        if self.columns or self.text:
            return [header.index(name) for name in wanted]
        symbols = [place for place, name in enumerate(header) if name not in self.labels]
        return [*symbols, *(header.index(name) for name in self.labels)]

    def _cells(self, lines: _Lines) -> Iterator[list[str]]:
        csv.field_size_limit(_FIELD_LIMIT)
        delimiter = "\t" if lines.path.suffix.lower() == ".tsv" else ","
        here = lines.at
        try:
            for cells in csv.reader(lines, delimiter=delimiter, strict=True):
                yield cells
                here = lines.at
        except csv.Error as error:
            raise UserError(f"the row at byte {here} of {lines.path} is not CSV: {error}.") from None


class _Lines(Iterator[str]):
    """Lines for the csv module, which asks for one at a time: `at`, where the next one begins, gives rows places."""

    def __init__(self, file: BinaryIO, path: Path, errors: str):
        self.file, self.path, self.errors, self.at = file, path, errors, 0
        if file.read(len(BOM)) == BOM:
            self.at = len(BOM)
        file.seek(self.at)

    def seek(self, at: int) -> None:
        self.file.seek(at)
        self.at = at

    def __next__(self) -> str:
        line = self.file.readline(_FIELD_LIMIT)
        if not line:
            raise StopIteration
        text = decode(line, self.errors, self.path, self.at)
        self.at += len(line)
        return text


@dataclass(frozen=True)
class Parquet(Table):
    """Columns of Parquet files; places are row numbers."""

    def _header(self, path: Path) -> list[str]:
        return [str(name) for name in _parquet(path).schema_arrow.names]

    def count(self) -> int:
        return sum(_parquet(path).metadata.num_rows for path in self.paths)

    def _rows(self, path: Path, start: int, wanted: list[str]) -> Iterator[Row]:
        import pyarrow

        file, row = _parquet(path), 0
        try:
            for group in range(file.metadata.num_row_groups):
                size = file.metadata.row_group(group).num_rows
                if row + size <= start:
                    row += size
                    continue
                for batch in file.iter_batches(_ROWS, row_groups=[group], columns=wanted):
                    if row + len(batch) <= start:
                        row += len(batch)
                        continue
                    columns = [
                        batch.column(batch.schema.get_field_index(name)).to_pylist() for name in wanted
                    ]
                    for values in zip(*columns):
                        if row >= start:
                            yield Row(row, row + 1, self._strings(values, row, path))
                        row += 1
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path} is a damaged Parquet file: {_first_line(error)}.") from None

    def _strings(self, values: tuple[Any, ...], row: int, path: Path) -> list[str]:
        if self.text:
            as_text(values[0], row, str(path))
        return [as_cell(value, row, str(path)) for value in values]


def as_text(value: Any, row: int, where: str) -> str:
    if not isinstance(value, str):
        raise UserError(
            f"row {row} of {where} is not text but {type(value).__name__}: choose another column."
        )
    return value


def as_cell(value: Any, row: int, where: str) -> str:
    """A value as the text that stands for it; lists and what is missing have none."""
    if not isinstance(value, str | int | float):
        raise UserError(
            f"row {row} of {where} holds {type(value).__name__} and no text or number: choose another column."
        )
    return str(value)


def _parquet(path: Path) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise UserError('Parquet files need pyarrow: pip install "simplax[hub]".') from error
    try:
        return pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise UserError(f"{path} is not a Parquet file: {_first_line(error)}.") from None


def _listed(names: list[str]) -> str:
    """A few names in one line, whatever is in them."""
    shown = [repr(name)[1:-1] if len(name) <= 40 else f"{name[:37]!r}..." for name in names[:20]]
    return ", ".join(shown) + (", ..." if len(names) > 20 else "")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
