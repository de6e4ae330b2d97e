"""The page in a real browser against a real server: watched, typed into, cut off, small, by keyboard, in the dark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from accessibility import axe as axe
from accessibility import violations
from browser import BROWSER, Page, browse, keep
from serving import PUZZLE, SOLUTION, Server, running
from simplax.pretrained.model import bundled

pytestmark = [
    pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine"),
    pytest.mark.skipif("sudoku" not in bundled(), reason="no bundled Sudoku model"),
    pytest.mark.slow,
]
TABS = ("sudoku", "text", "molecules", "simplex")
BOARDS = (
    "[...document.querySelectorAll('.board')].map("
    "board => [...board.querySelectorAll('[role=gridcell]')].map(cell => cell.textContent || '0').join(''))"
)
DIGITS = f"{BOARDS}[0]"
MESSAGE = "document.querySelector('#sudoku-message').textContent"
SETTING = "[...document.querySelectorAll('#sudoku [data-setting={}]')]".format


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running() as started:
        yield started


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browse(tmp_path_factory.mktemp("browser")) as page:
        yield page


@pytest.fixture
def page(server: Server, browser: Page, request: pytest.FixtureRequest) -> Iterator[Page]:
    browser.errors.clear()
    browser.requests.clear()
    browser.window(1280, 1000)
    browser.prefers(color_scheme="light", reduced_motion="no-preference")
    browser.open("about:blank")
    browser.open(server.url)
    browser.wait("document.body.dataset.ready")
    yield browser
    keep(browser, request.node.name)


def steps(page: Page, number: int, tab: str = "sudoku") -> None:
    page.set(f"#{tab} [data-setting=steps]", str(number))


def test_cells_change_until_the_board_is_solved(page: Page, server: Server) -> None:
    assert page.run(DIGITS) == PUZZLE
    page.click("#solve")
    seen = {page.wait(f"(d => d !== '{PUZZLE}' && d)({DIGITS})")}
    while "valid" not in page.run(MESSAGE):
        seen.add(page.run(DIGITS))
    assert len(seen) > 3 and all(board[1] == PUZZLE[1] for board in seen)
    assert page.run(DIGITS) == SOLUTION and "solved" in page.text(".panel .panel h2")
    page.run("document.querySelectorAll('[role=gridcell]')[0].focus()")
    assert page.run("getComputedStyle(document.querySelector('.caption')).visibility") == "visible"
    trail = page.run("[...document.querySelectorAll('.trail li')].map(li => li.textContent)")
    assert trail[-1].startswith(SOLUTION[0])
    assert (
        page.run("document.querySelectorAll('#cell .bar').length") >= 9
    )  # the belief; also w where there is an eta
    # back to pure noise and forth again
    page.set("#sudoku .transport input", "0")
    assert page.run(DIGITS) != SOLUTION
    page.click("#sudoku .transport .play")
    last = page.run("document.querySelector('#sudoku .transport input').max")
    page.wait(f"document.querySelector('#sudoku .transport .state').textContent === 'step {last} of {last}'")
    assert page.run(DIGITS) == SOLUTION
    assert page.errors == [] and all(url.startswith((server.url, "about:")) for url in page.requests)


def test_two_settings_on_the_same_noise(page: Page) -> None:
    page.click("#compare")
    page.run(
        "document.querySelectorAll('#sudoku [data-setting=sampler]').forEach("
        "choice => { choice.value = 'simplax'; choice.dispatchEvent(new Event('change')); })"
    )
    page.run(
        "document.querySelectorAll('#sudoku [data-setting=eta]').forEach("
        "slider => { slider.value = 0; slider.dispatchEvent(new Event('input')); })"
    )
    assert page.text("[data-setting=eta] + output") == "0"
    page.run("document.querySelectorAll('#sudoku [data-setting=steps]').forEach(e => { e.value = 8; })")
    page.click("#solve")
    page.wait(f"{MESSAGE}.includes('valid')")
    one, other = page.run(BOARDS)
    assert one == other  # eta 0 on both sides: the same noise, the same board
    page.set("[data-setting=eta]", "50")
    page.click("#solve")
    page.wait("document.querySelector('#solve').textContent === 'Stop'")
    page.wait(f"{MESSAGE}.includes('valid')")
    page.set("#sudoku .transport input", "4")
    one, other = page.run(BOARDS)
    assert one != other
    page.run("document.querySelectorAll('[role=gridcell]')[0].focus()")
    assert page.run("document.querySelectorAll('#cell .bar').length") == 18  # the belief, and the state w
    page.set("#sudoku .transport input", "0")
    one, other = page.run(BOARDS)
    assert one == other  # eta enters after the first draw


def test_the_state_is_one_press_away(page: Page) -> None:
    """The model's own sampler shows the state at the training concentration; the preset brings the slider to life."""
    steps(page, 6)
    assert page.run("document.querySelector('[data-setting=eta]').disabled")
    page.set("#sudoku [data-setting=attempts]", "2")
    page.click("#solve")
    page.wait(f"{MESSAGE}.includes('valid')")
    page.run("document.querySelectorAll('[role=gridcell]')[0].focus()")
    assert "at the training η = 0.01" in page.text("#cell")
    page.click(".attempts button:nth-of-type(2)")
    page.set("#sudoku .transport input", "3")
    assert page.run("document.querySelectorAll('#cell .bar').length") == 18  # of the second attempt as well
    page.click(".presets button:nth-child(2)")
    assert not page.run("document.querySelector('[data-setting=eta]').disabled")
    assert page.text("[data-setting=eta] + output") == "1"
    pressed = "[...document.querySelectorAll('.presets button')].slice(0, 2).map(b => b.ariaPressed)"
    assert page.run(pressed) == ["false", "true"]
    page.click("#solve")
    page.wait("document.querySelector('#solve').textContent === 'Stop'")
    page.wait(f"{MESSAGE}.includes('valid')")
    page.set("#sudoku .transport input", "2")
    assert "at η = 1 (%)" in page.text("#cell")
    page.set("[data-setting=eta]", "50")
    assert page.run(pressed) == ["false", "false"]
    page.click(".presets button:nth-child(1)")
    assert page.run(pressed) == ["true", "false"]


