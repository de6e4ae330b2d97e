"""The page of servers with other models than the bundled ones: several methods, two board sizes, no drawings."""

from __future__ import annotations

import os
from pathlib import Path

from browser import Page, keep
from serving import running
from sudoku_models import model as four
from test_serve_page import BOARDS, DIGITS, MESSAGE, SETTING, steps
from test_serve_page import browser as browser
from test_serve_page import pytestmark as pytestmark

MODELS = Path(__file__).parents[1] / "results" / "sudoku" / "models"


def test_without_rdkit_the_page_says_so(browser: Page, tmp_path: Path) -> None:
    (tmp_path / "rdkit").mkdir()
    (tmp_path / "rdkit" / "__init__.py").write_text("raise ImportError('not here')")
    path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    with running("--model", "molecules", PYTHONPATH=path) as bare:
        browser.open(bare.url)
        browser.wait("document.body.dataset.ready")
        steps(browser, 4, "molecules")
        browser.click("#draw")
        browser.wait("document.querySelector('#molecules-message').textContent.includes('not known')")
        assert browser.run("!document.querySelector('#no-drawings').hidden")
        keep(browser, "test_without_rdkit_the_page_says_so")


def test_two_models_side_by_side(browser: Page, tmp_path: Path) -> None:
    """Other methods beside the bundled one, on the same noise; boards of another size have models of their own."""
    four("sudoku4-simplax").save_pretrained(tmp_path / "small")
    models = [str(MODELS / "udlm"), str(MODELS / "mdlm")]
    with running("--model", "sudoku", *models, str(tmp_path / "small")) as full:
        browser.window(1280, 1000)
        browser.open(full.url)
        browser.wait("document.body.dataset.ready")
        chosen = "[...document.querySelectorAll('[data-setting=model]')].map(choice => choice.value)"
        assert browser.run(chosen) == ["sudoku", "udlm"]
        browser.click("#compare")
        browser.run(f"{SETTING('steps')}.forEach(e => {{ e.value = 12; }})")
        browser.click("#solve")
        browser.wait(f"{MESSAGE}.includes('valid')")
        assert browser.run(MESSAGE).startswith("sudoku: ") and "; udlm: " in browser.run(MESSAGE)
        titles = "[...document.querySelectorAll('.panel > h2')].map(title => title.textContent.split(':')[0])"
        assert browser.run(titles) == ["sudoku", "udlm"]
        keep(browser, "test_two_models_side_by_side-end")
        browser.set("#sudoku .transport input", "0")
        one, other = browser.run(BOARDS)
        assert one == other  # the same noise
        # a masked model begins with open cells and says how many steps there will be
        browser.run(
            f"(e => {{ e.value = 'mdlm'; e.dispatchEvent(new Event('change')); }})({SETTING('model')}[1])"
        )
        assert browser.run(f"{SETTING('steps')}[1].disabled && {SETTING('steps')}[1].value") == "81"
        browser.click("#solve")
        browser.wait("document.querySelector('#solve').textContent === 'Stop'")
        browser.wait(f"{MESSAGE}.includes('mdlm: ')")
        browser.set("#sudoku .transport input", "40")
        assert "open" in browser.run("document.querySelectorAll('.panel > h2')[1].textContent")
        keep(browser, "test_two_models_side_by_side")
        browser.run(
            "(e => { e.value = 4; e.dispatchEvent(new Event('change')); })(document.querySelector('#board-size'))"
        )
        assert browser.run(BOARDS) == ["0" * 16] * 2
        browser.click("#solve")
        browser.wait("document.querySelector('#solve').textContent === 'Stop'")
        browser.wait(f"{MESSAGE}.includes('valid')")
        assert "0" not in browser.run(DIGITS)
        assert browser.errors == []
