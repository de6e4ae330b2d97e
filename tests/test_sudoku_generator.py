"""The benchmark's puzzles are reproduced to the bit, with numba and without."""

from __future__ import annotations

import hashlib
import random
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

from simplax.data import sudoku
from simplax.data.sudoku import pools
from simplax.errors import UserError

# sha256 of the whole pool and of its last 2,000, one line of puzzle and solution digits per item
HASHES = {
    40: (
        "e2f7ac6310417be4c172798d2a7083384ae3b4d4feaf136feed60790d180ecdc",
        "3998a752d9f93078ff1d30c726b76c3b8ca84b7f5fff27fc76576b065a3643bd",
    ),
    35: (
        "37726866ebb7f66b81a1feb6a9b67b5264802bdb5537f30dc1b2a2047979abaa",
        "57202e818faa9924ba45a2f7e9551ff1fc3525d67efcd9bed1aa2f82e4925328",
    ),
    30: (
        "29bc662b05c957b55dfc4889dc49364fa0533de92cc10500d457960b97f81042",
        "1dc069da4e7d523b069e850260d1cb8ab4cbd51fe6167dc64c873eb5dc358106",
    ),
    25: (
        "bbcb5bc18d831c94cf17211cda1a3917af4459cd1292e55ccd47a9c850930861",
        "724e70ec2ac03232343fa33c91a01f8e4f889b7e4f737cc0681a05a6b9e4a086",
    ),
}
TOKEN_HASHES = (
    "77696d89de9f4239ec7903430f35a4354d059974030411700eda32e4a1809c99",
    "964f6dcdd0106df48b53e4aea57aa0b934218375c4d3c04859f4a902baf2dc5e",
)
needs_numba = pytest.mark.skipif(
    find_spec("numba") is None, reason="whole pools need the sudoku extra (numba)"
)


def digits(board: np.ndarray) -> str:
    return "".join(map(str, board.tolist()))


def test_seed_42() -> None:
    puzzle, solution = sudoku.generate(42, 30)
    assert (
        digits(puzzle) == "003007060910002740200100000190000030602800000004000500001046007840700300729000006"
    )
    assert (
        digits(solution)
        == "483957261915362748267184953198475632652893174374621589531246897846719325729538416"
    )


def reference(seed: int, clues: int) -> tuple[list[int], list[int]]:
    """The generator in its obvious form: recursion, `random.Random`, a solution count after every removal."""
    rng = random.Random(seed)
    board = [0] * 81

    def fits(cell: int, digit: int) -> bool:
        row, column = divmod(cell, 9)
        return all(
            board[i] != digit
            for i in range(81)
            if i // 9 == row or i % 9 == column or (i // 27, i % 9 // 3) == (row // 3, column // 3)
        )

    def fill(cell: int) -> bool:
        if cell == 81:
            return True
        order = list(range(1, 10))
        rng.shuffle(order)
        for digit in order:
            if fits(cell, digit):
                board[cell] = digit
                if fill(cell + 1):
                    return True
                board[cell] = 0
        return False

    fill(0)
    puzzle = board.copy()
    places = [(r, c) for r in range(9) for c in range(9)]
    rng.shuffle(places)
    for r, c in places:
        if sum(map(bool, puzzle)) == clues:
            break
        puzzle[9 * r + c] = 0
        if sudoku.count_solutions(puzzle) != 1:
            puzzle[9 * r + c] = board[9 * r + c]
    return puzzle, board


@pytest.mark.parametrize("seed", [0, 1, -42, 2**31, 2**32 - 1, 2**32, 2**32 + 42, 2**62 + 12345])
@pytest.mark.parametrize("clues", [40, 24])
def test_generator_agrees_with_its_obvious_form(seed: int, clues: int) -> None:
    puzzle, solution = sudoku.generate(seed, clues)
    assert (puzzle.tolist(), solution.tolist()) == reference(seed, clues)


