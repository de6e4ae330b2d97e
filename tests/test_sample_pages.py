"""`simplax sample --html` of boards and molecules: what is shown at each step, and that it plays in a browser."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from browser import BROWSER, browse
from simplax.cli import main
from simplax.data.sudoku import is_valid, make_layout
from simplax.pretrained.model import from_pretrained
from simplax.viz import structures
from simplax.viz.structures import drawings
from simplax.viz.trajectory import trajectory_run
from sudoku_models import nine

RDKIT = importlib.util.find_spec("rdkit") is not None


def page_data(page: Path) -> tuple[str, dict[str, Any]]:
    """Title and run of a page."""
    html = page.read_text(encoding="utf-8")
    (title,), (data,) = (
        re.findall(pattern, html) for pattern in ("<title>(.*?)</title>", 'id="data">(.*?)</script>')
    )
    (run,) = json.loads(data)
    return title, run


@pytest.fixture(scope="module")
def sudoku(tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = tmp_path_factory.mktemp("pages") / "sudoku.html"
    options = ["--num", "2", "--steps", "6", "--given", "--device", "cpu", "--html", str(page)]
    assert main(["sample", "sudoku", *options]) == 0
    return page


@pytest.fixture(scope="module")
def molecules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    page = tmp_path_factory.mktemp("pages") / "molecules.html"
    options = ["--num", "2", "--steps", "8", "--device", "cpu", "--html", str(page)]
    assert main(["sample", "molecules", *options]) == 0
    return page


def test_a_page_of_boards_keeps_the_clues_and_says_what_is_valid(sudoku: Path) -> None:
    title, run = page_data(sudoku)
    assert title == "Denoising a Sudoku" and run["kind"] == "boards" and run["steps"] == list(range(7))
    for episode in run["episodes"]:
        clues = [(place, digit) for place, digit in enumerate(episode["puzzle"]) if digit != "0"]
        assert len(clues) == 30 and len(episode["frames"]) == 7
        for board in [*episode["frames"], episode["solution"]]:
            assert all(board[place] == digit for place, digit in clues)
        assert is_valid(np.array(list(map(int, episode["solution"]))))
        valid = is_valid(np.array(list(map(int, episode["frames"][-1]))))
        assert episode["caption"].endswith("ends valid") == valid


def test_boards_without_clues_have_no_solution_and_long_paths_are_thinned() -> None:
    loaded = from_pretrained("sudoku", device="cpu")
    drawn = loaded.sample(1, num_steps=2, seeds=3, trajectory=True)
    assert drawn.trajectory is not None
    run = trajectory_run(loaded, drawn)
    (episode,) = run["episodes"]
    assert episode["solution"] is None and set(episode["puzzle"]) == {"0"}
    assert episode["frames"][-1] == "".join(loaded.decode(drawn.tokens)[0].split())
    object.__setattr__(drawn, "trajectory", drawn.trajectory[:1].expand(1000, -1, -1))
    run = trajectory_run(loaded, drawn)
    assert len(run["steps"]) == len(run["episodes"][0]["frames"]) == 201 and run["steps"][-1] == 999


@pytest.mark.parametrize("layout", ["cells", "prefix"])
def test_clues_are_read_back_from_tokens(layout: str) -> None:
    puzzles = torch.from_numpy(nine(3).puzzles)
    batch = make_layout(layout).encode(puzzles, torch.from_numpy(nine(3).solutions))
    assert torch.equal(make_layout(layout).clues(batch.tokens, batch.given), puzzles.long())
    assert not make_layout(layout).clues(batch.tokens, torch.zeros_like(batch.given)).any()


def test_a_page_of_molecules_has_every_string_and_its_drawing(molecules: Path) -> None:
    title, run = page_data(molecules)
    assert title == "Denoising molecules" and run["kind"] == "molecules" and len(run["samples"]) == 2
    assert len(run["strings"]) == len(set(run["strings"])) == len(run["structures"])
    assert all(len(sample["frames"]) == len(run["steps"]) == 9 for sample in run["samples"])
    if RDKIT:
        from simplax.data.molecules.canonical import parse

        for text, picture in zip(run["strings"], run["structures"]):
            assert (picture is not None) == (parse(text) is not None), text
            assert picture is None or "<svg" in picture
        assert any(run["structures"])


def test_without_rdkit_there_are_strings_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(structures, "can_draw", lambda: False)
    assert drawings(["CCO", ""]) == [None, None]


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
def test_both_pages_step_and_scrub(sudoku: Path, molecules: Path, tmp_path: Path) -> None:
    with browse(tmp_path) as page:
        page.open(sudoku.as_uri())
        boards = "[...document.querySelectorAll('.board')].map(b => b.textContent)"
        _, run = page_data(sudoku)
        for step in (0, 3, 6):
            page.set(".transport input", str(step))
            assert page.text(".state") == f"step {step} of 6"
            assert page.run(boards) == [
                episode["frames"][step].replace("0", "") for episode in run["episodes"]
            ]
        page.open(molecules.as_uri())
        _, run = page_data(molecules)
        shown = "[...document.querySelectorAll('.molecules figure')].map(f => [f.querySelector('code').textContent, "
        shown += "!f.querySelector('img').hidden])"
        page.set(".transport input", "8")
        page.click("[aria-label='Step back']")
        for step in (7, 8):
            numbers = [sample["frames"][step] for sample in run["samples"]]
            wanted = [[run["strings"][n] or "(empty)", run["structures"][n] is not None] for n in numbers]
            assert page.run(shown) == wanted and page.text(".state") == f"step {step} of 8"
            page.click("[aria-label='Step forward']")
        # pictures that were shown were read: one that is broken has no width
        drawn = "[...document.querySelectorAll('.molecules img:not([hidden])')]"
        page.wait(f"{drawn}.every(i => i.complete)")
        assert page.run(f"{drawn}.every(i => i.naturalWidth > 0)")
        assert page.errors == [] and all(url.startswith(("file:", "data:")) for url in page.requests)
