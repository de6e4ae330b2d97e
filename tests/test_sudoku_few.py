"""Puzzles with few clues, the search that finds them, and a solver that gives up when it is told to."""

from __future__ import annotations

import numpy as np
import pytest

from simplax.data import sudoku
from simplax.data.sudoku import _kernels, _reducing
from simplax.data.sudoku.reducer import reduce
from simplax.errors import UserError

# no solution, and no solver of this kind sees that quickly
ENDLESS = ".....5.8....6.1.43..........1.5........1.6...3.......553.....61........4........."


def test_stored_puzzles_have_one_solution_and_no_spare_clue() -> None:
    stored = sudoku.few_clues()
    assert set(stored) == {17, 18, 19, 20, 21}
    for clues, boards in stored.items():
        for board in boards:
            assert np.count_nonzero(board) == clues and sudoku.count_solutions(board) == 1
            for cell in np.flatnonzero(board):
                less = board.copy()
                less[cell] = 0
                assert sudoku.count_solutions(less) == 2


@pytest.mark.parametrize("clues", [17, 20])
def test_variants_are_puzzles_of_their_own(clues: int) -> None:
    made = [sudoku.few_clue_puzzle(clues, seed) for seed in range(40)]
    assert len({board.tobytes() for board in made}) == 40
    assert all(np.count_nonzero(board) == clues and sudoku.count_solutions(board) == 1 for board in made)
    np.testing.assert_array_equal(made[3], sudoku.few_clue_puzzle(clues, 3))
    with pytest.raises(UserError, match="17 to 21"):
        sudoku.few_clue_puzzle(16, 0)


def test_exchanges_are_all_that_keep_one_solution() -> None:
    """On 4x4 boards by trying every clue in every place."""
    t, s = _kernels.tables(4), _kernels.scratch(4)
    for board in sudoku.puzzles_4x4(6)[1].puzzles[:6]:
        seen, out = _kernels.zeros(64), _kernels.zeros(3000)
        number = _reducing.exchanges(_kernels.to_buffer(board), 300, seen, out, t, s)
        found = {tuple(out[3 * i : 3 * i + 3]) for i in range(number)}
        wanted = set()
        for clue in np.flatnonzero(board):
            for cell in np.flatnonzero(board == 0):
                for digit in range(1, 5):
                    other = board.copy()
                    other[clue], other[cell] = 0, digit
                    if sudoku.count_solutions(other) == 1:
                        wanted.add((clue, cell, digit))
        less = [np.where(np.arange(16) == clue, 0, board) for clue in np.flatnonzero(board)]
        spare = {clue for clue, one in zip(np.flatnonzero(board), less) if sudoku.count_solutions(one) == 1}
        assert found == {move for move in wanted if move[0] not in spare}
        assert _reducing.spare(_kernels.to_buffer(board), _kernels.zeros(16), t, s) == min(spare, default=-1)


def test_the_search_loses_clues_and_nothing_else() -> None:
    found = list(reduce(sudoku.generate(4, 17)[0], 21, seed=4, seconds=float("inf")))
    counts = [int(np.count_nonzero(board)) for board in found]
    assert counts == sorted(set(counts), reverse=True) and counts[-1] <= 21
    assert all(sudoku.count_solutions(board) == 1 for board in found)


def test_a_search_is_given_up_after_so_many_guesses() -> None:
    board = sudoku.parse(ENDLESS)
    with pytest.raises(sudoku.Undecided):
        sudoku.only_solution(board, 1000)
    easy, solution = sudoku.generate(0, 30)
    np.testing.assert_array_equal(sudoku.only_solution(easy, 1000), solution)
    assert sudoku.only_solution(np.zeros(81, dtype=np.int8), 1000) is None
    with pytest.raises(UserError, match="no solution"):
        sudoku.only_solution(sudoku.parse("12345678." + "........9" + "." * 63), 1000)
