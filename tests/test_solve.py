"""`simplax solve` and its relatives: exit codes, JSON, pages, figures, exports, the demo."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simplax.cli import main
from simplax.cli.verbs.demo import PUZZLES
from simplax.data.sudoku import check, parse, to_text
from simplax.evaluate.answers import answer, noise_seeds
from simplax.pretrained import model as hub
from simplax.pretrained.model import Model
from simplax.viz.denoising import Episode, denoising_run
from simplax.viz.player import player_page
from simplax.viz.terminal import CLUE, CONFLICT, RIGHT, WRONG, board_text
from sudoku_models import FOUR, model, nine, oracle

NINE = nine(2)
TEXTS = [to_text(puzzle) for puzzle in NINE.puzzles]


def digits(board: np.ndarray) -> str:
    return "".join(map(str, board.tolist()))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make every name mean the model given."""

    def serve(chosen: Model) -> None:
        monkeypatch.setattr(hub, "from_pretrained", lambda *arguments, **options: chosen)
        monkeypatch.setattr(hub, "bundled", lambda: {"sudoku": Path("somewhere")})

    return serve


def printed(capsys: pytest.CaptureFixture[str], status: int, *arguments: str) -> Any:
    capsys.readouterr()
    assert main([*arguments, "--json"]) == status
    return json.loads(capsys.readouterr().out)


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    return line


def test_solutions_as_json(
    use: Any, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use(oracle("sudoku-cpu-simplax", NINE))
    rows = printed(capsys, 0, "solve", *TEXTS, "--steps", "3")
    work = {"nfe": 3, "block_passes": 0, "multiply_adds": 0}  # an oracle does not say how deep it is
    assert rows == [
        {"puzzle": digits(puzzle), "solution": digits(solution), "valid": True, "attempts": 1, **work}
        for puzzle, solution in zip(NINE.puzzles, NINE.solutions)
    ]
    (here / "puzzles.txt").write_text("# two\n" + "\n".join(TEXTS))
    assert printed(capsys, 0, "solve", "puzzles.txt", "--steps", "3") == rows
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(TEXTS)))
    assert printed(capsys, 0, "solve", "-", "--steps", "3") == rows
    (several,) = printed(capsys, 0, "solve", TEXTS[0], "--steps", "3", "--attempts", "4")
    assert (several["attempts"], several["nfe"], several["valid"]) == (4, 12, True)


def test_no_valid_solution_exits_1(use: Any, capsys: pytest.CaptureFixture[str]) -> None:
    use(model("sudoku-cpu-simplax"))
    rows = printed(capsys, 1, "solve", TEXTS[0], "--attempts", "2")
    assert [row["valid"] for row in rows] == [False]
    clues = NINE.puzzles[0]
    answer = np.array([int(digit) for digit in rows[0]["solution"]])
    assert np.array_equal(answer[clues > 0], clues[clues > 0])
    assert main(["solve", TEXTS[0], "--attempts", "2"]) == 1
    assert "not solved, 0 of 2 attempts valid" in capsys.readouterr().out


