"""Puzzles as people write them, and boards as tokens."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simplax.data import sudoku
from simplax.errors import UserError

PUZZLE = "003007060910002740200100000190000030602800000004000500001046007840700300729000006"
SOLUTION = "483957261915362748267184953198475632652893174374621589531246897846719325729538416"
ROWS = [PUZZLE[i : i + 9] for i in range(0, 81, 9)]
BANDS = [ROWS[i : i + 3] for i in (0, 3, 6)]
RULED = "\n------+-------+------\n".join(
    "\n".join(" | ".join(" ".join(row[i : i + 3]) for i in (0, 3, 6)) for row in band) for band in BANDS
)
FRAMED = "\n".join(f"| {row} |" for row in ROWS)
SPACED = "\n\n".join("\n".join(band) for band in BANDS)
SMALL = "1...|..3.|.4..|...2"


def board(digits: str) -> np.ndarray:
    return np.array([int(d) for d in digits], dtype=np.int8)


@pytest.mark.parametrize(
    "text",
    [
        PUZZLE,
        PUZZLE.replace("0", "."),
        PUZZLE.replace("0", "_"),
        f"# a comment\n\n  {PUZZLE}  \r\n",
        "\n".join(ROWS),
        RULED,
        "+-------+\n" + FRAMED.replace("0", ".") + "\n+-------+",
        SPACED,
    ],
)
def test_usual_forms_are_one_puzzle(text: str) -> None:
    parsed = sudoku.parse(text)
    assert parsed.dtype == np.int8
    np.testing.assert_array_equal(parsed, board(PUZZLE))


def test_files_hold_one_per_line_grids_and_both_sizes(tmp_path: Path) -> None:
    file = tmp_path / "puzzles.txt"
    file.write_text(f"{PUZZLE}\n{SOLUTION}\n{RULED}\n{SMALL}\n12..\n..3.\n.4..\n...2\n")
    boards = sudoku.load_puzzles(file)
    assert [b.size for b in boards] == [81, 81, 81, 16, 16]
    np.testing.assert_array_equal(boards[0], boards[2])
    assert sudoku.to_text(boards[4]) == "12....3..4.....2"


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=81, max_size=81))
def test_text_round_trip(cells: list[int]) -> None:
    np.testing.assert_array_equal(sudoku.parse(sudoku.to_text(cells)), cells)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (PUZZLE[:80], "Line 1 has 80 cells"),
        (PUZZLE + "1", "Line 1 has 82 cells"),
        (PUZZLE.replace("4", "x"), "Line 1 has 'x'"),
        (SMALL.replace("4", "5"), "Line 1 has '5' in a 4x4 puzzle: use the digits 1 to 4"),
        ("\n".join(ROWS[:8]), "has 8 rows of 9 cells"),
        ("\n".join([*ROWS[:4], "1234"]), "Line 5 has 4 cells"),
        ("", "holds 0"),
        (f"{PUZZLE}\n{PUZZLE}", "holds 2"),
    ],
)
def test_malformed_text_gets_one_sentence(text: str, message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)) as caught:
        sudoku.parse(text)
    assert "\n" not in str(caught.value) and str(caught.value).endswith(".")


def test_unreadable_and_empty_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"missing\.txt cannot be read"):
        sudoku.load_puzzles(tmp_path / "missing.txt")
    (tmp_path / "empty.txt").write_text("# nothing\n")
    with pytest.raises(UserError, match="holds no puzzle"):
        sudoku.load_puzzles(tmp_path / "empty.txt")


def test_check_returns_the_solution_or_says_what_is_wrong() -> None:
    np.testing.assert_array_equal(sudoku.check(board(PUZZLE)), board(SOLUTION))
    clash = board(PUZZLE)
    clash[0] = 3
    with pytest.raises(UserError, match="contradictory: row 1 holds the digit 3 twice"):
        sudoku.check(clash)
    stuck = np.zeros((9, 9), dtype=np.int8)
    stuck[0, :8] = range(1, 9)
    stuck[4, 8] = 9
    with pytest.raises(UserError, match="no solution"):
        sudoku.check(stuck)
    with pytest.raises(UserError, match="Puzzle 7 has more than one solution"):
        sudoku.check(np.zeros(81, dtype=np.int8), "Puzzle 7")


def test_prefix_layout_is_the_published_one() -> None:
    layout = sudoku.Prefix()
    assert (layout.length, layout.vocab_size, layout.prompt_length) == (180, 12, 91)
    batch = layout.encode(torch.tensor(board(PUZZLE))[None], torch.tensor(board(SOLUTION))[None])
    tokens = batch.tokens[0].tolist()
    assert tokens[0] == tokens[90] == 11
    for start, digits in ((1, PUZZLE), (91, SOLUTION)):
        expected = "A".join(digits[i : i + 9] for i in range(0, 81, 9))
        assert "".join("0123456789A"[t] for t in tokens[start : start + 89]) == expected
    assert batch.given[0].tolist() == [True] * 91 + [False] * 89
    assert torch.equal(batch.scored, ~batch.given)


def test_cells_layout_gives_the_clues() -> None:
    layout = sudoku.Cells()
    assert (layout.length, layout.vocab_size) == (81, 9)
    batch = layout.encode(torch.tensor(board(PUZZLE))[None], torch.tensor(board(SOLUTION))[None])
    assert (batch.tokens[0] + 1).tolist() == board(SOLUTION).tolist()
    assert batch.given[0].tolist() == (board(PUZZLE) > 0).tolist()
    assert torch.equal(batch.scored, ~batch.given)


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(["prefix", "cells"]),
    st.sampled_from([4, 9]),
    st.integers(1, 4),
    st.integers(0, 2**32 - 1),
)
def test_layouts_round_trip(name: str, size: int, number: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    solutions = torch.tensor(rng.integers(1, size + 1, (number, size * size)))
    puzzles = solutions * torch.tensor(rng.integers(0, 2, solutions.shape))
    batch = sudoku.encode(puzzles, solutions, name)
    layout = sudoku.make_layout(name, size)
    assert batch.tokens.shape == (number, layout.length)
    assert batch.tokens.min() >= 0 and batch.tokens.max() < layout.vocab_size
    assert torch.equal(sudoku.decode(batch.tokens, name, size), solutions)
    assert layout.well_formed(batch.tokens).all()
    unsolved = sudoku.encode(puzzles, None, name)
    assert torch.equal(unsolved.given, batch.given)
    assert torch.equal(unsolved.tokens[unsolved.given], batch.tokens[batch.given])


def test_what_is_not_a_digit_decodes_as_blank_and_separators_are_checked() -> None:
    layout = sudoku.Prefix()
    tokens = layout.encode(torch.tensor(board(PUZZLE))[None], torch.tensor(board(SOLUTION))[None]).tokens
    tokens[0, 91] = layout.begin
    assert sudoku.decode(tokens)[0].tolist() == [0, *board(SOLUTION)[1:].tolist()]
    assert layout.well_formed(tokens).all()
    tokens[0, 91 + 9] = 4
    assert not layout.well_formed(tokens).any()
    assert sudoku.decode(tokens[:, 91:])[0, 1:].tolist() == board(SOLUTION)[1:].tolist()


def test_unknown_layouts_are_refused() -> None:
    with pytest.raises(UserError, match="cells, prefix"):
        sudoku.make_layout("rows")