def test_molecules_are_drawn(page: Page) -> None:
    pytest.importorskip("rdkit", reason="the molecules extra is not installed")
    page.click("#tab-molecules")
    steps(page, 16, "molecules")
    page.click("#draw")
    page.wait("document.querySelector('#molecules-message').textContent.includes('can be read')")
    assert page.run("document.querySelectorAll('#structures img').length") >= 1
    assert page.run("[...document.querySelectorAll('#structures img')].every(i => i.naturalWidth > 0)")
    assert page.run("document.querySelector('#no-drawings').hidden")


def test_a_bad_paste_says_why(page: Page) -> None:
    page.run("document.querySelector('#paste').open = true")
    for words, complaint in (("12345", "5 cells"), ("x" + PUZZLE[1:], "no digit")):
        page.set("#pasted", words)
        page.click("#load")
        assert complaint in page.run(MESSAGE) and page.run(DIGITS) == PUZZLE
    page.set("#pasted", "55" + PUZZLE[2:])
    page.click("#load")
    page.click("#solve")
    page.wait(f"{MESSAGE}.includes('contradictory')")
    assert page.run("document.querySelector('#sudoku-message').classList.contains('bad')")
    page.set("#pasted", "\n".join(PUZZLE[i : i + 9].replace("0", ".") for i in range(0, 81, 9)))
    page.click("#load")
    assert page.run(DIGITS) == PUZZLE


def test_a_new_puzzle_has_as_few_clues_as_there_can_be(page: Page) -> None:
    page.set("#clues", "17")
    page.click("#sudoku-actions button:nth-child(2)")
    page.wait(f"{MESSAGE}.includes('17 clues and one solution')")
    assert sum(digit != "0" for digit in page.run(DIGITS)) == 17 and "17 given" in page.text(
        ".panel .panel h2"
    )


def test_by_keyboard_alone(page: Page) -> None:
    page.press("Tab")
    assert page.run("document.activeElement.id") == "tab-sudoku"
    page.press("ArrowRight")
    assert page.run("!document.querySelector('#text').hidden && document.activeElement.id") == "tab-text"
    page.press("ArrowLeft", "Tab")
    assert page.run("document.activeElement.id") == "solve"
    for _ in range(10):
        page.press("Tab")
        if page.run("document.activeElement.getAttribute('role')") == "gridcell":
            break
    page.press("ArrowDown", "ArrowRight", "7")
    assert page.run(DIGITS)[10] == "7"
    page.press("Backspace")
    assert page.run(DIGITS) == PUZZLE
    page.run("document.querySelector('#solve').focus()")
    steps(page, 4)
    page.press("Enter")
    page.wait(f"{MESSAGE}.includes('valid')")
    page.run("document.querySelector('#tab-simplex').click(); document.querySelector('.belief').focus()")
    before = page.text("#atoms .facts")
    page.press("ArrowDown")
    assert page.text("#atoms .facts") != before


