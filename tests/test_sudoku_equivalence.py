"""Boards that are the same up to every symmetry are found, and no others."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from simplax.data.sudoku import PuzzleSet, augment_puzzles, equivalence, is_valid, solutions_4x4
from simplax.data.sudoku.equivalence import Overlap, canonical, fingerprints, overlap
from simplax.random import Keys
from sudoku_models import nine

NINE = nine(40)


def turned(puzzles: PuzzleSet, seed: int) -> PuzzleSet:
    """The same puzzles under a random symmetry each."""
    keys = Keys.from_seeds(torch.arange(len(puzzles))).stream("turned", seed)
    boards = augment_puzzles(torch.from_numpy(puzzles.puzzles), torch.from_numpy(puzzles.solutions), keys)
    return PuzzleSet(*(board.numpy() for board in boards))


def forms(puzzles: PuzzleSet) -> list[tuple[bytes, bytes]]:
    return [canonical(*pair) for pair in zip(puzzles.solutions, puzzles.puzzles)]


def test_there_are_two_boards_of_size_four() -> None:
    """288 boards are two up to symmetry, which is known; one has 96 of them, the other 192."""
    boards = solutions_4x4()
    first = [canonical(board, board)[0] for board in boards]
    assert sorted(first.count(form) for form in set(first)) == [96, 192]


def test_a_symmetry_changes_neither_the_form_nor_the_fingerprint() -> None:
    few = NINE[:8]
    for seed in range(3):
        other = turned(few, seed)
        assert not (other.solutions == few.solutions).all(1).any()
        assert forms(other) == forms(few)
        assert np.array_equal(fingerprints(other.solutions), fingerprints(few.solutions))


def test_the_form_is_a_board_of_the_class_and_its_own_form() -> None:
    for (board, pattern), puzzle in zip(forms(NINE[:8]), NINE.puzzles):
        cells, clues = (np.frombuffer(part, np.uint8).astype(np.int8) for part in (board, pattern))
        assert is_valid(cells) and cells[:9].tolist() == list(range(1, 10))
        assert clues.sum() == (puzzle > 0).sum()
        assert canonical(cells, cells * clues) == (board, pattern)


def test_different_boards_are_told_apart() -> None:
    assert len({board for board, _ in forms(NINE[:20])}) == 20
    assert len(set(fingerprints(NINE.solutions).tolist())) == len(NINE)


def test_overlap_counts_solutions_and_puzzles() -> None:
    """Of ten puzzles three are another set's in disguise, and two more share a solution only."""
    trained = turned(NINE[:5], seed=1)
    blanked = PuzzleSet(trained.puzzles.copy(), trained.solutions)
    for row in (3, 4):  # the same solution with one clue less
        blanked.puzzles[row, np.flatnonzero(blanked.puzzles[row])[0]] = 0
    assert overlap(NINE[:10], blanked) == Overlap(solutions=5, puzzles=3)
    assert overlap(NINE[20:], blanked) == Overlap(0, 0)
    # two puzzles with one solution are one class of solutions and two of puzzles
    assert overlap(NINE[:1] + NINE[:1], trained) == Overlap(2, 2)


def test_fingerprints_alone_decide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boards that only seem alike are compared exactly, and are no overlap."""
    monkeypatch.setattr(equivalence, "fingerprints", lambda boards: np.zeros(len(boards), np.uint64))
    assert overlap(NINE[:3], turned(NINE[2:6], 2)) == Overlap(1, 1)
    monkeypatch.setattr(equivalence, "MOST", 6)
    assert overlap(NINE[:3], NINE[2:6]) is None
