"""Pages on disk in a real browser: they lead from noise to the answer, step by step, and beside one another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from accessibility import axe as axe
from accessibility import violations
from browser import BROWSER, Page, browse, keep
from simplax.suites.formats import page_run
from simplax.viz.denoising import Episode, denoising_run
from simplax.viz.frontier import frontier_run
from simplax.viz.player import write_player
from sudoku_models import nine
from test_suite_tables import TABLE

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
BOARD = "[...document.querySelectorAll('td')].map(cell => cell.textContent).join('')"
TEXT = {
    "kind": "texts",
    "name": "<b>tiny</b>",
    "words": ["hel", "x", "lo"],
    "steps": [0, 5, 9],
    "samples": [{"seed": 4, "given": [0], "end": 2, "frames": [[0, 1], [0, 0], [0, 2]]}],
}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browse(tmp_path_factory.mktemp("browser")) as opened:
        yield opened
        assert opened.errors == [] and all(url.startswith(("file:", "about:")) for url in opened.requests)


def board_page(path: Path, steps: int = 2) -> tuple[Path, str, int]:
    (puzzle,), (solution,) = nine(1).puzzles, nine(1).solutions
    noise = np.where(puzzle == 0, 1, puzzle)
    episode = Episode(puzzle, np.stack([*[noise] * steps, solution]), solution, "Puzzle 1")
    write_player(path, "Denoising a Sudoku", [denoising_run([episode], "a run")])
    return path, "".join(map(str, solution.tolist())), int((puzzle != 0).sum())


def test_a_board_is_played_to_its_end(page: Page, tmp_path: Path) -> None:
    path, solution, clues = board_page(tmp_path / "page.html")
    page.open(path.as_uri())
    assert page.run(BOARD) != solution and page.text(".state") == "step 0 of 2"
    page.click(".play")
    page.wait("document.querySelector('.state').textContent === 'step 2 of 2'")
    assert page.run(BOARD) == solution and "Puzzle 1" in page.text("figcaption")
    assert page.run("document.querySelectorAll('td.given').length") == clues
    assert page.run("document.querySelectorAll('td.wrong, td.conflict').length") == 0
    page.click("[aria-label='Step back']")
    assert page.run(BOARD) != solution and page.text(".state") == "step 1 of 2"
    page.press("Tab", "Tab", "Enter")  # from step back over play to step on
    assert page.run(BOARD) == solution
    page.set("[aria-label=speed]", "8")
    page.set(".transport input", "0")
    assert page.text(".state") == "step 0 of 2"


def test_a_text_is_played_to_its_end(page: Page, tmp_path: Path) -> None:
    page.open(write_player(tmp_path / "page.html", "Denoising a text", [TEXT]).as_uri())
    page.set(".transport input", "2")
    assert page.text(".state") == "step 9 of 9" and page.text("figcaption") == "seed 4"
    assert page.text("h2") == "<b>tiny</b>"
    shown = page.run("[...document.querySelectorAll('.text span')].map(s => [s.className, s.textContent])")
    assert shown == [["given settled", "hel"], ["settled changed", "lo"]]


def test_two_runs_side_by_side_keep_step(page: Page, tmp_path: Path) -> None:
    """A page takes the runs of another one; both are at the same share of their frames."""
    path, solution, _ = board_page(tmp_path / "one.html", steps=8)
    other = write_player(tmp_path / "other.html", "Denoising a text", [TEXT])
    page.open(path.as_uri())
    page.set(".transport input", "8")
    page.files("#other", other)
    page.wait("document.querySelectorAll('#runs section').length === 2")
    assert page.text(".text") == "hello" and page.run(BOARD) == solution
    page.set(".transport input", "4")
    assert page.text(".text") == "helhel" and page.text(".state") == "step 4 of 8"
    (tmp_path / "no.html").write_text("nothing")
    page.files("#other", tmp_path / "no.html")
    page.wait("document.querySelector('#message').textContent.includes('no page')")


def test_a_frontier_goes_through_its_temperatures(page: Page, tmp_path: Path) -> None:
    def point(temperature: float, entropy: float, perplexity: float) -> dict[str, object]:
        return {"temperature": temperature, "columns": {"entropy": entropy, "perplexity": perplexity}}

    curves = {
        ("ours", 8): [point(0.5, 3.0, 20.0), point(1.0, 5.0, 90.0)],
        ("theirs", 8): [point(1.0, 4.5, 80.0)],
    }
    run = frontier_run(curves, point(1.0, 4.8, 40.0), setting="Tiny.", texts=["a", "b", "<c>"])
    page.open(write_player(tmp_path / "page.html", "A frontier", [run]).as_uri())
    rows = (
        "[...document.querySelectorAll('.values tr')].slice(1).map(r => [...r.cells].map(c => c.textContent))"
    )
    assert page.run(rows) == [["ours", "8", "0.5", "3.000", "20.00", "a"]]
    page.set(".transport input", "1")
    assert [row[-1] for row in page.run(rows)] == ["b", "<c>"] and page.text(".state") == "temperature 1 of 1"


def test_a_suite_goes_through_its_columns(page: Page, tmp_path: Path) -> None:
    run = page_run(TABLE)
    page.open(write_player(tmp_path / "page.html", "Suite sudoku4", [run]).as_uri())
    rows = "[...document.querySelectorAll('.scores tr')].map(r => [r.cells[0].textContent, r.cells[2].textContent])"
    for number, column in enumerate(run["columns"]):
        page.set(".transport input", str(number))
        assert page.text("h3") == column["title"]
        assert page.run(rows) == [[bar["title"], bar["words"]] for bar in column["bars"]]
    page.window(360, 740, mobile=True)
    page.prefers(color_scheme="dark")
    assert page.run("document.documentElement.scrollWidth") <= 360


@pytest.mark.slow
def test_pages_on_disk_stand_in_nobodys_way(page: Page, tmp_path: Path, axe: str) -> None:
    """Each kind of page that `--html` and `frontier` write, in light and dark."""
    point = {"temperature": 1.0, "columns": {"entropy": 5.0, "perplexity": 90.0}}
    data = {"temperature": 1.0, "columns": {"entropy": 4.8, "perplexity": 40.0}}
    frontier = frontier_run({("ours", 8): [point]}, data, setting="Tiny.", texts=["a"])
    pages = {
        "board": board_page(tmp_path / "board.html", steps=8)[0],
        "text": write_player(tmp_path / "text.html", "Denoising a text", [TEXT]),
        "frontier": write_player(tmp_path / "frontier.html", "A frontier", [frontier]),
        "suite": write_player(tmp_path / "suite.html", "Suite sudoku4", [page_run(TABLE)]),
    }
    page.window(1280, 1000)
    found = {}
    for name, path in pages.items():
        page.open(path.as_uri())
        for scheme in ("light", "dark"):
            page.prefers(color_scheme=scheme)
            keep(page, f"disk-{scheme}-{name}")
            bad = violations(page, axe)
            found |= {f"{scheme} {name}": bad} if bad else {}
    assert found == {}
