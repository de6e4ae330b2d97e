"""Files of rated puzzles: read, trained on, measured by, with everything a fair row needs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from simplax.cli import main
from simplax.data.sudoku import PuzzleSet, load_rated, to_text
from simplax.errors import UserError
from simplax.evaluate.answers import Answers, answer, most_likely
from simplax.evaluate.declared import declared as declare
from simplax.evaluate.declared import overlap_of
from simplax.evaluate.sudoku import by_rating
from simplax.evaluate.sudoku import evaluate as score_of
from simplax.pretrained import model as hub
from simplax.samplers.stopping import Settled
from simplax.tasks import SudokuTask
from sudoku_models import FOUR, Arbitrary, model, nine, oracle

NINE = nine(6)


def text_of(board: np.ndarray) -> str:
    return "".join(map(str, board.tolist()))


def rated_file(path: Path, puzzles: PuzzleSet = NINE, source: bool = False) -> Path:
    """A file of the shape of Sudoku-Extreme."""
    lines = ["source,question,answer,rating" if source else "question,answer,rating"]
    for number, (puzzle, solution) in enumerate(zip(puzzles.puzzles, puzzles.solutions)):
        cells = f"{to_text(puzzle)},{text_of(solution)},{number * 7}"
        lines.append(f"made here,{cells}" if source else cells)
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("source", [False, True])
def test_what_is_written_is_read(tmp_path: Path, source: bool) -> None:
    read = load_rated(rated_file(tmp_path / "test.csv", source=source))
    assert np.array_equal(read.puzzles.puzzles, NINE.puzzles)
    assert np.array_equal(read.puzzles.solutions, NINE.solutions)
    assert read.ratings.tolist() == [0, 7, 14, 21, 28, 35]
    some = read.some(3)
    assert len(some) == 3 and some.ratings.tolist() == read.some(3).ratings.tolist()
    assert some.puzzles.solution_keys() < read.puzzles.solution_keys()
    assert read.some(100) is read


GOOD = f"{to_text(NINE.puzzles[0])},{text_of(NINE.solutions[0])},3"
BAD_FILES = {
    "a column is missing": (f"question,answer\n{GOOD}", "no column 'rating'"),
    "nothing below": ("question,answer,rating\n", "no puzzles"),
    "too short": ("question,answer,rating\n123,456,1", "line 2 .* 81 cells"),
    "no rating": (f"question,answer,rating\n{GOOD[:-1]}hard", "line 2 .* whole rating"),
    "too few fields": (f"question,answer,rating\n{GOOD}\n{GOOD[:81]}", "line 3"),
    "letters": (f"question,answer,rating\nx{GOOD[1:]}", "81 cells"),
    "wrong answer": (
        f"question,answer,rating\n{to_text(NINE.puzzles[0])},{text_of(NINE.solutions[1])},1",
        "puzzle 1 .* no solution",
    ),
}


@pytest.mark.parametrize(("text", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_bad_files_are_told_in_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        load_rated(path)
    assert main(["evaluate", "sudoku", "sudoku", "--puzzles", str(path)]) == 2


def test_files_that_are_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read"):
        load_rated(tmp_path / "nothing.csv")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="not a CSV file"):
        load_rated(tmp_path / "bytes.csv")


def test_training_on_a_file(tmp_path: Path) -> None:
    path = str(rated_file(tmp_path / "train.csv"))
    task = SudokuTask(puzzles=path, held_out=2)
    trained, held = task.train(), task.validation()
    assert len(trained) == 4 and len(held) == 2  # type: ignore[arg-type]
    boards = [
        {tuple(row) for row in source.batch(torch.arange(6)).tokens.tolist()} for source in (trained, held)
    ]
    assert not boards[0] & boards[1]
    assert boards[0] | boards[1] == {tuple((solution - 1).tolist()) for solution in NINE.solutions}
    fewer = replace(task, limit=1, augment=True).train().batch(torch.arange(3))
    assert len({tuple(row) for row in fewer.tokens.tolist()}) == 3  # one puzzle, three symmetries
    with pytest.raises(UserError, match="too few"):
        replace(task, held_out=6).train()
    with pytest.raises(UserError, match="9x9"):
        SudokuTask(puzzles=path, size=4, clues=6)


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Any:
    def serve(chosen: Any) -> None:
        monkeypatch.setattr(hub, "from_pretrained", lambda *arguments, **options: chosen)

    return serve


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_evaluation_on_a_file_declares_a_fair_row(
    use: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = rated_file(tmp_path / "test.csv", source=True)
    trained_on = replace(NINE, solutions=NINE.solutions % 9 + 1, puzzles=NINE.puzzles * 0)[:2]
    train = rated_file(tmp_path / "train.csv", trained_on)
    knows = oracle("sudoku-cpu-simplax", NINE)
    task = replace(knows.config.task, puzzles=str(train), held_out=0, limit=None)  # type: ignore[call-arg]
    knows = replace(knows, config=replace(knows.config, task=task))
    use(knows)
    arguments = ["evaluate", "any", "sudoku", "--puzzles", str(path), "--steps", "4"]
    data = printed(
        capsys, *arguments, "--chosen-on", "the training file", "--out", str(tmp_path / "row.json")
    )
    (row,) = data["results"]
    assert (row["clues"], row["num"], row["accuracy"]["value"]) == (None, 6, 1.0)
    assert [(r["from"], r["to"], r["num"]) for r in row["by_rating"]] == [(0, 0, 1), (7, 7, 1), (14, 35, 4)]
    declared, file = data["manifest"]["declared"], data["manifest"]["puzzles"]
    assert file["name"] == "test.csv" and len(file["sha256"]) == 64
    assert file["solutions_trained_on"] == 2  # renaming the digits does not make another board
    assert (
        file["solutions_up_to_symmetry"] == 2 and file["puzzles_up_to_symmetry"] == 0
    )  # blank ones in training
    assert overlap_of(knows, NINE[2:])["solutions_trained_on"] == 0
    assert declared["sampler_chosen_on"] == "the training file"
    assert (declared["verifier"], declared["answers_per_puzzle"], declared["parameters"]) == (None, 1, 1)
    assert str(train) in declared["training"]["puzzles"]
    assert file["why_not"] is None and "transposition" in file["symmetries"]
    run = knows.config.run
    assert declared["training"]["examples"] == run.steps * run.batch_size
    assert declared["training"]["forward_equivalents"] == 3 * run.steps * run.batch_size
    assert declared["training"]["steps_are"] == "planned" and declared["trainings"] == 1
    assert declared["seeds"] == {"training": run.seed, "data": task.seed, "evaluation": 0}  # type: ignore[attr-defined]
    assert main([*arguments, "--clues", "30"]) == 2
    assert "leave clue counts out" in capsys.readouterr().err


def test_examples_are_those_of_the_steps_that_were_made() -> None:
    """A chain of calls costs as many calls for each example, and a first call costs one without a gradient."""
    knows = oracle("sudoku-carry-simplax", NINE)
    made = replace(knows, origin={**knows.origin, "step": 7, "started_from": {"path": "first"}})
    training = declare(made, attempts=1, chosen_on=None, seed=5)["training"]
    calls = knows.config.method.rollout  # type: ignore[attr-defined]
    assert (training["steps"], training["steps_are"]) == (7, "made")
    assert training["examples"] == 7 * knows.config.run.batch_size
    assert calls > 1 and training["forward_equivalents"] == 3 * calls * training["examples"]
    assert training["started_from"] == {"path": "first"}
    method = replace(knows.config.method, rollout=1)  # type: ignore[type-var]
    single = replace(knows, config=replace(knows.config, method=method))
    training = declare(single, attempts=1, chosen_on=None)["training"]
    assert 3.7 < training["forward_equivalents"] / training["examples"] <= 4


def test_an_overlap_that_is_not_known_says_why(tmp_path: Path) -> None:
    knows = oracle("sudoku-cpu-simplax", NINE)
    task = replace(knows.config.task, puzzles=str(tmp_path / "gone.csv"))  # type: ignore[call-arg]
    found = overlap_of(replace(knows, config=replace(knows.config, task=task)), NINE)
    assert found["puzzles_up_to_symmetry"] is None and "not at hand" in found["why_not"]
    # puzzles that were made for a run are made again
    made = replace(knows.config.task, limit=3)  # type: ignore[call-arg]
    again = made.train().puzzles  # type: ignore[attr-defined]
    mine = replace(knows, config=replace(knows.config, task=made))
    assert overlap_of(mine, again + NINE)["puzzles_up_to_symmetry"] == 3


def test_ratings_divide_the_accuracy() -> None:
    rows = by_rating(np.array([True, False, True, True]), np.array([0, 5, 5, 5000]))
    assert [(r["from"], r["to"], r["num"], r["accuracy"]["value"]) for r in rows] == [
        (0, 0, 1, 1.0),
        (5, 5, 2, 0.5),
        (5000, 5000, 1, 1.0),
    ]


def test_the_network_alone_chooses_among_attempts(use: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Of two boards the one with the higher score wins, valid or not; one answer per puzzle is scored as ever."""
    untrained = model("sudoku4-simplax", lambda config: Arbitrary(config.task.vocab_size))
    one = score_of(untrained, FOUR[:8], 6, num_steps=3)
    several = score_of(untrained, FOUR[:8], 6, num_steps=3, attempts=4)
    assert several.accuracy == one.accuracy and several.best_of is not None
    assert (several.nfe, several.best_of.nfe, several.best_of.attempts) == (3, 12, 4)
    tries = [
        answer(untrained, FOUR.puzzles[:8], range(8 * n, 8 * n + 8), num_steps=3, score=True)
        for n in range(4)
    ]
    best = most_likely(tries)
    scores = np.stack([each.log_prob for each in tries])  # type: ignore[arg-type]
    for row in range(8):
        assert np.array_equal(best.boards[row], tries[int(scores[:, row].argmax())].boards[row])
    assert (scores < 0).all() and len(np.unique(scores)) > 8
    use(untrained)
    data = printed(
        capsys, "evaluate", "any", "sudoku", "--clues", "6", "--num", "4", "--steps", "2", "--attempts", "3"
    )
    assert data["results"][0]["best_of"]["nfe"] == 6 and data["results"][0]["nfe"] == 2
    assert (
        main(["evaluate", "any", "sudoku", "--clues", "6", "--num", "4", "--steps", "2", "--attempts", "3"])
        == 0
    )
    assert "best by own score" in capsys.readouterr().out


