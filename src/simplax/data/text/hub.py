"""Documents of a data set of the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from simplax.data.text.documents import START, Cursor, Documents, Extent, Piece, parts
from simplax.data.text.tables import as_cell, as_text
from simplax.errors import UserError

_ROWS = 1024


@dataclass(frozen=True)
class HubDataset(Documents):
    """A data set by its name on the hub, memory-mapped by the `datasets` library.

    `revision` is a commit of the data set: with one the same command gives the same data for ever. `files` are the
    Parquet files of the repository that are read, as a pattern, where its own description of them is not wanted. What
    was downloaded stays in the library's cache, so an interrupted download goes on where it stopped.
    """

    name: str
    config: str | None = None
    split: str = "train"
    column: str = "text"
    revision: str | None = None
    labels: tuple[str, ...] = ()
    files: str | None = None
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
            rows = self._load(datasets.load_dataset)
        except Exception as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise UserError(f"the data set {self.name} cannot be loaded from the hub: {reason}") from error
        for name in (self.column, *self.labels):
            if name not in rows.column_names:
                names = ", ".join(rows.column_names)
                raise UserError(f"{self.name} has no column {name!r}: say --columns with one of {names}.")
        return rows

    def _load(self, load_dataset: Any) -> Any:
        if self.files is not None:
            at = "" if self.revision is None else f"@{self.revision}"
            place = f"hf://datasets/{self.name}{at}/{self.files}"
            return load_dataset("parquet", data_files=place, split=self.split)
        pinned = {} if self.revision is None else {"revision": self.revision}
        return load_dataset(self.name, self.config, split=self.split, **pinned)

    def count(self) -> int:
        return len(self._rows)

    def outline(self) -> Iterator[Extent]:
        """Every document as large as any other: the texts are not read for that."""
        for row in range(len(self._rows)):
            yield Extent((0, row + 1, 0), _ROWS, True)

    def read(self, cursor: Cursor = START) -> Iterator[Piece]:
        _, start, offset = cursor
        for first in range(start, len(self._rows), _ROWS):
            some = self._rows[first : first + _ROWS]
            for row, text in enumerate(some[self.column], first):
                labels = tuple(as_cell(some[name][row - first], row, self.name) for name in self.labels)
                yield from parts(as_text(text, row, self.name), offset, (0, row), (0, row + 1, 0), labels)
                offset = 0

    def sizes(self) -> list[dict[str, Any]]:
        facts = {"name": self.name, "documents": self.count()}
        return [facts if self.revision is None else {**facts, "revision": self.revision}]

    def digests(self) -> list[dict[str, Any]]:
        return [{**self.sizes()[0], "fingerprint": getattr(self._rows, "_fingerprint", None)}]