def test_the_simplex_follows_eta_and_t(page: Page) -> None:
    page.click("#tab-simplex")

    def state() -> tuple[int, str]:
        return page.run("document.querySelectorAll('.sticks i').length"), page.text("#atoms .facts")

    few, _ = state()
    page.set("#simplex-eta", "2")
    many, words = state()
    assert many > few and "99.0 % of steps" in words
    page.set("#simplex-eta", "-2")
    page.set("#simplex-t", "1")
    assert "pₜ (+)A 33.3 %  B 33.3 %  C 33.3 %" in state()[1]
    assert page.run(
        """(async () => {
          const m = await import('/simplex_math.js'), x = [0.7, 0.2, 0.1];
          const sum = v => v.reduce((a, b) => a + b, 0), near = (a, b) => Math.abs(a - b) < 1e-12;
          for (const k of [0, 1, 2]) for (const [s, t] of [[0, 0.5], [0.2, 0.9], [0.5, 0.5]])
            if (!near(sum(m.bridge(x, k, s, t)), 1)) return false;
          if (!near(m.bridge(x, 1, 0.5, 0.5)[1], 1)) return false;
          const u = m.uniforms(3), p = m.noised(x, 0.5), mean = [0, 0, 0], stick = [0, 0, 0];
          for (let n = 0; n < 20000; n++) {
            m.dirichlet(p.map(v => 0.5 * v), u).forEach((v, k) => { mean[k] += v / 20000; });
            m.atoms(p, 0.5, u, 1e-9).forEach(a => { stick[a.category] += a.weight / 20000; });
          }
          // both forms have the mean p; the standard error of each number is below 0.003
          return p.every((v, k) => Math.abs(mean[k] - v) < 0.015 && Math.abs(stick[k] - v) < 0.015);
        })()"""
    )


def test_text_is_denoised(page: Page) -> None:
    page.click("#tab-text")
    steps(page, 6, "text")
    page.set("#prompt", "We must <gap:4> the people.")
    page.click("#denoise")
    page.wait("document.querySelector('#text-message').textContent.includes('calls')")
    words = page.text(".tokens")
    assert words.startswith("We must ") and words.endswith(" the people.")
    page.run("document.querySelector('.tokens').focus()")
    page.press(*["ArrowRight"] * 4)
    assert "Likeliest tokens" in page.text("#token-card")
    page.set("#prompt", "word " * 200)
    page.click("#denoise")
    page.wait("document.querySelector('#text-message').textContent.includes('room for')")


def test_phone_width_dark_and_still(page: Page) -> None:
    page.window(360, 740, mobile=True)
    page.prefers(color_scheme="dark", reduced_motion="reduce")
    for tab in TABS:
        page.click(f"#tab-{tab}")
        if tab == "molecules":
            page.click("#draw")
            page.wait("document.querySelector('#molecules-message').textContent.includes('calls')")
        assert page.run("document.documentElement.scrollWidth <= 360")
        keep(page, f"phone-dark-{tab}")
    assert page.run("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
    page.click("#tab-sudoku")
    assert page.run("getComputedStyle(document.querySelector('[role=gridcell]')).transitionDuration") == "0s"
    page.click(".board [role=gridcell]")
    page.click(".keys button:nth-child(5)")
    assert page.run(DIGITS)[0] == "4"


def test_offline_and_a_killed_server_are_said(browser: Page) -> None:
    with running("--model", "sudoku") as mortal:
        browser.window(1280, 1000)
        browser.open(mortal.url)
        browser.wait("document.body.dataset.ready")
        browser.offline(True)
        browser.click("#solve")
        browser.wait(f"{MESSAGE}.includes('cannot be reached')")
        browser.offline(False)
        steps(browser, 256)
        browser.click("#solve")
        browser.wait("document.querySelector('#sudoku .transport input').max > 2")
        mortal.kill()
        browser.wait(f"{MESSAGE}.includes('connection broke')")
        kept = int(browser.run("document.querySelector('#sudoku .transport input').max"))
        browser.set("#sudoku .transport input", "1")
        assert kept > 2 and browser.text("#sudoku .transport .state") == f"step 1 of {kept}"
        assert browser.text("#solve") == "Solve"


def test_a_token_is_asked_for(browser: Page) -> None:
    with running("--model", "sudoku", SIMPLAX_TOKEN="open sesame") as guarded:
        browser.open(guarded.url)
        browser.wait("!document.querySelector('#token').hidden")
        browser.set("#secret", "open sesame")
        browser.click("#token button")
        browser.wait("document.body.dataset.ready")
        assert browser.run("document.querySelector('#token').hidden")


def test_nothing_stands_in_the_way_of_anybody(page: Page, axe: str) -> None:
    steps(page, 3)
    page.click("#compare")
    page.click("#solve")
    page.wait(f"{MESSAGE}.includes('valid')")
    page.click("#tab-molecules")
    page.click("#draw")
    page.wait("document.querySelector('#molecules-message').textContent.includes('calls')")
    found: dict[str, Any] = {}
    for scheme in ("light", "dark"):
        page.prefers(color_scheme=scheme, reduced_motion="reduce")
        for tab in TABS:
            page.click(f"#tab-{tab}")
            keep(page, f"{scheme}-{tab}")
            bad = violations(page, axe)
            found |= {f"{scheme} {tab}": bad} if bad else {}
    assert found == {}
