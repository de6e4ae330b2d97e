"""Documents in JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from simplax.data.text.documents import BOM, START, Cursor, Documents, Extent, Piece, decode, existing, parts
from simplax.errors import UserError

_LONGEST_LINE = 1 << 30


@dataclass(frozen=True)
class JsonLines(Documents):
    """One JSON object per line, its text under `column`; blank lines are no documents, a byte-order mark is no text."""

    paths: tuple[Path, ...]
    column: str = "text"
    errors: str = "strict"
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        existing(self.paths)

    def outline(self) -> Iterator[Extent]:
        for number, path in enumerate(self.paths):
            with open(path, "rb") as file:
                for _, line, after in _lines(file, 0):
                    yield Extent((number, after, 0), len(line), True)

    def read(self, cursor: Cursor = START) -> Iterator[Piece]:
        first, start, offset = cursor
        for number in range(first, len(self.paths)):
            with open(self.paths[number], "rb") as file:
                for here, line, after in _lines(file, start):
                    text, labels = self._record(line, self.paths[number], here)
                    yield from parts(text, offset, (number, here), (number, after, 0), labels)
                    offset = 0
            start, offset = 0, 0

    def _record(self, line: bytes, path: Path, at: int) -> tuple[str, tuple[str, ...]]:
        if len(line) == _LONGEST_LINE and not line.endswith(b"\n"):
            raise UserError(
                f"the line at byte {at} of {path} is longer than 1 GiB: write it as a plain text file."
            )
        try:
            record = json.loads(decode(line, self.errors, path, at))
        except UserError:
            raise
        except (ValueError, RecursionError) as error:
            raise UserError(f"the line at byte {at} of {path} is not JSON: {error}.") from None
        text = record.get(self.column) if isinstance(record, dict) else None
        if not isinstance(text, str):
            raise UserError(
                f"the line at byte {at} of {path} has no text under {self.column!r}: say --columns NAME."
            )
        text = _without_surrogates(text, self.errors, path, at) if b"\\ud" in line.lower() else text
        return text, tuple(self._label(record, name, path, at) for name in self.labels)

    def _label(self, record: dict[str, Any], name: str, path: Path, at: int) -> str:
        value = record.get(name)
        if not isinstance(value, str | int | float):
            raise UserError(
                f"the line at byte {at} of {path} has no label under {name!r}: add it or leave it out."
            )
        return _without_surrogates(str(value), self.errors, path, at)


def _lines(file: BinaryIO, start: int) -> Iterator[tuple[int, bytes, int]]:
    """Where a line begins, its bytes, where the next one begins; without blank lines."""
    file.seek(start)
    while line := file.readline(_LONGEST_LINE):
        here, start = start, start + len(line)
        if here == 0:
            line = line.removeprefix(BOM)
        if line.strip():
            yield here, line, start


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
