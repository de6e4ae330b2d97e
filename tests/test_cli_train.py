"""`simplax train` and what is done with its result: files, precedence, resuming, JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from simplax import recipes
from simplax.cli import main

SMOKE = ["train", "toy-simplax", "--smoke"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    lines = [line for line in captured.err.splitlines() if not line.startswith("training ")]
    assert len(lines) == 1, lines
    return lines[0]


def test_train_sample_evaluate_plot(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained = answer(capsys, *SMOKE, "--run.steps", "6", "--method.concentration=0.1")
    assert (trained["directory"], trained["step"]) == ("runs/toy-simplax-smoke", 6)
    stored = json.loads((here / trained["directory"] / "config.json").read_text())
    assert (stored["run"]["steps"], stored["method"]["concentration"]) == (6, 0.1)

    drawn = answer(capsys, "sample", trained["directory"], "--num", "3", "--seed", "5", "--num-steps", "2")
    assert [row["seed"] for row in drawn["samples"]] == [5, 6, 7]
    assert drawn["manifest"]["sampler"]["eta"] == 0.1
    assert (drawn["manifest"]["num_steps"], drawn["manifest"]["nfe"]) == (2, 2)
    assert drawn["manifest"]["seeds"] == {"first": 5, "count": 3}
    assert set(drawn["manifest"]["versions"]) == {"simplax", "torch", "python"}
    again = answer(capsys, "sample", trained["directory"], "--num", "1", "--seed", "6", "--num-steps", "2")
    assert again["samples"][0] == drawn["samples"][1]
    raw = answer(capsys, "sample", trained["directory"], "--weights", "raw")
    assert raw["manifest"]["model"]["sha256"] != drawn["manifest"]["model"]["sha256"]

    measured = answer(capsys, "evaluate", trained["directory"], "likelihood", "--num", "16", "--draws", "2")
    assert measured["nats_per_token"] > measured["data_entropy"]
    assert measured["kind"] == "upper bound"
    assert json.loads(Path(measured["written"]).read_text()) == measured["manifest"]

    drawing = answer(capsys, "plot", trained["directory"])
    assert Path(drawing["image"]).read_bytes().startswith(b"\x89PNG")


def test_the_same_command_continues_a_longer_one_goes_on_and_another_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer(capsys, *SMOKE)
    assert answer(capsys, *SMOKE, "--resume")["step"] == 5
    assert (
        answer(capsys, *SMOKE, "--run.steps", "9", "--name", "longer", "--out", "runs/toy-simplax-smoke")[
            "step"
        ]
        == 9
    )
    assert "run.seed: 1 -> 2" in complaint(capsys, *SMOKE, "--run.seed", "2")
    assert "already holds a run" in complaint(capsys, *SMOKE, "--fresh")
    assert "contradict" in complaint(capsys, *SMOKE, "--fresh", "--resume")
    assert "no run to resume" in complaint(capsys, *SMOKE, "--resume", "--out", "elsewhere")


def test_a_printed_recipe_is_a_configuration_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = answer(capsys, "recipes", "toy-udlm", "--smoke")
    data["run"]["steps"] = 3
    Path("mine.json").write_text(json.dumps(data))
    trained = answer(
        capsys, "train", "toy-simplax", "--config", "mine.json", "--name", "mine", "--out", "there"
    )
    assert (trained["name"], trained["step"]) == ("mine", 3)
    assert json.loads(Path("there/config.json").read_text())["method"]["kind"] == "udlm"


def test_starting_from_another_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer(capsys, "train", "toy-udlm", "--smoke", "--out", "udlm")
    assert answer(capsys, *SMOKE, "--init-from", "udlm", "--out", "second")["step"] == 5
    wrong = complaint(capsys, *SMOKE, "--init-from", "udlm", "--task.categories", "7", "--out", "third")
    assert "5 categories" in wrong and "has 7" in wrong
    assert "no model 'nothing'" in complaint(capsys, *SMOKE, "--init-from", "nothing", "--out", "fourth")


def test_sudoku_prompts_are_held(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer(capsys, "train", "sudoku4-udlm", "--smoke", "--out", "four")
    from simplax.data.sudoku import puzzles_4x4

    drawn = answer(capsys, "sample", "four", "--given", "--num", "4")
    for row, puzzle in zip(drawn["samples"], puzzles_4x4(6)[1].puzzles):
        assert all(clue in (0, int(cell)) for clue, cell in zip(puzzle, row["text"]))


def test_places_that_cannot_be_written(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("file").write_text("")
    assert "choose another directory" in complaint(capsys, *SMOKE, "--out", "file/run")
    answer(capsys, *SMOKE, "--out", "run")
    error = complaint(capsys, "evaluate", "run", "likelihood", "--num", "4", "--out", "file/manifest.json")
    assert "file" in error
    assert "file" in complaint(capsys, "plot", "run", "--out", "file/curves.png")
    assert "name it .png" in complaint(capsys, "plot", "run", "--out", "curves.xyz")


def test_damaged_checkpoints_are_told(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer(capsys, *SMOKE, "--out", "run")
    file = next(Path("run/checkpoints").glob("*/ema.safetensors"))
    file.write_bytes(file.read_bytes()[:100])
    for command in (["sample", "run"], ["evaluate", "run", "likelihood"], [*SMOKE, "--out", "run"]):
        assert "truncated" in complaint(capsys, *command)


@pytest.mark.slow
def test_interrupting_saves_and_exits_130(here: Path) -> None:
    import signal

    command = [sys.executable, "-m", "simplax", *SMOKE, "--run.steps", "1000000", "--out", "run"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while not Path("run/latest").exists():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors


def test_a_run_of_an_older_version_continues_when_new_options_keep_their_defaults(tmp_path: Path) -> None:
    """Options that did not exist when the run began are at their defaults in it."""
    arguments = ["train", "toy-udlm", "--smoke", "--out", str(tmp_path / "run")]
    assert main(arguments) == 0
    path = tmp_path / "run" / "config.json"
    stored = json.loads(path.read_text())
    del stored["architecture"]["attention_cap"]
    path.write_text(json.dumps(stored))
    assert main(arguments) == 0
    stored["architecture"]["depth"] += 1
    path.write_text(json.dumps(stored))
    assert main(arguments) == 2


def test_a_second_phase_says_what_it_follows(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    phases = [recipes.get(name).run.steps for name in ("text-mini-udlm-720", "text-mini-simplax")]
    assert phases == [720, 180] and sum(phases) == recipes.get("text-mini-udlm").run.steps
    synthetic = ["--smoke", "--task.corpus", "synthetic"]
    assert main(["train", "text-mini-udlm-720", *synthetic, "--out", "first"]) == 0
    assert "meant to follow" not in capsys.readouterr().err
    assert main(["train", "text-mini-simplax", *synthetic, "--out", "second", "--init-from", "first"]) == 0
    assert "meant to follow" not in capsys.readouterr().err
    assert main(["train", "text-mini-simplax", *synthetic, "--out", "alone"]) == 0
    assert "without --init-from runs/text-mini-udlm-720" in capsys.readouterr().err.replace("\n", " ")


def test_every_recipe_that_follows_another_can_find_it() -> None:
    followed = {one.follows for one in recipes.RECIPES.values() if one.follows is not None}
    assert followed and followed <= set(recipes.RECIPES)


def test_phases_are_drawn_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    from simplax.viz import figures

    for name, loss in (("first", 2.0), ("second", 1.0)):
        (tmp_path / name).mkdir()
        rows = [{"step": step, "loss": loss / step} for step in (5, 10)]
        (tmp_path / name / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    drawn: list[Any] = []
    monkeypatch.setattr(figures, "save", lambda figure, paths: drawn.append(figure))
    runs = [str(tmp_path / name) for name in ("first", "second")]
    assert main(["plot", *runs, "--log", "--joined"]) == main(["plot", *runs]) == 0
    assert len(drawn) == 2
    for figure, scale, steps in zip(drawn, ("log", "linear"), ([15, 20], [5, 10])):
        (axes,) = figure.axes
        assert axes.get_yscale() == scale and list(axes.lines[1].get_xdata()) == steps
