"""Symmetries, small boards, few clues, and training batches that depend on seed and counter alone."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simplax.data import sudoku
from simplax.data.sudoku import pools
from simplax.errors import UserError
from simplax.random import Keys

SEEDS = st.lists(st.integers(0, 2**40), min_size=1, max_size=6)


def boards(size: int, number: int) -> tuple[torch.Tensor, torch.Tensor]:
    if size == 4:
        puzzles = sudoku.puzzles_4x4(6)[0][:number]
        return torch.from_numpy(puzzles.puzzles), torch.from_numpy(puzzles.solutions)
    pairs = torch.from_numpy(sudoku.generate_range(7, number, 30))
    return pairs[:, 0], pairs[:, 1]


@pytest.mark.parametrize("size", [9, 4])
@settings(max_examples=30, deadline=None)
@given(seeds=SEEDS)
def test_augmentation_keeps_boards_valid_and_clues_clues(size: int, seeds: list[int]) -> None:
    puzzles, solutions = boards(size, len(seeds))
    new_puzzles, new_solutions = sudoku.augment_puzzles(puzzles, solutions, Keys.from_seeds(seeds))
    assert new_puzzles.dtype == puzzles.dtype and new_puzzles.shape == puzzles.shape
    assert sudoku.valid_boards(new_solutions.numpy()).all()
    clues = new_puzzles > 0
    assert torch.equal(new_puzzles[clues], new_solutions[clues])
    assert torch.equal(clues.sum(1), (puzzles > 0).sum(1))
    symmetry = sudoku.random_symmetry(Keys.from_seeds(seeds), size * size)
    assert torch.equal(clues, (puzzles > 0).gather(1, symmetry.cells))
    for puzzle, solution in zip(new_puzzles.numpy(), new_solutions.numpy()):
        np.testing.assert_array_equal(sudoku.check(puzzle), solution)


@settings(max_examples=20, deadline=None)
@given(seeds=SEEDS)
def test_the_symmetry_of_a_sample_does_not_depend_on_its_batch(seeds: list[int]) -> None:
    together = sudoku.random_symmetry(Keys.from_seeds(seeds), 81)
    for i, seed in enumerate(seeds):
        alone = sudoku.random_symmetry(Keys.from_seeds([seed]), 81)
        assert torch.equal(alone.cells[0], together.cells[i])
        assert torch.equal(alone.digits[0], together.digits[i])


def test_symmetries_are_drawn_evenly_from_the_whole_group() -> None:
    """4x4: 24 relabellings times 128 moves of cells; the 128 cell moves come up equally often."""
    symmetry = sudoku.random_symmetry(Keys.from_seeds(range(64_000)), 16)
    moves, counts = symmetry.cells.unique(dim=0, return_counts=True)
    assert len(moves) == 128
    assert ((counts - 500).abs() < 6 * 500**0.5).all()
    labels, counts = symmetry.digits.unique(dim=0, return_counts=True)
    assert len(labels) == 24 and (labels[:, 0] == 0).all()
    assert ((counts - 64_000 / 24).abs() < 6 * (64_000 / 24) ** 0.5).all()
    # one cell of a 9x9 board goes everywhere
    first = sudoku.random_symmetry(Keys.from_seeds(range(81_000)), 81).cells[:, 0]
    assert ((first.bincount(minlength=81) - 1000).abs() < 6 * 1000**0.5).all()


def test_4x4_facts() -> None:
    solutions = sudoku.solutions_4x4()
    assert solutions.shape == (288, 16) and len(np.unique(solutions, axis=0)) == 288
    assert sudoku.valid_boards(solutions).all()
    train, held_out = sudoku.puzzles_4x4(6)
    assert len(train.solution_keys()) == 240 and len(held_out.solution_keys()) == 48
    assert not train.solution_keys() & held_out.solution_keys()
    assert len(held_out[:48].solution_keys()) == 48
    for puzzles in (train, held_out):
        assert (puzzles.clue_counts == 6).all()
        for puzzle, solution in zip(puzzles.puzzles[::5000], puzzles.solutions[::5000]):
            np.testing.assert_array_equal(sudoku.check(puzzle), solution)


def test_4x4_puzzles_are_all_those_with_one_solution() -> None:
    train, held_out = sudoku.puzzles_4x4(4)
    everything = train + held_out
    assert len(np.unique(everything.puzzles, axis=0)) == len(everything)
    rng = np.random.default_rng(0)
    solution = sudoku.solutions_4x4()[100]
    known = {puzzle.tobytes() for puzzle in everything.puzzles}
    for _ in range(300):
        puzzle = np.zeros(16, dtype=np.int8)
        cells = rng.choice(16, 4, replace=False)
        puzzle[cells] = solution[cells]
        assert (puzzle.tobytes() in known) == (sudoku.count_solutions(puzzle) == 1)
    with pytest.raises(UserError, match="4 to 15"):
        sudoku.puzzles_4x4(3)


@pytest.fixture
def source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> sudoku.SudokuSource:
    monkeypatch.setenv("SIMPLAX_CACHE", str(tmp_path))
    monkeypatch.setattr(pools, "POOL_SIZE", 300)
    monkeypatch.setattr(pools, "NUM_TRAIN", 200)
    monkeypatch.setattr(pools, "PUBLISHED_SHA256", {})
    return sudoku.SudokuSource(clues=40, layout="cells", seed=3)


def keys_of(source: sudoku.SudokuSource, indices: torch.Tensor) -> list[bytes]:
    return [row.numpy().astype(np.int8).tobytes() for row in source.decode(source.batch(indices).tokens)]


def test_an_epoch_is_one_pass_over_the_training_set(source: sudoku.SudokuSource) -> None:
    first, second = (keys_of(source, torch.arange(200) + 200 * epoch) for epoch in (0, 1))
    assert set(first) == set(second) == source.train.solution_keys()
    assert first != second
    assert not set(first) & source.valid.solution_keys()


@pytest.mark.parametrize("augment", [False, True])
@pytest.mark.parametrize("layout", ["cells", "prefix"])
def test_a_sample_depends_on_seed_and_counter_alone(
    source: sudoku.SudokuSource, layout: str, augment: bool
) -> None:
    source = sudoku.SudokuSource(clues=40, layout=layout, augment=augment, seed=3)
    indices = torch.tensor([5, 199, 200, 1234, 10**7])
    together = source.batch(indices)
    assert together.tokens.shape == (5, source.length) and together.tokens.max() < source.vocab_size
    again = sudoku.SudokuSource(clues=40, layout=layout, augment=augment, seed=3)
    for i, index in enumerate(indices):
        alone = again.batch(index[None])
        assert torch.equal(alone.tokens[0], together.tokens[i])
        assert torch.equal(alone.given[0], together.given[i])
    other = sudoku.SudokuSource(clues=40, layout=layout, augment=augment, seed=4)
    assert not torch.equal(other.batch(indices).tokens, together.tokens)


def test_augmented_batches_are_new_valid_boards(source: sudoku.SudokuSource) -> None:
    endless = sudoku.SudokuSource(clues=40, layout="cells", augment=True)
    batch = endless.batch(torch.arange(1000))
    decoded = endless.decode(batch.tokens).numpy()
    assert sudoku.valid_boards(decoded).all()
    assert len(np.unique(decoded, axis=0)) == 1000  # five passes over 200 boards
    assert (batch.given.sum(1) == 40).all()
    np.testing.assert_array_equal(sudoku.solve((decoded * batch.given.numpy())[0]), decoded[0])


def test_4x4_source_trains_on_no_held_out_solution() -> None:
    source = sudoku.SudokuSource(clues=6, layout="cells", size=4)
    assert (source.length, source.vocab_size) == (16, 4)
    assert (sudoku.Prefix(4).length, sudoku.Prefix(4).vocab_size) == (40, 7)
    seen = set(keys_of(source, torch.arange(5000)))
    assert len(seen) == 240 and not seen & source.valid.solution_keys()
    with pytest.raises(UserError, match="held-out"):
        sudoku.SudokuSource(clues=6, size=4, augment=True)
    with pytest.raises(UserError, match="9x9 or 4x4"):
        sudoku.SudokuSource(size=16)


SEVENTEEN = [
    "000000010400000000020000000000050407008000300001090000300400200050100000000806000",
    "000000012000035000000600070700000300000400800100000000000120000080000040050000600",
    "000000012003600000000007000410020000000500300700000600280000040000300500000000000",
]


def test_few_clue_sets_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "seventeen.txt"
    file.write_text("\n".join(SEVENTEEN))
    base, more = sudoku.extend_seventeen(file, 17, 3, seed=1), sudoku.extend_seventeen(file, 20, 3, seed=1)
    assert (base.clue_counts == 17).all() and (more.clue_counts == 20).all()
    assert sorted(map(sudoku.to_text, base.puzzles)) == sorted(p.replace("0", ".") for p in SEVENTEEN)
    np.testing.assert_array_equal(base.solutions, more.solutions)
    assert ((base.puzzles == 0) | (base.puzzles == more.puzzles)).all()
    assert ((more.puzzles == 0) | (more.puzzles == more.solutions)).all()
    rest = sudoku.extend_seventeen(file, 20, 2, seed=1, skip=1)
    np.testing.assert_array_equal(rest.puzzles, more.puzzles[1:])
    orders = {sudoku.extend_seventeen(file, 17, 3, seed=s).puzzles.tobytes() for s in range(20)}
    assert len(orders) == 6


@pytest.mark.parametrize(
    ("lines", "clues", "num", "message"),
    [
        (SEVENTEEN, 18, 1, "17 or 20 clues, not 18"),
        (SEVENTEEN, 17, 4, "3 puzzles, but 4 are needed"),
        (["1" + SEVENTEEN[2][1:]], 17, 1, "Puzzle 1 of .* has 18 clues"),
        (["0" * 64 + "12345678912345678"], 17, 1, "contradictory"),
    ],
)
def test_unfit_files_are_refused(
    lines: list[str], clues: int, num: int, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "seventeen.txt"
    file.write_text("\n".join(lines))
    with pytest.raises(UserError, match=message):
        sudoku.extend_seventeen(file, clues, num)


@pytest.mark.skipif("SIMPLAX_TEST_DATA" not in os.environ, reason="SIMPLAX_TEST_DATA is not set")
def test_known_17_clue_puzzles_are_unique() -> None:
    file = Path(os.environ["SIMPLAX_TEST_DATA"]) / "sudoku17.txt"
    if not file.exists():
        pytest.skip(f"{file} is absent")
    puzzles = sudoku.extend_seventeen(file, 17, 1000, seed=5)  # checks that each has exactly one solution
    assert sudoku.valid_boards(puzzles.solutions).all()
    assert len(np.unique(puzzles.puzzles, axis=0)) == 1000
