"""The symmetries of Sudoku as tensor operations, one symmetry per sample.

Relabelling digits, permuting bands, stacks, rows within bands and columns within stacks, and transposing
map valid boards to valid boards: 1.2e12 ways for 9x9. A puzzle and its solution move together, so clues
stay clues and uniqueness stays.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from simplax.data.sudoku.solver import board_size
from simplax.random import Keys

_DIGITS, _BANDS, _ROWS, _STACKS, _COLUMNS, _TRANSPOSE = range(6)


@dataclass(frozen=True)
class Symmetry:
    """Per sample, `cells (b, n*n)` says which cell comes where and `digits (b, n+1)` what digits become."""

    cells: Tensor
    digits: Tensor

    def apply(self, boards: Tensor) -> Tensor:
        """Transform `(b, n*n)` integer boards; blanks (0) stay blank."""
        return self.digits.gather(1, boards.long().gather(1, self.cells)).to(boards.dtype)


def random_symmetry(keys: Keys, cells: int) -> Symmetry:
    """A uniformly drawn symmetry of boards with that many cells, a function of each sample's key alone."""
    size = board_size(cells)
    box = int(size**0.5)
    rows = _lines(keys.fold_in(_BANDS), keys.fold_in(_ROWS), box)
    columns = _lines(keys.fold_in(_STACKS), keys.fold_in(_COLUMNS), box)
    grid = rows[:, :, None] * size + columns[:, None, :]
    transpose = keys.fold_in(_TRANSPOSE).randint(2, 1, 1).bool()
    grid = torch.where(transpose, grid.transpose(1, 2), grid)
    digits = _permutation(keys.fold_in(_DIGITS), size) + 1
    return Symmetry(grid.flatten(1), torch.nn.functional.pad(digits, (1, 0)))


def augment_puzzles(puzzles: Tensor, solutions: Tensor, keys: Keys) -> tuple[Tensor, Tensor]:
    """Puzzles and solutions `(b, n*n)` under one random symmetry per sample."""
    symmetry = random_symmetry(keys, puzzles.shape[1])
    return symmetry.apply(puzzles), symmetry.apply(solutions)


def _permutation(keys: Keys, *shape: int) -> Tensor:
    """Random permutations of the last axis."""
    return keys.bits(*shape).argsort(-1)


def _lines(outer: Keys, inner: Keys, box: int) -> Tensor:
    """`(b, box*box)` an order of the rows that permutes bands, and rows within each band."""
    bands = _permutation(outer, box)
    return (bands[:, :, None] * box + _permutation(inner, box, box)).flatten(1)
