"""Which positions a step may redraw: all at once, or only some that do not constrain each other.

Tokens redrawn in one step are drawn independently. Where they depend on each other that breaks what they had agreed
on; a set of positions without mutual dependence can be redrawn at once without harm.
"""

from __future__ import annotations

import abc
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from simplax.random import Keys


class Positions(abc.ABC):
    """A rule that names positions for every step."""

    @abc.abstractmethod
    def where(self, number: int, length: int, keys: Keys) -> Tensor | None:
        """(batch or 1, length), true where step `number` may redraw; None for all positions."""


@dataclass(frozen=True)
class All(Positions):
    """Every position in every step."""

    def where(self, number: int, length: int, keys: Keys) -> None:
        return None


@dataclass(frozen=True)
class Every(Positions):
    """Every n-th position, the next ones in the next step: neighbours, which depend most, are never redrawn at once."""

    n: int = 2
    """distance of the positions that one step redraws"""

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"the distance of redrawn positions must be at least 1, got {self.n}")

    def where(self, number: int, length: int, keys: Keys) -> Tensor:
        place = torch.arange(length, device=keys.state.device)
        return (place % self.n == number % self.n).unsqueeze(0)


@dataclass(frozen=True)
class Classes(Positions):
    """Classes of one's own: a number for every position, and one class per step, in turn; -1 is never redrawn."""

    classes: tuple[int, ...] = (0,)
    """the class of each position, from 0"""

    def __post_init__(self) -> None:
        if min(self.classes, default=-1) < -1 or max(self.classes, default=-1) < 0:
            raise ValueError(
                "classes are numbers from 0, one per position, or -1 for positions to leave alone"
            )

    def where(self, number: int, length: int, keys: Keys) -> Tensor:
        if len(self.classes) != length:
            raise ValueError(
                f"there are {length} positions and classes for {len(self.classes)}: name one each"
            )
        chosen = torch.tensor(self.classes, device=keys.state.device)
        return (chosen == number % (max(self.classes) + 1)).unsqueeze(0)


@dataclass(frozen=True)
class SudokuColours(Positions):
    """As many cells of a Sudoku as it has digits, no two in one row, column or box: those of one digit in some
    solution.

    Every sample draws such a set anew for every step, all of them equally likely: those of one digit in one solved
    board become any other by permuting rows within bands and columns within stacks.
    """

    def where(self, number: int, length: int, keys: Keys) -> Tensor:
        size = math.isqrt(length)
        box = math.isqrt(size)
        if box**4 != length:
            raise ValueError(
                f"a board has 81 or 16 cells, one per position, and there are {length} positions"
            )
        # rows of a band go to different stacks; the bands take different columns of each stack
        stack = keys.stream("rows").uniform(box, box).argsort(-1).flatten(1)
        column = keys.stream("columns").uniform(box, box).argsort(-1)
        band = torch.arange(size, device=stack.device) // box
        place = stack * box + column.flatten(1).gather(1, stack * box + band)
        return (place.unsqueeze(-1) == torch.arange(size, device=stack.device)).flatten(1)
