"""Results stand side by side, and settings that differ are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from simplax.cli import main
from simplax.errors import UserError
from simplax.evaluate.frontier.matches import matches
from simplax.evaluate.results import read
from text_study import data, point


def record(evaluation: str, result: Any, **more: Any) -> dict[str, Any]:
    return {
        "format": "simplax-manifest-1",
        "time": "2026-01-01T00:00:00+00:00",
        "command": "simplax evaluate",
        "versions": {"simplax": "0.1.0", "torch": "2.13.0", "python": "3.11.1"},
        "threads": 2,
        "model": {"name": "text-mini-udlm", "path": "runs/a", "weights": "ema", "sha256": "ab"},
        "device": "cpu",
        "seeds": [0],
        "evaluation": evaluation,
        "result": result,
        **more,
    }


def likelihood(nats: float, **more: Any) -> dict[str, Any]:
    result = {
        "nats_per_token": nats, "perplexity": 9.0, "standard_error": 0.01, "kind": "upper bound", "sequences": 64,
        "draws": 8,
    }  # fmt: skip
    return record("likelihood", result, **more)


def sudoku(solved: float, num: int = 100, **more: Any) -> dict[str, Any]:
    share = {"value": solved, "low": solved - 0.01, "high": solved + 0.01}
    score = {"clues": 30, "num": num, "accuracy": share, "validity": share, "sha256": "cd" * 32}
    blank = {**score, "clues": 0, "accuracy": None}
    return record("sudoku", [score, blank], **more)


def frontier(**more: Any) -> dict[str, Any]:
    rows = [
        data(4.4, 10.0),
        *(point(t, h, p) for t, h, p in ((0.9, 4.0, 20.0), (1.0, 4.4, 40.0), (1.1, 4.8, 80.0))),
    ]
    control = {**point(1.0, 4.4, 6.0, row="periodic-k*", flags=["rep_2"]), "kind": "control"}
    result = {"data": rows[0], "controls": [control], "points": rows[1:], "matches": matches(rows)}
    made = record("frontier", result, protocol={"name": "mini", "num": 4}, **more)
    del made["model"]
    return {**made, "models": [{"row": "m", "weights": "ema"}]}


def store(path: Path, value: Any) -> str:
    path.write_text(json.dumps(value))
    return str(path)


def compared(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert main(["compare", *words]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_equal_settings_of_different_models_are_not_marked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = likelihood(2.5, time="later", threads=8, command="x", seconds=9)
    other["model"] = {"name": "text-mini-mdlm", "path": "runs/b", "weights": "ema", "sha256": "ef"}
    other["versions"] = {**other["versions"], "python": "3.12.0"}
    files = [store(tmp_path / "a.json", likelihood(2.0)), store(tmp_path / "b.json", other)]
    text = compared(capsys, *files)
    assert "text-mini-mdlm" in text and "The settings are the same." in text and "*" not in text
    rows = json.loads(compared(capsys, *files, "--json"))["likelihood"]
    assert [row["values"]["nats per token"] for row in rows] == [2.0, 2.5]
    assert [row["differs"] for row in rows] == [{}, {}]


def test_every_setting_that_differs_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = likelihood(2.5, seeds=[1], device="cuda")
    other["result"]["draws"] = 16
    other["model"] = {**other["model"], "weights": "raw"}
    files = [store(tmp_path / "a.json", likelihood(2.0)), store(tmp_path / "b.json", other)]
    rows = json.loads(compared(capsys, *files, "--json"))["likelihood"]
    assert rows[0]["differs"] == {}
    assert rows[1]["differs"] == {
        "device": {"first": "cpu", "here": "cuda"},
        "seeds": {"first": [0], "here": [1]},
        "draws": {"first": 8, "here": 16},
        "weights": {"first": "ema", "here": "raw"},
    }
    text = compared(capsys, *files)
    assert "draws 16, not 8" in text and "weights raw, not ema" in text


def test_samplers_compare_within_their_kind(tmp_path: Path) -> None:
    first = read(store(tmp_path / "a.json", sudoku(0.9, sampler={"kind": "simplax", "eta": 1.0})))
    same = read(store(tmp_path / "b.json", sudoku(0.9, sampler={"kind": "simplax", "eta": 3.0})))
    method = read(store(tmp_path / "c.json", sudoku(0.9, sampler={"kind": "ancestral"})))
    assert same.differences(first) == {"sampler:simplax.eta": (1.0, 3.0)}
    assert method.differences(first) == {}


def test_sudoku_rows_have_a_column_per_clue_count(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [store(tmp_path / "a.json", sudoku(0.9)), store(tmp_path / "b.json", sudoku(0.8, num=50))]
    text = compared(capsys, *files)
    assert "solved, 30 clues" in text and "90.00 (89.00 to 91.00)" in text and "valid, no clues" in text
    assert "boards with 30 clues" in text


def test_frontiers_show_matches_and_controls(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "study").mkdir()
    store(tmp_path / "study" / "frontier.json", frontier())
    other = store(tmp_path / "b.json", frontier(measured_with={"scorer": {"name": "other"}}))
    rows = json.loads(compared(capsys, str(tmp_path / "study"), other, "--json"))["frontier"]
    assert [row["row"] for row in rows] == ["m, 8 steps", "periodic-k*"] * 2
    assert rows[0]["values"]["PPL at the data's entropy"][0] == pytest.approx(40)
    assert rows[1]["values"]["caught by"] == "rep_2"
    assert list(rows[2]["differs"]) == ["measured_with.scorer.name"]


def test_kinds_have_tables_of_their_own_and_printed_json_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = store(tmp_path / "a.json", {"results": [], "manifest": sudoku(0.9)})
    found = json.loads(compared(capsys, printed, store(tmp_path / "b.json", likelihood(2.0)), "--json"))
    assert set(found) == {"sudoku", "likelihood"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "not a result"),
        ('{"evaluation": "guess", "result": 1}', "not a result"),
        ('{"evaluation": "sudoku", "result": [{}]}', "lacks"),
    ],
)
def test_what_is_no_result_is_refused(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(UserError, match=message):
        read(tmp_path / "a.json")
    with pytest.raises(UserError, match="cannot be read"):
        read(tmp_path / "absent.json")


def test_settings_of_blank_boards_are_compared_column_by_column(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def told(blank_eta: float, compiled: bool) -> dict[str, Any]:
        made = sudoku(0.5, sampler={"kind": "simplax", "eta": 9.0}, temperature=1.0, compiled=compiled)
        for score, eta in zip(made["result"], (100.0, blank_eta)):
            score |= {"sampler": {"kind": "simplax", "eta": eta}, "temperature": 1.0}
        return made

    first = store(tmp_path / "a.json", told(1.0, compiled=False))
    same = store(tmp_path / "b.json", told(1.0, compiled=True))
    other = store(tmp_path / "c.json", told(2.0, compiled=False))
    assert "The settings are the same." in compared(capsys, first, same)
    rows = json.loads(compared(capsys, first, other, "--json"))["sudoku"]
    assert rows[1]["differs"] == {"sampler:simplax, 0 clues.eta": {"first": 1.0, "here": 2.0}}


def test_sweeps_over_different_concentrations_compare(tmp_path: Path) -> None:
    def swept(eta: str) -> dict[str, Any]:
        point = {
            "clues": 30, "eta": eta, "num_steps": 8, "measure": "solved", "value": 0.5, "low": 0.4, "high": 0.6,
            "num": 64, "sampler": {"kind": "simplax", "eta": float(eta)}, "temperature": 1.0,
        }  # fmt: skip
        return record("eta sweep", [point])

    for name, eta in (("a", "1"), ("b", "10")):
        (tmp_path / f"{name}.json").write_text(json.dumps(swept(eta)))
    first, second = read(tmp_path / "a.json"), read(tmp_path / "b.json")
    assert second.differences(first) == {}
