"""Known relations between positions, as a learned bias on the attention scores.

A relation is a boolean (length, length) matrix. A pair of positions can be in several at once (two cells of a
Sudoku can share a row and a box), so the bias of a pair is the sum of one learned number per head, layer and
relation.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from simplax.errors import UserError


def sudoku_relations(box: int) -> Tensor:
    """Self, same row, same column, same box: (4, n, n) for the n = box^4 cells of a grid read row by row.

    The last three leave out the diagonal, so that what a cell learns about its peers is not also about
    itself.
    """
    side = box * box
    cell = torch.arange(side * side)
    row, column = cell // side, cell % side
    self_ = torch.eye(side * side, dtype=torch.bool)
    peers = [_same(row), _same(column), _same(row // box * box + column // box)]
    return torch.stack([self_, *(peer & ~self_ for peer in peers)])


def _same(label: Tensor) -> Tensor:
    return label[:, None] == label[None, :]


RELATIONS: dict[str, Callable[[], Tensor]] = {
    "sudoku4": lambda: sudoku_relations(2),
    "sudoku9": lambda: sudoku_relations(3),
}


class RelationBias(nn.Module):
    """One learned number per layer, head and relation, zero at initialisation."""

    matrices: Tensor

    def __init__(self, name: str, length: int, depth: int, heads: int) -> None:
        super().__init__()
        matrices = RELATIONS[name]()
        if matrices.shape[-1] != length:
            raise UserError(
                f"relations {name!r} are for sequences of length {matrices.shape[-1]}, not {length}; "
                "choose others or none."
            )
        self.register_buffer("matrices", matrices.float(), persistent=False)
        self.weight = nn.Parameter(torch.zeros(depth, heads, matrices.shape[0]))

    def forward(self, start: int, stop: int) -> Tensor:
        """Bias (depth, 1, heads, q, k) of queries start..stop on keys 0..stop, for all layers at once."""
        matrices = self.matrices[:, start:stop, :stop]
        bias = self.weight @ matrices.flatten(1)
        return bias.unflatten(-1, matrices.shape[1:]).unsqueeze(1)
