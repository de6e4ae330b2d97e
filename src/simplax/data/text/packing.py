"""From ids of documents to rows of one length: packed end to end in one stream, or padded one by one."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simplax.errors import UserError


@dataclass(frozen=True, eq=False)
class Rows:
    """`tokens` (n, length); `lengths` (n,) where rows are padded; `rest` is what waits for the next piece."""

    tokens: np.ndarray
    rest: np.ndarray
    lengths: np.ndarray | None = None
    cut: int = 0


@dataclass(frozen=True)
class Layout(abc.ABC):
    """Rows of `length` ids; `eos` ends every document, None for nothing."""

    length: int
    eos: int | None = None

    def __post_init__(self) -> None:
        if self.length < 1:
            raise UserError(f"sequences need at least 1 token, not {self.length}.")

    @abc.abstractmethod
    def rows(self, rest: np.ndarray, pieces: Sequence[np.ndarray], lasts: Sequence[bool]) -> Rows:
        """What `pieces` make of the ids that waited; `lasts` says which pieces end their document."""

    def end(self, rest: np.ndarray) -> int:
        """How many of the ids still waiting at the end of the stream are given up."""
        return len(rest)


@dataclass(frozen=True)
class Packed(Layout):
    """One stream cut every `length` ids; what is left at the very end is given up.

    With `wrap = (bos, eos)` each row is bos, `length - 2` ids of the stream, eos: the published blocks of OpenWebText,
    except that those restart their stream every thousand documents.
    """

    wrap: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.wrap is not None and self.length < 3:
            raise UserError(f"wrapped sequences need at least 3 tokens, not {self.length}.")

    def rows(self, rest: np.ndarray, pieces: Sequence[np.ndarray], lasts: Sequence[bool]) -> Rows:
        stream = np.concatenate([rest, *self._joined(pieces, lasts)])
        inner = self.length if self.wrap is None else self.length - 2
        full = len(stream) // inner
        tokens = stream[: full * inner].reshape(full, inner)
        if self.wrap is not None:
            tokens = np.pad(tokens, ((0, 0), (1, 1)))
            tokens[:, 0], tokens[:, -1] = self.wrap
        return Rows(tokens, stream[full * inner :])

    def _joined(self, pieces: Sequence[np.ndarray], lasts: Sequence[bool]) -> list[np.ndarray]:
        if self.eos is None:
            return list(pieces)
        end = np.array([self.eos], dtype=np.uint32)
        return [part for ids, last in zip(pieces, lasts) for part in ((ids, end) if last else (ids,))]


@dataclass(frozen=True)
class Padded(Layout):
    """A row for every document: its first `length` ids with the end symbol if there is room, then padding.

    Padding repeats an ordinary id, because a symbol of its own would become a category of the noise: what is padding
    is told by `lengths`.
    """

    def rows(self, rest: np.ndarray, pieces: Sequence[np.ndarray], lasts: Sequence[bool]) -> Rows:
        tokens = np.full((sum(lasts), self.length), self.eos or 0, dtype=np.uint32)
        lengths, cut, row = np.zeros(len(tokens), dtype=np.uint32), 0, 0
        for ids, last in zip(pieces, lasts):
            ids = np.concatenate([rest, ids])[
                : self.length + 1
            ]  # one more tells that the document is too long
            if not last:
                rest = ids
                continue
            cut += len(ids) > self.length
            size = min(len(ids), self.length)
            tokens[row, :size] = ids[:size]
            lengths[row] = size + (self.eos is not None and size < self.length)
            rest, row = rest[:0], row + 1
        return Rows(tokens, rest, lengths, cut)

    def end(self, rest: np.ndarray) -> int:
        return 0
