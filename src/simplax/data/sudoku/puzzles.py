"""A list of puzzles with their solutions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class PuzzleSet:
    """`puzzles` and `solutions`, both `(number, cells)` int8 arrays with 0 for blank."""

    puzzles: np.ndarray
    solutions: np.ndarray

    def __len__(self) -> int:
        return len(self.puzzles)

    def __getitem__(self, which: slice | Sequence[int] | np.ndarray) -> PuzzleSet:
        return PuzzleSet(self.puzzles[which], self.solutions[which])

    def __add__(self, other: PuzzleSet) -> PuzzleSet:
        return PuzzleSet(
            np.concatenate([self.puzzles, other.puzzles]), np.concatenate([self.solutions, other.solutions])
        )

    @property
    def clue_counts(self) -> np.ndarray:
        """The number of clues each puzzle really has."""
        return (self.puzzles > 0).sum(1)

    def solution_keys(self) -> set[bytes]:
        """The solutions as hashable keys, for tests of overlap."""
        return {solution.tobytes() for solution in self.solutions}

    def sha256(self) -> str:
        """Digest of the text that has one line of puzzle digits followed by solution digits per puzzle."""
        digits = np.concatenate([self.puzzles, self.solutions], axis=1).astype(np.uint8) + ord("0")
        lines = np.pad(digits, ((0, 0), (0, 1)), constant_values=ord("\n"))
        return hashlib.sha256(lines.tobytes()).hexdigest()
