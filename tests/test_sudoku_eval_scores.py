"""What Sudoku evaluation measures: known models, known intervals, sets that never mix, noise of one's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simplax.concentration import Constant, PerToken, Vanishing, parse, spell
from simplax.data.sudoku import PuzzleSet, pools, to_text
from simplax.errors import UserError
from simplax.evaluate import sudoku
from simplax.evaluate.answers import Answers, answer, noise_seeds, sudoku_task
from simplax.evaluate.intervals import wilson
from sudoku_models import FOUR, Arbitrary, model, nine, oracle


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        (81, 263, 0.2553, 0.3662),  # Newcombe (1998), table I
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (20, 20, 0.8389, 1.0),
    ],
)
def test_wilson_intervals_are_the_published_ones(
    successes: int, trials: int, low: float, high: float
) -> None:
    assert wilson(successes, trials) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 3000), st.data())
@settings(max_examples=50, deadline=None)
def test_wilson_ends_solve_their_equation(trials: int, data: st.DataObject) -> None:
    """At each end the observed share is 1.96 standard errors of that end away."""
    successes = data.draw(st.integers(0, trials))
    share = successes / trials
    for end in wilson(successes, trials):
        assert 0 <= end <= 1
        assert (share - end) ** 2 == pytest.approx(1.959964**2 * end * (1 - end) / trials, abs=1e-7)


def test_wilson_refuses_what_is_no_count() -> None:
    for arguments in ((1, 0), (3, 2), (-1, 2)):
        with pytest.raises(ValueError, match="successes"):
            wilson(*arguments)


@pytest.mark.parametrize("name", ["sudoku4-simplax", "sudoku4-udlm"])
def test_an_oracle_solves_all_and_an_untrained_network_none(name: str) -> None:
    puzzles = FOUR[:40]
    best = sudoku.evaluate(oracle(name, puzzles), puzzles, 6)
    assert (
        best.accuracy is not None and best.accuracy.value == best.validity.value == best.cell_accuracy == 1.0
    )
    assert best.accuracy.low == pytest.approx(wilson(40, 40)[0])
    assert (best.num, best.nfe, best.num_steps, best.clue_counts) == (40, 4, 4, {6: 40})
    worst = sudoku.evaluate(model(name), puzzles, 6)
    assert worst.accuracy is not None and worst.accuracy.value < 0.1
    assert worst.cell_accuracy is not None and 0.1 < worst.cell_accuracy < 0.45


@pytest.mark.parametrize("name", ["sudoku-paper-simplax", "sudoku-cpu-udlm"])
def test_both_layouts_are_scored(name: str) -> None:
    puzzles = nine(3)
    best = sudoku.evaluate(oracle(name, puzzles), puzzles, 40)
    assert (
        best.accuracy is not None and best.accuracy.value == best.cell_accuracy == best.validity.value == 1.0
    )


def test_without_clues_only_validity_is_measured() -> None:
    blank = sudoku.puzzle_set(0, 5, size=4)
    measured = sudoku.evaluate(model("sudoku4-simplax"), blank, 0)
    assert (measured.accuracy, measured.cell_accuracy, measured.clue_counts) == (None, None, {0: 5})
    assert measured.validity.value == 0.0


def test_wrong_separators_and_lost_clues_count_against_a_board() -> None:
    puzzles, solutions = FOUR[:3].puzzles, FOUR[:3].solutions
    other = np.where(puzzles == 0, solutions, 0)
    swapped = (solutions % 4) + 1  # valid, but its clues are not those of the puzzle
    boards = np.stack([solutions[0], solutions[1], swapped[2]])
    answers = Answers(puzzles, boards, np.array([True, False, True]), 1.0, 1)
    assert answers.valid.tolist() == [True, False, True]
    assert answers.solved.tolist() == [True, False, False]
    measured = sudoku.score(answers, PuzzleSet(puzzles, solutions), 6, 1.0)
    assert measured.accuracy is not None and measured.accuracy.value == pytest.approx(1 / 3)
    assert measured.validity.value == pytest.approx(2 / 3)
    blanks = puzzles == 0
    assert measured.cell_accuracy == pytest.approx((boards == solutions)[blanks].mean())
    assert not Answers(puzzles, other, np.ones(3, bool), 1.0, 1).valid.any()


@pytest.mark.parametrize("name", ["sudoku4-simplax", "sudoku-cpu-simplax"])
def test_the_noise_of_a_puzzle_does_not_depend_on_its_batch(name: str) -> None:
    known = model(name, lambda config: Arbitrary(config.task.vocab_size))
    puzzles = FOUR[:7] if name.startswith("sudoku4") else nine(7)
    seeds = noise_seeds(3, range(7))
    whole = answer(known, puzzles.puzzles, seeds, eta=2.0, batch_size=7).boards
    assert np.array_equal(whole, answer(known, puzzles.puzzles, seeds, eta=2.0, batch_size=3).boards)
    order = [4, 0, 6]
    some = answer(known, puzzles.puzzles[order], [seeds[i] for i in order], eta=2.0).boards
    assert np.array_equal(some, whole[order])
    for i in (2, 5):
        alone = answer(known, puzzles.puzzles[i : i + 1], seeds[i : i + 1], eta=2.0).boards
        assert np.array_equal(alone[0], whole[i])
    other = answer(known, puzzles.puzzles, noise_seeds(4, range(7)), eta=2.0).boards
    assert not np.array_equal(whole, other)


@given(st.integers(0, 2**30 - 1), st.integers(0, 4095), st.integers(0, 2**20 - 1))
def test_noise_seeds_are_distinct_and_fit(seed: int, stream: int, number: int) -> None:
    (value,) = noise_seeds(seed, [number], stream)
    assert 0 <= value < 2**62
    assert (value >> 32, value >> 20 & 4095, value & (2**20 - 1)) == (seed, stream, number)


def test_noise_seeds_out_of_range_are_refused() -> None:
    for arguments in ((2**30, [0]), (-1, [0]), (0, [2**20]), (0, [0], 4096)):
        with pytest.raises(UserError, match="must lie between"):
            noise_seeds(*arguments)  # type: ignore[arg-type]


def test_frames_lead_from_noise_to_the_answer() -> None:
    puzzles = FOUR[:5]
    known = oracle("sudoku4-simplax", puzzles)
    path = answer(
        known, puzzles.puzzles, noise_seeds(0, range(5)), trajectory=True, batch_size=2, num_steps=6
    )
    assert path.frames is not None and path.frames.shape == (7, 5, 16)
    assert np.array_equal(path.frames[-1], path.boards)
    given_cells = puzzles.puzzles > 0
    assert all(np.array_equal(frame[given_cells], puzzles.puzzles[given_cells]) for frame in path.frames)
    assert not np.array_equal(path.frames[0], path.boards)


def test_development_and_evaluation_share_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def lines(puzzles: PuzzleSet) -> set[str]:
        return {to_text(puzzle) for puzzle in puzzles.puzzles}

    for clues in (6, 12):
        development, evaluation = (sudoku.puzzle_set(clues, 500, size=4, split=s) for s in ("dev", "eval"))  # type: ignore[arg-type]
        assert not lines(development) & lines(evaluation)

    monkeypatch.setattr(sudoku, "LARGEST", 2)
    file = tmp_path / "seventeen.txt"
    asked: list[tuple[int, int, int]] = []
    monkeypatch.setattr(
        sudoku.sudoku, "extend_seventeen", lambda path, clues, num, skip: asked.append((clues, num, skip))
    )
    sudoku.puzzle_set(17, 2, file=file)
    sudoku.puzzle_set(20, 5, file=file, split="dev")
    assert asked == [(17, 2, 0), (20, 5, 2)]

    made = nine(6)
    pool = pools.Pool(40, made, 0)
    monkeypatch.setattr(sudoku.sudoku, "pool", lambda clues: pool)
    monkeypatch.setattr(pools.Pool, "valid", property(lambda self: self.puzzles[4:]))
    assert lines(sudoku.puzzle_set(40, 2)) == lines(made[4:])


def test_sets_that_cannot_be_had_are_told() -> None:
    cases = {
        "--puzzles FILE": {"clues": 17, "num": 2},
        "1 to 2000": {"clues": 30, "num": 2001},
        "not 0": {"clues": 0, "num": 0},
        "only": {"clues": 15, "num": 1000, "size": 4},
        "9x9 evaluation": {"clues": 30, "num": 2, "split": "dev", "exact": True},
    }
    for words, arguments in cases.items():
        with pytest.raises(UserError, match=words):
            sudoku.puzzle_set(**arguments)  # type: ignore[arg-type]


def test_models_of_other_tasks_and_boards_of_other_sizes_are_refused() -> None:
    with pytest.raises(UserError, match="not trained on Sudoku"):
        sudoku_task(model("toy-simplax"))
    with pytest.raises(UserError, match="4x4 boards"):
        answer(model("sudoku4-simplax"), nine(1).puzzles, [0])
    with pytest.raises(UserError, match="batch size"):
        answer(model("sudoku4-simplax"), FOUR[:1].puzzles, [0], batch_size=0)


def test_concentrations_are_read_as_people_write_them() -> None:
    assert parse("10") == parse("constant:10") == 10.0
    assert parse(".01") == 0.01
    assert parse("vanish:10:2:0.1") == Vanishing(10.0, 2.0, 0.1)
    assert parse("vanish:3") == Vanishing(3.0)
    assert parse("vanish:4:0:.3:1") == Vanishing(4.0, 0.0, 0.3, 1.0)
    assert parse("pertoken:5") == PerToken(5.0)
    for text in ("", "ten", "vanish", "vanish:", "vanish:1:2:3:4:5", "pertoken:1:2", "nothing:3"):
        with pytest.raises(UserError, match="is not a concentration"):
            parse(text)
    for text in (
        "-1",
        "vanish:-1",
        "vanish:1:1:1",
        "vanish:1:-1",
        "vanish:1:1:0:-1",
        "pertoken:-2",
        "nan",
        "inf",
        "pertoken:inf",
    ):
        with pytest.raises(UserError, match=r"must|needs"):
            parse(text)


@given(
    st.one_of(
        st.builds(Constant, st.floats(0, 1e4)),
        st.builds(Vanishing, st.floats(0, 1e4), st.floats(0, 5), st.floats(0, 0.9)),
        st.builds(PerToken, st.floats(0, 100)),
    )
)
def test_what_is_spelled_is_read_as_it_was(eta: Constant | Vanishing | PerToken) -> None:
    assert parse(spell(eta)) == (eta.value if isinstance(eta, Constant) else eta)
    assert (spell(100.0), spell(0.1), spell(Vanishing(4.0, 0.0, 0.35, 1.0))) == (
        "100",
        "0.1",
        "vanish:4:0:0.35:1",
    )


def test_a_schedule_reaches_the_sampler() -> None:
    known = model("sudoku4-simplax")
    assert known.sampler(parse("vanish:10:2")).eta == Vanishing(10.0, 2.0)  # type: ignore[attr-defined]
    puzzles, seeds = FOUR[:8].puzzles, noise_seeds(0, range(8))
    # zero redraws per token is the chain without re-anchoring
    assert np.array_equal(
        answer(known, puzzles, seeds, eta=parse("pertoken:0")).boards,
        answer(known, puzzles, seeds, eta=0.0).boards,
    )
