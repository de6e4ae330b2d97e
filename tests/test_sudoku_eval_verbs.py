"""The verbs around Sudoku models: evaluate, sweep, figure and export, with their files."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.image import imread
from safetensors.torch import load_file

from simplax.cli import main
from simplax.concentration import Vanishing
from simplax.config.run import SamplingDefaults, Unconditional, from_json, to_json
from simplax.data.sudoku import to_text
from simplax.evaluate import sudoku
from simplax.evaluate.answers import answer, sudoku_task
from simplax.pretrained import model as hub
from simplax.pretrained.model import Model, from_pretrained
from sudoku_models import FOUR, model, nine, oracle

NINE = nine(2)
TEXTS = [to_text(puzzle) for puzzle in NINE.puzzles]


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


def test_evaluation_prints_and_keeps_a_manifest(
    use: Any, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    use(model("sudoku4-simplax"))
    arguments = ["evaluate", "any", "sudoku", "--num", "8", "--clues", "6", "0", "--eta", "vanish:5:2"]
    data = printed(capsys, 0, *arguments, "--out", "results/four.json")
    assert json.loads(Path(data["written"]).read_text()) == data["manifest"]
    assert data["manifest"]["result"] == data["results"]
    assert data["manifest"]["sampler"]["eta"] == {
        "kind": "vanishing",
        "value": 5.0,
        "power": 2.0,
        "until": 0.0,
        "least": 0.0,
    }
    six, blank = data["results"]
    assert data["manifest"]["complete"]
    assert set(six["accuracy"]) == {"value", "low", "high"}
    assert (six["num"], six["nfe"], six["clue_counts"]) == (8, 4, {"6": 8})
    assert (blank["clues"], blank["accuracy"], blank["clue_counts"]) == (0, None, {"0": 8})
    assert printed(capsys, 0, *arguments, "--batch-size", "3")["results"][0]["accuracy"] == six["accuracy"]
    assert main(arguments) == 0
    assert "solved %" in capsys.readouterr().out
    assert "4 to 15 clues" in complaint(capsys, "evaluate", "any", "sudoku", "--clues", "3")


def test_an_interrupted_evaluation_keeps_the_counts_it_measured(
    use: Any, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(model("sudoku4-simplax"))
    whole = sudoku.evaluate

    def stopped(loaded: Model, puzzles: Any, clues: int, **options: Any) -> Any:
        if clues == 0:
            raise KeyboardInterrupt
        return whole(loaded, puzzles, clues, **options)

    monkeypatch.setattr(sudoku, "evaluate", stopped)
    assert main(["evaluate", "any", "sudoku", "--num", "4", "--clues", "6", "0", "--out", "kept.json"]) != 0
    kept = json.loads(Path("kept.json").read_text())
    assert [one["clues"] for one in kept["result"]] == [6] and not kept["complete"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["evaluate", "any", "sudoku", "--clues", "6", "--out", "taken"],
        ["sweep", "any", "--clues", "6", "--out", "file/below"],
        ["solve", "1234............", "--any", "--html", "taken"],
    ],
)
def test_a_place_that_cannot_be_written_is_told_before_the_work(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    (here / "taken").mkdir()
    (here / "file").touch()
    monkeypatch.setattr(hub, "from_pretrained", lambda *_, **__: pytest.fail("the work began"))
    assert re.search("taken is a directory|below.json cannot be written", complaint(capsys, *arguments))


def test_evaluation_refuses_other_models(use: Any, capsys: pytest.CaptureFixture[str]) -> None:
    use(model("toy-simplax"))
    assert "not trained on Sudoku" in complaint(capsys, "evaluate", "any", "sudoku")
    use(model("sudoku4-udlm"))
    assert "no concentration" in complaint(capsys, "evaluate", "any", "sudoku", "--eta", "1")
    use(model("sudoku-cpu-udlm"))
    assert "--puzzles FILE" in complaint(capsys, "evaluate", "any", "sudoku", "--clues", "17")


def test_sweeps_write_points_and_figures(use: Any, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    use(model("sudoku4-simplax"))
    arguments = ["sweep", "any", "--clues", "6", "0", "--steps", "2", "4", "--num", "6", "--out", "out/eta"]
    data = printed(capsys, 0, *arguments, "--eta", "0.01", "1")
    assert [(p["clues"], p["num_steps"], p["eta"]) for p in data["points"]] == [
        (clues, steps, eta) for clues in (6, 0) for steps in (2, 4) for eta in ("0.01", "1")
    ]
    assert json.loads((here / "out" / "eta.json").read_text())["result"] == data["points"]
    assert (here / "out" / "eta.png").read_bytes().startswith(b"\x89PNG")
    assert (here / "out" / "eta.svg").stat().st_size > 1000
    rows = printed(capsys, 0, "compare", "out/eta.json", "out/eta.json")["sampler sweep"]
    assert [row["values"] for row in rows[:8]] == [
        {f"{p['measure']}, {p['clues']} clues": [p["value"], p["low"], p["high"]]} for p in data["points"]
    ]
    assert rows[1]["row"].endswith("η 1, 2 steps") and rows[1]["differs"] == {}
    assert printed(capsys, 0, *arguments, "--eta", "0", "pertoken:2")["points"][1]["eta"] == "pertoken:2"
    assert "not a concentration" in complaint(capsys, *arguments, "--eta", "lots")


def test_sweeps_compare_redraws_and_go_on_where_they_stopped(
    use: Any, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use(model("sudoku4-simplax"))
    arguments = [
        "sweep",
        "any",
        "--clues",
        "6",
        "--steps",
        "3",
        "--num",
        "4",
        "--out",
        "redraw",
        "--share",
        "1",
        "0.5",
    ]
    names = ("simplax", "posterior", "coloured")
    whole = printed(
        capsys, 0, *arguments, "--redraw", *names, "--temperature", "0.5", "1", "--time-power", "1", "2"
    )
    assert len(whole["points"]) == 3 * 2 * 2 * 2
    coloured = whole["points"][-1]["sampler"]
    assert (coloured["redraw"], coloured["positions"]) == ("prediction", {"kind": "sudoku"})
    assert (coloured["kappa"], coloured["times"]["power"]) == ({"kind": "fixed", "kappa": 0.5}, 2.0)
    asked: list[int] = []
    real = sudoku.evaluate
    monkeypatch.setattr(sudoku, "evaluate", lambda *a, **o: asked.append(1) or real(*a, **o))  # type: ignore[func-returns-value]
    again = printed(capsys, 0, *arguments, "--redraw", "posterior", "prediction", "--temperature", "0.5")
    assert (
        len(again["points"]) == 4 and len(asked) == 4
    )  # the time power was left to the sampler's own before
    again = printed(
        capsys, 0, *arguments, "--redraw", "posterior", "--temperature", "0.5", "--time-power", "2"
    )
    assert again["points"] == [p for p in whole["points"] if p in again["points"]] and len(asked) == 4
    assert len(json.loads(Path("redraw.json").read_text())["result"]) == 24 + 4
    assert "another seed" in complaint(capsys, *arguments, "--redraw", "posterior", "--seed", "1")
    assert "there is no redraw" in complaint(capsys, *arguments, "--redraw", "other")
    assert "not both" in complaint(capsys, *arguments, "--redraw", "posterior", "--eta", "1")
    assert "--share needs a --redraw" in complaint(capsys, *arguments)
    Path("redraw.json").write_text("{")
    assert "not a sweep" in complaint(capsys, *arguments, "--redraw", "posterior")


def test_the_figure_of_one_puzzle_and_several_methods(
    use: Any, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    use(oracle("sudoku-cpu-simplax", NINE))
    data = printed(capsys, 0, "figure", "sudoku", "a", "b", "--puzzle", TEXTS[0], "--out", "figures/one")
    assert list(data["wrong_cells"].values()) == [0, 0]
    assert len(data["wrong_cells"]) == 2
    assert (here / "figures" / "one.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (here / "figures" / "one.svg").read_text()
    assert (imread(here / "figures" / "one.png")[:4] == 1).all()  # no title is cut at the upper edge
    assert printed(capsys, 0, "figure", "sudoku", "a", "--puzzle", TEXTS[0], "--out", "b.pdf")["files"] == [
        "b.pdf"
    ]
    assert "one name per model" in complaint(capsys, "figure", "sudoku", "a", "--names", "x", "y")
    assert "name it .png" in complaint(
        capsys, "figure", "sudoku", "a", "--puzzle", TEXTS[0], "--out", "b.xyz"
    )


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_exports_keep_sampler_settings_and_may_be_half_as_large(
    dtype: str, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = model("sudoku4-simplax")
    whole.save_pretrained("whole")
    options = ["--eta", "vanish:10:2", "--steps", "7", "--temperature", "0.5", "--dtype", dtype]
    data = printed(capsys, 0, "export", "whole", "models/sudoku", *options)
    monkeypatch.setattr(hub, "files", lambda package: here)
    assert list(hub.bundled()) == ["sudoku"]
    loaded = from_pretrained("sudoku")
    sampling = loaded.config.sampling
    assert (sampling.num_steps, sampling.temperature) == (7, 0.5)
    assert loaded.sampler() == whole.sampler(Vanishing(10.0, 2.0))
    assert loaded.sample(1, seeds=0).nfe == 7
    stored = load_file(here / "models" / "sudoku" / "weights.safetensors")
    assert data["bytes"] == (here / "models" / "sudoku" / "weights.safetensors").stat().st_size
    for name, tensor in whole.denoiser.named_parameters():
        assert stored[name].dtype == getattr(torch, dtype)
        assert torch.equal(loaded.denoiser.state_dict()[name], tensor.to(getattr(torch, dtype)).float())
    assert "not empty" in complaint(capsys, "export", "whole", "models/sudoku")
    rows = printed(capsys, 1, "solve", to_text(FOUR.puzzles[0]))
    assert (rows[0]["valid"], rows[0]["nfe"]) == (False, 7)


def test_blank_boards_may_have_settings_of_their_own(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model("sudoku4-simplax").save_pretrained("whole")
    printed(capsys, 0, "export", "whole", "half", "--eta", "50", "--steps", "5", "--temperature", "0.8")
    options = ["--eta", "1", "--time-power", "1.5", "--temperature", "0.4"]
    printed(capsys, 0, "export", "half", "full", "--unconditional", *options)
    full = from_pretrained("full")
    filling, free = full.sampler(), full.sampler(conditional=False)
    assert (filling.eta, filling.times.power) == (50.0, 1.0)  # type: ignore[attr-defined]
    assert (free.eta, free.times.power) == (1.0, 1.5)  # type: ignore[attr-defined]
    assert [full.defaults(conditional=one).temperature for one in (True, False)] == [0.8, 0.4]
    assert full.defaults(conditional=False).num_steps == 5

    blank, puzzle = np.zeros((1, 16), dtype=np.int8), FOUR.puzzles[:1]
    both = answer(full, np.concatenate([blank, puzzle]), [3, 4])
    alone = full.sample(1, seeds=[3], temperature=0.4, sampler=free).tokens
    held = sudoku_task(full).board_layout.encode(torch.from_numpy(puzzle))
    clued = full.sample(
        1, seeds=[4], temperature=0.8, sampler=filling, tokens=held.tokens, given=held.given
    ).tokens
    decode = sudoku_task(full).board_layout.decode
    np.testing.assert_array_equal(both.boards, decode(torch.cat([alone, clued])).numpy())
    assert torch.equal(full.sample(1, seeds=[3]).tokens, alone)

    data = printed(
        capsys, 0, "evaluate", "full", "sudoku", "--clues", "6", "0", "--num", "3", "--out", "r.json"
    )
    settings = [(row["sampler"]["eta"], row["temperature"]) for row in data["results"]]
    assert settings == [(50.0, 0.8), (1.0, 0.4)]
    points = printed(
        capsys, 0, "sweep", "full", "--clues", "6", "0", "--eta", "2", "--steps", "3", "--num", "2"
    )["points"]
    assert [(p["sampler"]["times"]["power"], p["temperature"]) for p in points] == [(1.0, 0.8), (1.5, 0.4)]
    assert "time power must be positive" in complaint(
        capsys, "evaluate", "full", "sudoku", "--num", "3", "--time-power", "0"
    )
    assert "leave it out with --unconditional" in complaint(
        capsys, "export", "half", "more", "--unconditional", "--steps", "3"
    )


def test_what_is_not_said_for_blank_boards_is_what_holds_otherwise() -> None:
    filling = SamplingDefaults(3, 0.7, sampler=model("sudoku4-simplax").sampler(7.0))
    whole = model("sudoku4-simplax")
    for said, expected in (
        (Unconditional(temperature=0.4), (0.4, 7.0)),
        (Unconditional(sampler=whole.sampler(2.0)), (0.7, 2.0)),
        (None, (0.7, 7.0)),
    ):
        config = from_json(to_json(replace(whole.config, sampling=filling, unconditional=said)))
        changed = replace(whole, config=config)
        free = changed.defaults(conditional=False)
        assert (free.temperature, changed.sampler(conditional=False).eta) == expected  # type: ignore[attr-defined]
        assert changed.defaults() == filling


@pytest.mark.usefixtures("compiler")
def test_a_compiled_network_gives_the_same_answers(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model("sudoku4-simplax").save_pretrained("whole")
    arguments = ["evaluate", "whole", "sudoku", "--num", "5", "--steps", "3", "--clues", "6", "--out"]
    plain = printed(capsys, 0, *arguments, "a.json")
    compiled = printed(capsys, 0, *arguments, "b.json", "--compile")
    assert [plain["manifest"]["compiled"], compiled["manifest"]["compiled"]] == [False, True]
    assert compiled["results"][0]["cell_accuracy"] == plain["results"][0]["cell_accuracy"] > 0
