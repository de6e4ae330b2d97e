"""Pages in a real browser: pressing Play leads from noise to the answer."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from simplax.viz.denoising import Episode, denoising_page
from simplax.viz.player import player_page
from sudoku_models import nine

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
_QUIET = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
_QUIET += ["--disable-component-update", "--disable-sync", "--disable-quic"]


def played(page: str, folder: Path) -> str:
    """The document after Play was pressed and had time to end."""
    path = folder / "page.html"
    press = "<script>document.querySelector('button').click()</script>"
    path.write_text(page.replace("</body>", press + "</body>"), encoding="utf-8")
    command = [str(BROWSER), *_QUIET, f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=20000"]
    done = subprocess.run(
        [*command, "--dump-dom", path.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout


def test_a_board_is_played_to_its_end(tmp_path: Path) -> None:
    (puzzle,), (solution,) = nine(1).puzzles, nine(1).solutions
    noise = np.where(puzzle == 0, 1, puzzle)
    page = denoising_page([Episode(puzzle, np.stack([noise, noise, solution]), solution, "Puzzle 1")])
    document = played(page, tmp_path)
    assert "step 2 of 2" in document and "Puzzle 1" in document
    shown = re.findall(r"<td[^>]*>(\d)</td>", document)
    assert "".join(shown) == "".join(map(str, solution.tolist()))
    classes = re.findall(r"<td[^>]*class=\"([^\"]*)\"", document)
    assert sum("given" in one for one in classes) == (puzzle != 0).sum()
    assert not any("wrong" in one or "conflict" in one for one in classes)


def test_a_text_is_played_to_its_end(tmp_path: Path) -> None:
    sample = {"seed": 4, "given": [0], "end": 2, "frames": [[0, 1], [0, 0], [0, 2]]}
    data = {"name": "<b>tiny</b>", "words": ["hel", "x", "lo"], "steps": [0, 5, 9], "samples": [sample]}
    document = played(player_page("Denoising a text", "trajectory", data), tmp_path)
    assert "step 9 of 9" in document and "seed 4" in document and "&lt;b&gt;tiny&lt;/b&gt;: " in document
    shown = re.findall(r'<span class="([a-z ]*)">(hel|x|lo)</span>', document)
    assert shown == [("given settled", "hel"), ("changed settled", "lo")]
