"""The symmetries of Sudoku as tensor operations, one symmetry per sample.

Relabelling digits, permuting bands, stacks, rows within bands and columns within stacks, and transposing
map valid boards to valid boards: 1.2e12 ways for 9x9. A puzzle and its solution move together, so clues
stay clues and uniqueness stays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from itertools import permutations

import torch
from torch import Tensor

from simplax.data.sudoku.solver import board_size
from simplax.random import Keys


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
    u = keys.uniform(size + 2 * (box + 1) + 1)
    digits, lines, transpose = u.split([size, 2 * (box + 1), 1], dim=1)
    # bands, then the rows of each band; stacks, then the columns of each stack
    orders = _orders(box)[(lines * math.factorial(box)).long()].unflatten(1, (2, box + 1))
    rows, columns = (orders[:, :, 0, :, None] * box + orders[:, :, 1:]).flatten(2).unbind(1)
    grid = rows[:, :, None] * size + columns[:, None, :]
    grid = torch.where(transpose[:, :, None] < 0.5, grid.transpose(1, 2), grid)
    return Symmetry(grid.flatten(1), torch.nn.functional.pad(digits.argsort(1) + 1, (1, 0)))


def augment_puzzles(puzzles: Tensor, solutions: Tensor, keys: Keys) -> tuple[Tensor, Tensor]:
    """Puzzles and solutions `(b, n*n)` under one random symmetry per sample."""
    symmetry = random_symmetry(keys, puzzles.shape[1])
    return symmetry.apply(puzzles), symmetry.apply(solutions)


@cache
def _orders(number: int) -> Tensor:
    """All permutations of so many things."""
    return torch.tensor(list(permutations(range(number))))