def test_seeds_and_attempts_are_independent_of_the_company(
    use: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    use(model("sudoku-cpu-simplax"))
    first = printed(capsys, 1, "solve", *TEXTS)
    assert printed(capsys, 1, "solve", *TEXTS, "--batch-size", "1") == first
    assert printed(capsys, 1, "solve", *TEXTS, "--seed", "5") != first


MISTAKES = {
    "too short": ([TEXTS[0][:80]], "80 cells"),
    "no file": (["puzzels.txt"], "neither a puzzle nor a file"),
    "strange digit": (["x" + TEXTS[0][1:]], "neither a puzzle"),
    "contradictory": (["11" + "." * 79], "contradictory"),
    "several solutions": (["1" + "." * 80], "more than one solution"),
    "blank": (["." * 81], "more than one solution"),
    "contradictory in spite of --any": (["11" + "." * 79, "--any"], "contradictory"),
    "mixed sizes": ([TEXTS[0], "1" + "." * 15], "either 9x9 or 4x4"),
    "nothing": ([], "give a puzzle"),
    "attempts": ([TEXTS[0], "--attempts", "0"], "--attempts"),
    "eta": ([TEXTS[0], "--eta", "much"], "not a concentration"),
    "seed": ([TEXTS[0], "--seed", "-1"], "seed"),
    "temperature": ([TEXTS[0], "--temperature", "0"], "temperature must be positive"),
    "steps": ([TEXTS[0], "--steps", "0"], "step"),
    "another size": ([to_text(FOUR.puzzles[0])], "9x9 boards"),
}


@pytest.mark.parametrize(("arguments", "message"), MISTAKES.values(), ids=MISTAKES)
def test_bad_puzzles_exit_2_with_one_sentence(
    arguments: list[str], message: str, use: Any, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    use(model("sudoku-cpu-simplax"))
    assert message in complaint(capsys, "solve", *arguments)


def test_blank_boards_may_be_asked_for(use: Any, capsys: pytest.CaptureFixture[str]) -> None:
    use(model("sudoku4-simplax"))
    (row,) = printed(capsys, 1, "solve", "." * 16, "--any")
    assert re.fullmatch(r"[1-4]{16}", row["solution"])


def test_a_missing_bundled_model_is_told(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "bundled", lambda: {})
    assert "no bundled Sudoku model" in complaint(capsys, "solve", TEXTS[0])
    assert "no model 'elsewhere'" in complaint(capsys, "solve", TEXTS[0], "--model", "elsewhere")


def test_the_page_is_self_contained_and_has_every_frame(
    use: Any, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    use(oracle("sudoku-cpu-simplax", NINE))
    assert main(["solve", *TEXTS, "--steps", "5", "--html", "pages/solve.html"]) == 0
    page = (here / "pages" / "solve.html").read_text()
    assert not re.search(r"https?:|//[a-z]|src=|href=|@import|url\(|fetch\(", page)
    ((run,),) = [json.loads(found) for found in re.findall(r'id="data">(.*?)</script>', page)]
    data = run["episodes"]
    assert [episode["puzzle"] for episode in data] == [digits(puzzle) for puzzle in NINE.puzzles]
    assert all(len(episode["frames"]) == 6 for episode in data)
    assert [episode["frames"][-1] for episode in data] == [digits(solution) for solution in NINE.solutions]


def test_captions_cannot_end_the_script() -> None:
    board = FOUR.puzzles[0]
    page = player_page("Boards", [denoising_run([Episode(board, board[None], None, "</script><b>")], "run")])
    assert page.count("</script>") == 2  # the data and the player


def test_colours_tell_clues_right_wrong_and_conflicts() -> None:
    puzzle, solution = FOUR.puzzles[0], FOUR.solutions[0]
    cell = int(np.flatnonzero(puzzle == 0)[0])
    board = solution.copy()
    assert _styles(puzzle, board, solution) == {CLUE: 6, RIGHT: 10}
    board[cell] = 0
    assert _styles(puzzle, board, solution) == {CLUE: 6, RIGHT: 9}
    board[cell] = solution[cell] % 4 + 1
    assert _styles(puzzle, board, solution)[CONFLICT] >= 1
    alone = np.zeros_like(board)
    alone[cell] = board[cell]
    assert _styles(np.zeros_like(puzzle), alone, solution) == {WRONG: 1}


def _styles(puzzle: np.ndarray, board: np.ndarray, solution: np.ndarray) -> dict[str, int]:
    """How many digits have which style."""
    text = board_text(puzzle, board, solution)
    found = [str(span.style) for span in text.spans if text.plain[span.start : span.end].isdigit()]
    return {style: found.count(style) for style in found}


def test_demo_puzzles_are_proper() -> None:
    for text in PUZZLES:
        assert np.count_nonzero(parse(text)) == 30
        check(parse(text))


def test_the_demo_in_miniature(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "bundled", lambda: {})
    data = printed(capsys, 0, "demo", "--smoke")
    assert data["bundled"] is None
    assert data["unseen_puzzles"]["num"] == 1000
    assert main(["demo", "--smoke"]) == 0
    shown = capsys.readouterr().out
    assert "solutions it never saw" in shown and "no bundled 9x9 model" in shown


def test_the_demo_shows_the_bundled_model_if_there_is_one(
    use: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from simplax.cli.verbs import demo
    from simplax.data.sudoku import PuzzleSet

    puzzles = np.stack([parse(text) for text in PUZZLES])
    solved = PuzzleSet(puzzles, np.stack([check(puzzle) for puzzle in puzzles]))
    monkeypatch.setattr(demo, "_train", lambda *arguments: {})
    use(oracle("sudoku-cpu-simplax", solved))
    assert [row["valid"] for row in printed(capsys, 0, "demo")["bundled"]] == [True] * len(PUZZLES)
    assert main(["demo"]) == 0
    assert f"{len(PUZZLES)} of {len(PUZZLES)} 9x9 puzzles solved" in capsys.readouterr().out


def test_the_model_in_the_package_is_small_and_solves() -> None:
    home = hub.bundled()["sudoku"]
    assert sum(file.stat().st_size for file in home.iterdir()) <= 8 * 2**20
    shipped = hub.from_pretrained("sudoku", device="cpu")
    assert shipped.config.sampling.num_steps == 89 and shipped.config.sampling.sampler is not None
    boards = np.stack([parse(text) for text in PUZZLES])
    answers = answer(shipped, boards, noise_seeds(0, range(len(boards))))
    # it solves 99.3 % of such puzzles, and these three with any noise that was tried
    assert np.array_equal(answers.boards, np.stack([check(board) for board in boards]))


def test_all_puzzles_of_the_demo_come_out_right(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from simplax.cli.verbs import demo

    monkeypatch.setattr(demo, "_train", lambda *arguments: {})
    data = printed(capsys, 0, "demo")
    assert [(row["puzzle"], row["valid"]) for row in data["bundled"]] == [(text, True) for text in PUZZLES]
    assert all(row["nfe"] == 89 for row in data["bundled"])


def test_a_directory_named_like_the_bundled_model_is_not_used(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "sudoku").mkdir()
    (here / "sudoku" / "notes.txt").write_text("mine")
    (row,) = printed(capsys, 1, "solve", PUZZLES[0], "--steps", "1", "--device", "cpu")
    assert row["nfe"] == 1 and not row["valid"]
    measured = printed(
        capsys, 0, "evaluate", "sudoku", "sudoku", "--clues", "40", "--num", "1", "--steps", "1"
    )
    assert measured["written"] is None and len(list((here / "sudoku").iterdir())) == 1
    assert "has no config.json" in complaint(capsys, "solve", PUZZLES[0], "--model", "./sudoku")
