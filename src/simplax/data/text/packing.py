"""From ids of documents to rows of one length: packed end to end in one stream, or padded one by one."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simplax.errors import UserError


@dataclass(frozen=True, eq=False)
class Rows:
    """`tokens` (n, length); `rest` is what waits for the next piece.

    Where rows are padded, `lengths` (n,) is how many ids are not padding, and `sizes` the same without the end symbol;
    `cut` counts the documents that were too long.
    """

    tokens: np.ndarray
    rest: np.ndarray
    lengths: np.ndarray | None = None
    cut: int = 0
    sizes: np.ndarray | None = None


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

    Padding repeats an ordinary id, the end symbol if there is one, because a symbol of its own would become a category
    of the noise. With `learned` padding is modelled like everything else and shows where a sequence ends; otherwise
    `lengths` tell what is padding.
    """

    learned: bool = False

    def rows(self, rest: np.ndarray, pieces: Sequence[np.ndarray], lasts: Sequence[bool]) -> Rows:
        stream = np.concatenate([rest, *pieces]).astype(np.uint32, copy=False)
        after = len(rest) + np.cumsum([len(ids) for ids in pieces], dtype=np.int64)
        ends = after[np.asarray(lasts, dtype=bool)]
        starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)[: len(ends)]
        whole = ends - starts
        kept = np.minimum(whole, self.length)
        if self.learned and self.eos is None and bool((kept < self.length).any()):
            raise UserError(
                f"a sequence has {kept.min()} tokens and the rows {self.length}, and nothing can mark its end: leave "
                "out --no-eos, or say --layout lengths."
            )
        tokens = np.full((len(ends), self.length), self.eos or 0, dtype=np.uint32)
        done = int(ends[-1]) if len(ends) else 0
        inside = np.arange(done) - np.repeat(starts, whole)
        tokens[np.arange(self.length) < kept[:, None]] = stream[:done][inside < self.length]
        lengths = kept + ((kept < self.length) if self.eos is not None else 0)
        # one more than fits in a row shows that the document is too long
        waiting = stream[done : done + self.length + 1]
        return Rows(tokens, waiting, lengths, int((whole > self.length).sum()), kept)

    def end(self, rest: np.ndarray) -> int:
        return 0