def generate_without_numba(first: int, number: int, clues: int) -> np.ndarray:
    program = (
        "import sys; sys.modules['numba'] = None\n"
        "from simplax.data.sudoku import _kernels, generate_range\n"
        "assert not _kernels.COMPILED\n"
        f"sys.stdout.buffer.write(generate_range({first}, {number}, {clues}).tobytes())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    return np.frombuffer(done.stdout, dtype=np.int8).reshape(number, 2, 81)


@needs_numba
@pytest.mark.parametrize(("number", "clues"), [(200, 40), (100, 30), (40, 25)])
def test_plain_python_makes_the_same_puzzles(number: int, clues: int) -> None:
    np.testing.assert_array_equal(
        generate_without_numba(42, number, clues), sudoku.generate_range(42, number, clues)
    )


def test_fewer_clues_are_a_subset_and_share_the_solution() -> None:
    many, few = sudoku.generate_range(900, 50, 40), sudoku.generate_range(900, 50, 30)
    np.testing.assert_array_equal(many[:, 1], few[:, 1])
    assert ((few[:, 0] == 0) | (few[:, 0] == many[:, 0])).all()
    assert sudoku.valid_boards(many[:, 1]).all()
    assert all(sudoku.count_solutions(puzzle) == 1 for puzzle in few[:, 0])


@pytest.fixture
def small_pool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Pools of 300 puzzles, 200 of them for training, in a cache of their own."""
    monkeypatch.setenv("SIMPLAX_CACHE", str(tmp_path))
    monkeypatch.setattr(pools, "POOL_SIZE", 300)
    monkeypatch.setattr(pools, "NUM_TRAIN", 200)
    monkeypatch.setattr(pools, "PUBLISHED_SHA256", {})
    return tmp_path


def test_pool_is_cached_and_a_damaged_cache_is_made_anew(
    small_pool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = sudoku.pool(30)
    (file,) = small_pool.iterdir()
    good = file.read_bytes()

    def never(*_: object) -> Iterator[np.ndarray]:
        raise AssertionError("a cached pool is not generated again")

    with monkeypatch.context() as patch:
        patch.setattr(pools, "seed_stream", never)
        assert sudoku.pool(30).puzzles.sha256() == made.puzzles.sha256()
        assert sudoku.pool(30).next_seed == made.next_seed == 342

    other = sudoku.PuzzleSet(made.puzzles.puzzles.copy(), made.puzzles.solutions)
    other.puzzles[0, 0] ^= 1
    with np.load(file) as stored:
        fields = dict(stored)
    np.savez(file, **{**fields, "puzzles": other.puzzles})
    assert sudoku.pool(30).puzzles.sha256() == made.puzzles.sha256()
    file.write_bytes(good[: len(good) // 2])
    assert sudoku.pool(30).puzzles.sha256() == made.puzzles.sha256()
    assert [path.name for path in small_pool.iterdir()] == [file.name]


def test_a_pool_that_differs_from_the_published_one_is_refused(
    small_pool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "PUBLISHED_SHA256", {30: "0" * 64})
    with pytest.raises(RuntimeError, match="published"):
        sudoku.pool(30)
    assert not list(small_pool.iterdir())


def test_further_sets_share_no_solution_with_the_pool_nor_each_other(small_pool: Path) -> None:
    whole = sudoku.pool(25)
    development, exact = sudoku.development_set(25, 100), sudoku.exact_clues(25, 150)
    assert len(development) == 100 and len(exact) == 150
    assert set(exact.clue_counts.tolist()) == {25}
    assert not development.solution_keys() & (whole.puzzles.solution_keys() | exact.solution_keys())
    assert not exact.solution_keys() & whole.train.solution_keys()
    assert len(exact.solution_keys()) == 150
    of_pool = whole.valid[whole.valid.clue_counts == 25]
    np.testing.assert_array_equal(exact.puzzles[: len(of_pool)], of_pool.puzzles)
    first = next(
        puzzle
        for puzzle, _ in sudoku.generate_range(whole.next_seed, 20, 25)
        if np.count_nonzero(puzzle) == 25
    )
    np.testing.assert_array_equal(exact.puzzles[len(of_pool)], first)


@pytest.mark.parametrize("clues", [0, 17, 20, 81])
def test_clue_counts_out_of_reach_are_refused(clues: int) -> None:
    with pytest.raises(UserError, match="22 to 80"):
        sudoku.pool(clues)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        directory = tmp_path_factory.mktemp("cache")
        patch.setenv("SIMPLAX_CACHE", str(directory))
        yield directory


@needs_numba
@pytest.mark.slow
@pytest.mark.parametrize("clues", [40, 35, 30, 25])
def test_pools_have_the_published_hashes_and_training_holds_no_evaluation_solution(
    clues: int, cache: Path
) -> None:
    made, loaded = sudoku.pool(clues), sudoku.pool(clues)
    for pool in (made, loaded):
        assert (pool.puzzles.sha256(), pool.valid.sha256()) == HASHES[clues]
        assert (len(pool.train), len(pool.valid)) == (48_000, 2_000)
    evaluation = made.valid.solution_keys()
    assert len(evaluation) == 2_000 and not evaluation & made.train.solution_keys()
    counts = np.bincount(made.valid.clue_counts, minlength=29)
    assert counts[25:29].tolist() == [1675, 252, 70, 3] if clues == 25 else counts[clues] == 2_000


@needs_numba
@pytest.mark.slow
def test_first_items_and_token_hashes_of_the_30_clue_pool(cache: Path) -> None:
    source = sudoku.SudokuSource(clues=30, layout="prefix")
    train, valid = source.train.puzzles[0], source.valid.puzzles[0]
    assert (
        digits(train) == "080205000300001050005090020006000539007050006059300780008000010090040070020067800"
    )
    assert (
        digits(valid) == "021607085760000200003002700052300000000000000806700000200084036608100400040090007"
    )
    for puzzles, expected in zip((source.train, source.valid), TOKEN_HASHES):
        boards, solutions = torch.from_numpy(puzzles.puzzles), torch.from_numpy(puzzles.solutions)
        tokens = sudoku.make_layout("prefix", 9).encode(boards, solutions).tokens.to(torch.uint8).numpy()
        assert tokens.shape == (len(puzzles), 180)
        assert hashlib.sha256(tokens.tobytes()).hexdigest() == expected


@needs_numba
@pytest.mark.slow
def test_whole_development_and_exact_sets_avoid_training(cache: Path) -> None:
    whole, exact = sudoku.pool(25), sudoku.exact_clues(25)
    assert len(exact) == 2_000 and (exact.clue_counts == 25).all()
    assert not exact.solution_keys() & whole.train.solution_keys()
    assert not sudoku.development_set(25, 500).solution_keys() & (
        whole.puzzles.solution_keys() | exact.solution_keys()
    )


def test_importing_the_package_does_not_import_numba() -> None:
    program = "import sys, simplax.data.sudoku; assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