def test_boards_that_are_done_cost_no_more_calls(use: Any, capsys: pytest.CaptureFixture[str]) -> None:
    knows = oracle("sudoku4-simplax", FOUR)
    whole, early = (score_of(knows, FOUR[:6], 6, num_steps=10, stop=stop) for stop in (None, Settled(3)))
    assert (whole.nfe, early.nfe) == (10, 3) and early.accuracy == whole.accuracy
    use(knows)
    rows = printed(capsys, "solve", to_text(FOUR.puzzles[0]), "--steps", "10", "--stop-after", "4")
    assert rows[0]["nfe"] == 4 and rows[0]["valid"]
    with pytest.raises(ValueError, match="not both"):
        answer(knows, FOUR.puzzles[:1], [0], eta=1.0, sampler=knows.sampler())


def test_the_work_of_a_board_is_that_of_its_own_calls() -> None:
    calls, boards = np.array([2, 4, 6, 8]), FOUR.solutions[:4]
    whole = Answers(
        FOUR.puzzles[:4], boards, np.ones(4, bool), nfe=5.0, num_steps=9, block_passes=10.0, calls=calls
    )
    assert whole.work_of(8) == {"nfe": 8, "block_passes": 16.0, "multiply_adds": 0.0}
    assert [part.work()["block_passes"] for part in whole.parts(2)] == [6.0, 14.0]


