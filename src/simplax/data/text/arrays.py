"""Documents that are rows of integer arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simplax.data.text.documents import PIECE, START, Cursor, Documents, Extent, Piece, existing
from simplax.errors import UserError


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

    def outline(self) -> Iterator[Extent]:
        for number, path in enumerate(self.paths):
            for begin, end, last, after in _cuts(np.atleast_2d(self._array(path)).shape, number, 0, 0):
                yield Extent(after, end - begin, last)

    def read(self, cursor: Cursor = START) -> Iterator[Piece]:
        first, start, offset = cursor
        for number in range(first, len(self.paths)):
            array = np.atleast_2d(self._array(self.paths[number]))
            for begin, end, last, after in _cuts(array.shape, number, start, offset):
                row = after[1] - last
                yield Piece(self._checked(array[row, begin:end], number), last, after)
            start, offset = 0, 0

    def _checked(self, ids: np.ndarray, number: int) -> np.ndarray:
        if ids.size and ids.min() < 0:
            raise UserError(f"{self.paths[number]} holds {ids.min()}: categories are counted from 0.")
        return np.asarray(ids)

    def _array(self, path: Path) -> np.ndarray:
        try:
            array = np.load(path, mmap_mode="r", allow_pickle=False)
        except (
            Exception
        ) as error:  # numpy reads the header of a damaged file as Python and fails in many ways
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise UserError(f"{path} is not a readable .npy file of integers: {reason}.") from None
        if not isinstance(array, np.ndarray):
            array.close()
            raise UserError(f"{path} is a .npz file: save the one array in it as .npy.")
        return array


def _cuts(
    shape: tuple[int, ...], number: int, start: int, offset: int
) -> Iterator[tuple[int, int, bool, Cursor]]:
    """Begin and end of every piece of every row from `start` on, whether it is the last, and what comes after."""
    rows, width = shape
    for row in range(start, rows):
        for begin in range(offset, width, PIECE):
            end = min(begin + PIECE, width)
            last = end == width
            yield begin, end, last, (number, row + 1, 0) if last else (number, row, end)
        offset = 0
