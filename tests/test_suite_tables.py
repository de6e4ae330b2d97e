"""Tables of suites in every format, and results that are repeated."""

from __future__ import annotations

import json
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from simplax.cli import main
from simplax.cli.verbs.rerun import _without_places
from simplax.evaluate.intervals import wilson
from simplax.evaluate.repeats import compare
from simplax.suites.benchmark import Column
from simplax.suites.catalogue import declare
from simplax.suites.declared import Options
from simplax.suites.formats import html, latex, markdown, page_run
from simplax.suites.store import Store, identity
from simplax.suites.table import Cell, Line, Table, table
from simplax.suites.terminal import terminal

OPTIONS = Options(budget_steps=2, num=20, precision="float32", seeds=(0, 1))


def stored_row(out: Path, row: str, seed: int, correct: int, blank: int, num: int = 20) -> None:
    """A result as a suite writes it."""
    suite = declare("toy", OPTIONS)
    entry = next(one for one in suite.entries if one.name == row)
    points = {}
    for key, number in (("6", correct), ("0", blank)):
        values = {key: [number / num, *wilson(number, num)]}
        points[key] = {"values": values, "num": num, "nfe": 16.0, "facts": {"correct": number}}
    record = {"identity": identity(suite, entry, seed), "points": points}
    path = Store.at(out).result(entry, seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    out = tmp_path / "toy"
    for row, seed, correct, blank in (("mdlm", 0, 10, 1), ("mdlm", 1, 14, 3), ("simplax", 0, 18, 0)):
        stored_row(out, row, seed, correct, blank)
    said = {"budget_steps": 2, "num": 20, "precision": "float32", "seeds": [0, 1]}
    (out / "suite.json").write_text(json.dumps({"suite": "toy", "options": said}))
    return out


def test_seeds_are_pooled_and_their_spread_is_shown(directory: Path) -> None:
    lines = {line.name: line for line in table(declare("toy", OPTIONS), Store.at(directory)).lines}
    cell = lines["mdlm"].cells["6"]
    low, high = wilson(24, 40)
    assert cell.value == pytest.approx(60) and cell.num == 40
    assert (cell.low, cell.high) == (pytest.approx(100 * low), pytest.approx(100 * high))
    assert cell.spread == (pytest.approx(50), pytest.approx(70))
    assert lines["simplax"].cells["6"].spread == ()
    assert [lines[name].cells["6"].rank for name in ("simplax", "mdlm")] == [1, 2]
    assert [lines[name].cells["0"].rank for name in ("simplax", "mdlm")] == [2, 1]


COLUMNS = (Column("a", "A_1"), Column("ppl", "PPL", best="low", scale=1.0))
TABLE = Table(
    "50 % & more",
    COLUMNS,
    (
        Line("x", "X<y>", "model", {"a": Cell(91.25, 88.0, 93.5, rank=1), "ppl": Cell(30.0, rank=2)}, "a"),
        Line("x", "published", "published", {"a": Cell(95.0)}),
        Line("z", "Z", "model", {"a": Cell(50.0, 40.0, 60.0, spread=(45.0, 55.0), rank=2)}),
        Line("w", "W", "model", {}, state="failed: out of | memory"),
    ),
    ("a: another layout.",),
    ("All alike.",),
)


def test_markdown_has_a_cell_for_every_column() -> None:
    lines = [line for line in markdown(TABLE).splitlines() if line.startswith("|")]
    assert len(lines) == 6
    assert {line.replace("\\|", "").count("|") for line in lines} == {4}
    assert "**91.2** [88.0, 93.5]" in lines[2] and "<u>30.0</u>" in lines[2] and "<sup>a</sup>" in lines[2]
    assert "<u>50.0</u> [40.0, 60.0] {45.0, 55.0}" in lines[4]


NAMES = ("valid %", "unique %", "FCD", "novel and unlike any other %")
MANY = Table(
    "quality by number of calls made",
    tuple(Column(f"{calls} {name}", name, heading=f"{calls} calls") for calls in (8, 16) for name in NAMES),
    (
        Line(
            "x",
            "first",
            "model",
            {f"{calls} {name}": Cell(calls + len(name), 1.0, 99.5) for calls in (8, 16) for name in NAMES},
            "a,b",
        ),
        Line(
            "y",
            "second of the methods, truncated",
            "model",
            {f"{calls} {name}": Cell(calls + 30.0, 1.0, 99.5) for calls in (8, 16) for name in NAMES},
        ),
        Line("w", "third", "model", {}, state="failed: out of memory"),
    ),
    ("a: a footnote.",),
)


def printed(found: Table, width: int) -> list[str]:
    console = Console(width=width, highlight=False)
    with console.capture() as captured:
        console.print(terminal(found), markup=False)
    return [line.rstrip() for line in captured.get().splitlines()]


@pytest.mark.parametrize("width", [46, 60, 80, 100, 400])
def test_a_terminal_of_any_width_shows_every_number_whole(width: int) -> None:
    lines = printed(MANY, width)
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    for line in MANY.lines:
        for cell in line.cells.values():
            assert f"{cell.value:.1f}" in words
    assert sum(line.count("[1.0, 99.5]") for line in lines) == 16  # intervals are never broken
    tables = [number for number, line in enumerate(lines) if line.endswith(" calls")]
    for start, end in zip(tables, [*tables[1:], len(lines)]):
        assert any(line.startswith("first (a,b)") for line in lines[start:end])
    assert {lines[number] for number in tables} == {"8 calls", "16 calls"}
    assert len(tables) == 2 if width >= 80 else len(tables) > 2
    assert sum("failed" in line.split() for line in lines) == 1 and "third: failed: out of memory." in lines


def test_headings_divide_every_format() -> None:
    text = markdown(MANY)
    rows = [line for line in text.splitlines() if line.startswith("| first")]
    assert len(rows) == 2 and {row.count("|") for row in rows} == {6}
    assert text.index("*8 calls*") < text.index(rows[0]) < text.index("*16 calls*") < text.index(rows[1])
    found = Cells()
    found.feed(html(MANY))
    assert (
        not found.open and found.count["table"] == 2 and "8 calls" in found.text and MANY.title in found.text
    )
    assert latex(MANY).count(r"\begin{tabular}{lcccc}") == 2
    assert len({column["title"] for column in page_run(MANY)["columns"]}) == 8


class Cells(HTMLParser):
    """Opened and closed tags, and the text between them."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.count: dict[str, int] = {}
        self.text = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.count[tag] = self.count.get(tag, 0) + 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_is_closed_and_escaped() -> None:
    found = Cells()
    found.feed(html(TABLE))
    assert not found.open and found.count["tr"] == 5 and found.count["td"] == 8
    assert "X<y>" in found.text and found.count["strong"] == 1 and found.count["u"] == 2


def test_latex_escapes_and_closes() -> None:
    text = latex(TABLE)
    assert r"50 \% \& more" in text and r"A\_1" in text and r"\textbf{91.2}" in text
    assert text.count(r"\begin{") == text.count(r"\end{") == 2
    rows = [line for line in text.splitlines() if line.endswith(r" \\")]
    assert len(rows) == 5 and {line.replace(r"\&", "").count("&") for line in rows} == {2}


@pytest.mark.parametrize("form", ["terminal", "markdown", "html", "latex"])
def test_show_prints_every_format(directory: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["suite", "show", "toy", "--out", str(directory), "--format", form]) == 0
    text = capsys.readouterr().out
    assert "MDLM" in text and "60.0" in text and "90.0" in text


def test_show_as_json(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["suite", "show", "toy", "--out", str(directory), "--json"]) == 0
    lines = {line["name"]: line for line in json.loads(capsys.readouterr().out)["lines"]}
    assert lines["simplax"]["cells"]["6"]["value"] == pytest.approx(90)


def test_published_numbers_stand_beside_ours(tmp_path: Path) -> None:
    lines = table(declare("sudoku", Options()), Store.at(tmp_path)).lines
    published = {line.name: line.cells for line in lines if line.kind == "published"}
    assert published["simplax"]["0"].value == 95.85 and published["duo"]["30"].value == 48.85
    assert "langflow" not in published


@pytest.mark.parametrize(
    "arguments",
    [
        ["suite", "show", "toi"],
        ["suite", "show", "toy", "--out", "nowhere"],
        ["suite", "run", "toy", "--only", "nobody"],
        ["suite", "run", "toy", "--budget-steps", "0"],
        ["suite", "run", "toy", "--seeds", "1", "1"],
        ["suite", "run", "sudoku", "--puzzles", "nowhere.txt"],
        ["suite", "walk"],
        ["rerun", "nowhere.json"],
    ],
)
def test_mistakes_are_one_sentence(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    said = capsys.readouterr().err
    assert said.startswith("simplax: ") and said.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_comparison_of_results() -> None:
    stored = {
        "accuracy": {"value": 0.5, "low": 0.4, "high": 0.6},
        "values": {"x": [0.5, 0.4, 0.6]},
        "columns": {"perplexity": 30.0},
        "seconds": 3.0,
        "sha256": "abc",
    }
    assert compare(stored, {**stored, "seconds": 9.0}).verdict == "equal"
    near = {
        **stored,
        "accuracy": {"value": 0.55, "low": 0.45, "high": 0.65},
        "values": {"x": [0.41, 0.3, 0.5]},
    }
    assert compare(stored, near).verdict == "within"
    far = {**stored, "values": {"x": [0.61, 0.5, 0.7]}}
    found = compare(stored, far)
    assert found.verdict == "differs" and [one.name for one in found.differences] == ["values.x"]
    assert compare(stored, {**stored, "sha256": "abd"}).verdict == "differs"
    assert compare(stored, {**stored, "columns": {"perplexity": 30.3}}).verdict == "within"
    assert compare(stored, {**stored, "columns": {"perplexity": 33.0}}).verdict == "differs"
    assert compare(stored, {k: v for k, v in stored.items() if k != "columns"}).verdict == "differs"


def test_repeated_commands_write_elsewhere() -> None:
    words = [
        "runs/x",
        "sudoku",
        "--clues",
        "40",
        "35",
        "--out",
        "a.json",
        "--json",
        "--samples=b.txt",
        "--figure",
        "c.png",
        "--seed",
        "3",
    ]
    assert _without_places(words) == ["runs/x", "sudoku", "--clues", "40", "35", "--seed", "3"]


def tamper(path: Path, change: Any) -> None:
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found))


def verdict(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    capsys.readouterr()
    status = main(["rerun", *arguments, "--json"])
    return status, json.loads(capsys.readouterr().out)["verdict"]


def test_results_are_repeated_and_a_changed_number_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "toy"
    small = ["--budget-steps", "2", "--num", "10", "--precision", "float32", "--only", "simplax"]
    assert main(["suite", "run", "toy", "--out", str(out), *small]) == 0
    row, model = out / "results" / "simplax-seed0.json", out / "models" / "simplax-seed0"
    assert verdict([str(row)], capsys) == (0, "equal")
    tamper(row, lambda found: found["points"]["6"]["values"]["6"].__setitem__(0, 0.9))
    assert verdict([str(row), "--points", "6"], capsys) == (1, "differs")
    assert verdict([str(row), "--points", "0"], capsys) == (0, "equal")

    single = tmp_path / "single.json"
    measure = ["evaluate", str(model), "sudoku", "--clues", "6", "--num", "10", "--out", str(single)]
    assert main(measure) == 0
    tamper(single, lambda found: found.__setitem__("command", f"simplax {' '.join(measure)}"))
    assert verdict([str(single)], capsys) == (0, "equal")
    # as torchrun's processes record it
    tamper(single, lambda found: found.__setitem__("command", f"simplax -- {' '.join(measure)}"))
    tamper(single, lambda found: found["result"][0]["validity"].__setitem__("value", 0.9))
    assert verdict([str(single)], capsys) == (1, "differs")

    shutil.rmtree(model)
    capsys.readouterr()
    assert main(["rerun", str(row)]) == 2
    assert capsys.readouterr().err.startswith("simplax: there is no model")