def test_stops_out_of_range_are_refused(use: Any) -> None:
    use(oracle("sudoku4-simplax", FOUR))
    assert main(["solve", to_text(FOUR.puzzles[0]), "--stop-after", "1"]) == 2


def test_revision_in_evaluations_and_its_figure(
    use: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    use(oracle("sudoku4-simplax", FOUR))
    arguments = ["evaluate", "any", "sudoku", "--clues", "6", "--num", "6", "--steps", "5"]
    data = printed(capsys, *arguments, "--revision", "--out", "sudoku.json")
    found = data["results"][0]["revision"]
    assert found["solved"] == [1.0] * 5 and found["solved_then_lost"] == 0.0 and found["settle_step"] == 1.0
    assert len(found["multiple"]) == 5 and found["own_evidence"][0]["raw_kept"] == 1.0
    use(model("sudoku4-udlm"))
    printed(capsys, "evaluate", "any", "revision", "--num", "6", "--steps", "5", "--out", "any.json")
    drawn = printed(capsys, "figure", "revision", "sudoku.json", "any.json", "--out", "lines")
    assert len(drawn["lines"]) == 2 and Path("lines.png").stat().st_size > 5000
    Path("sudoku.json").write_text(json.dumps({"result": [{"revision": None}], "model": {"name": "x"}}))
    assert main(["figure", "revision", "sudoku.json"]) == 2
    assert "holds no revision" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["toy-udlm", "toy-mdlm", "toy-langflow"])
def test_revision_of_any_task(
    use: Any, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    use(model(name))
    arguments = [
        "evaluate",
        "any",
        "revision",
        "--num",
        "4",
        "--out",
        str(tmp_path / "r.json"),
        "--hide",
        "0.3",
    ]
    found = printed(capsys, *arguments, "--steps", "4")["result"]
    assert len(found["edits"]) in (3, 4) and found["right_to_wrong"] is not None
    assert bool(found["own_evidence"]) == (name == "toy-udlm")
