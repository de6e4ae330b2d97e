"""Puzzles with fewer clues than greedy removal reaches: a few found by `reducer`, and all their symmetric variants.

They go down to 17, the fewest that a puzzle can have. Those are so rare that the search came upon very few, so variants
look new and are not: to measure a model, use a collection of them (`extend_seventeen`).
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import numpy as np
import torch

from simplax.data.sudoku.augment import random_symmetry
from simplax.data.sudoku.boards import parse
from simplax.errors import UserError
from simplax.random import Keys


@cache
def few_clues() -> dict[int, np.ndarray]:
    """`(number, 81)` puzzles by their number of clues, each with one solution and no spare clue."""
    lines = files("simplax.data.sudoku").joinpath("few.txt").read_text(encoding="ascii").split()
    boards = np.stack([parse(line) for line in lines]).astype(np.int8)
    counts = np.count_nonzero(boards, axis=1)
    return {int(count): boards[counts == count] for count in np.unique(counts)}


def few_clue_puzzle(clues: int, seed: int) -> np.ndarray:
    """One of them with exactly so many clues under a random symmetry: a function of the seed."""
    boards = few_clues().get(clues)
    if boards is None:
        raise UserError(
            f"There are puzzles with {min(few_clues())} to {max(few_clues())} clues, not {clues}."
        )
    keys = Keys.from_seeds([seed])
    which = int(keys.stream("board").uniform(1)[0, 0] * len(boards))
    symmetry = random_symmetry(keys.stream("symmetry"), boards.shape[1])
    moved: np.ndarray = symmetry.apply(torch.from_numpy(boards[which : which + 1])).numpy()[0]
    return moved
