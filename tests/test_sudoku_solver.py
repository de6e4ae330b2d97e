"""The solver counts what independent methods count."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simplax.data import sudoku
from simplax.errors import UserError

PUZZLE = "003007060910002740200100000190000030602800000004000500001046007840700300729000006"
SOLUTION = "483957261915362748267184953198475632652893174374621589531246897846719325729538416"


def to_board(digits: str) -> np.ndarray:
    return np.array([int(d) for d in digits], dtype=np.int8)


def test_solves_flat_and_square_boards_in_their_shape() -> None:
    flat, square = to_board(PUZZLE), to_board(PUZZLE).reshape(9, 9)
    assert sudoku.count_solutions(flat) == sudoku.count_solutions(square) == 1
    np.testing.assert_array_equal(sudoku.solve(flat), to_board(SOLUTION))
    np.testing.assert_array_equal(sudoku.solve(square), to_board(SOLUTION).reshape(9, 9))


def test_a_solved_board_is_its_own_solution() -> None:
    np.testing.assert_array_equal(sudoku.solve(to_board(SOLUTION)), to_board(SOLUTION))
    assert sudoku.count_solutions(to_board(SOLUTION), limit=5) == 1


def test_the_empty_boards_have_the_known_numbers_of_solutions() -> None:
    assert sudoku.count_solutions(np.zeros(16, dtype=np.int8), limit=10_000) == 288
    assert sudoku.count_solutions(np.zeros(81, dtype=np.int8), limit=1000) == 1000  # there are 6.7e21


def test_boards_without_solution() -> None:
    clash = to_board(PUZZLE)
    clash[0] = 3
    assert sudoku.count_solutions(clash) == 0 and sudoku.solve(clash) is None
    stuck = np.zeros((9, 9), dtype=np.int8)
    stuck[0, :8] = range(1, 9)
    stuck[4, 8] = 9  # no digit is left for the last cell of the first row, though no two clues clash
    assert not sudoku.conflicts(stuck).any()
    assert sudoku.count_solutions(stuck) == 0


@settings(max_examples=200, deadline=None)
@given(
    which=st.integers(0, 287),
    kept=st.integers(0, 2**16 - 1),
    noise=st.lists(st.tuples(st.integers(0, 15), st.integers(1, 4)), max_size=2),
)
def test_4x4_counts_agree_with_the_list_of_all_solutions(
    which: int, kept: int, noise: list[tuple[int, int]]
) -> None:
    solutions = sudoku.solutions_4x4()
    board = np.where(kept >> np.arange(16) & 1, solutions[which], 0)
    for cell, digit in noise:
        board[cell] = digit
    matching = solutions[((board == 0) | (solutions == board)).all(1)]
    assert sudoku.count_solutions(board, limit=1000) == len(matching)
    found = sudoku.solve(board)
    assert (found is None) == (len(matching) == 0)
    if found is not None:
        assert (matching == found).all(1).any()


def count_with_cp_sat(board: np.ndarray) -> int:
    """0, 1 or 2 (meaning several) solutions according to OR-tools."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    cells = [[model.new_int_var(1, 9, "") for _ in range(9)] for _ in range(9)]
    for i in range(9):
        model.add_all_different(cells[i])
        model.add_all_different([cells[j][i] for j in range(9)])
        model.add_all_different([cells[i // 3 * 3 + j // 3][i % 3 * 3 + j % 3] for j in range(9)])
    for i, digit in enumerate(board.tolist()):
        if digit:
            model.add(cells[i // 9][i % 9] == digit)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    if solver.solve(model) == cp_model.INFEASIBLE:
        return 0
    flat = [cell for row in cells for cell in row]
    differs = []
    for cell in flat:
        other = model.new_bool_var("")
        model.add(cell != solver.value(cell)).only_enforce_if(other)
        differs.append(other)
    model.add_bool_or(differs)
    return 1 if solver.solve(model) == cp_model.INFEASIBLE else 2


@pytest.mark.slow
def test_counts_agree_with_an_independent_solver_on_500_boards() -> None:
    rng = random.Random(7)
    ours, theirs = [], []
    for seed in range(500):
        board, solution = sudoku.generate(seed, 28)
        for cell in rng.sample(range(81), 4):  # moves between unique, ambiguous and contradictory boards
            board[cell] = rng.choice([0, solution[cell], rng.randint(1, 9)])
        ours.append(sudoku.count_solutions(board))
        theirs.append(count_with_cp_sat(board))
    assert ours == theirs
    assert min(theirs.count(kind) for kind in (0, 1, 2)) > 50


def test_conflicts_are_exactly_the_repeated_digits() -> None:
    board = np.zeros((9, 9), dtype=np.int8)
    board[0, 0] = board[0, 8] = 5  # same row
    board[3, 3] = board[5, 5] = 7  # same box
    board[8, 8] = 5  # same column as (0, 8), another row than (0, 0)
    expected = np.zeros((9, 9), dtype=bool)
    expected[[0, 0, 3, 5, 8], [0, 8, 3, 5, 8]] = True
    np.testing.assert_array_equal(sudoku.conflicts(board), expected)
    np.testing.assert_array_equal(sudoku.conflicts(board.reshape(-1)), expected.reshape(-1))


def test_only_complete_boards_without_conflict_are_valid() -> None:
    solved = to_board(SOLUTION)
    swapped, incomplete = solved.copy(), solved.copy()
    swapped[[0, 1]] = swapped[[1, 0]]
    incomplete[40] = 0
    assert sudoku.is_valid(solved) and sudoku.is_valid(solved.reshape(9, 9))
    np.testing.assert_array_equal(
        sudoku.valid_boards(np.stack([solved, swapped, incomplete])), [True, False, False]
    )


@pytest.mark.parametrize("board", [np.zeros(80, int), np.zeros((3, 27), int), np.full(81, 10), np.zeros(81)])
def test_what_is_no_board_is_refused(board: np.ndarray) -> None:
    with pytest.raises(UserError):
        sudoku.count_solutions(board)
