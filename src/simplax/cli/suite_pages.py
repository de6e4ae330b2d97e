"""Results of the suites in the documentation; `python -m simplax.cli.reference` writes them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from simplax.methods import METHODS
from simplax.suites.catalogue import declare
from simplax.suites.formats import markdown
from simplax.suites.store import Store, stored_options
from simplax.suites.table import Table, table

ROOT = Path(__file__).parents[3]
_SUITES, _RESULTS = ROOT / "results" / "suites" / "README.md", ROOT / "docs" / "results.md"
_TITLES = {
    "sudoku": "Sudoku",
    "molecules": "Molecules",
    "text": "Text",
    "sudoku-axes": "Axes",
    "sudoku-ladder": "Ladder",
}
_SHORT_CALLS = "32 calls"  # what pages that do not show every number of calls show


def between(page: str, marks: tuple[str, str], text: str) -> str:
    """A page with `text` between its two marks."""
    for mark in marks:
        if page.count(mark) != 1:
            raise ValueError(f"the page needs the line {mark} once, where the table shall be")
    before, _, rest = page.partition(marks[0])
    _, _, after = rest.partition(marks[1])
    return f"{before}{marks[0]}\n{text}\n{marks[1]}{after}"


def _marks(suite: str) -> tuple[str, str]:
    title = _TITLES[suite]
    return f"<!-- {title} suite, by make reference -->", f"<!-- end of {title} suite -->"


def measured(suite: str = "sudoku") -> Table:
    """What is committed of a suite."""
    place = ROOT / "results" / "suites" / suite
    stored = stored_options(place)
    assert stored is not None, f"{place} has no suite.json"
    return table(declare(suite, stored[1]), Store.at(place))


def _rows_of(found: Table, names: set[str]) -> str:
    """Rows of some methods in Markdown, without the notes of the whole table."""
    lines = tuple(line for line in found.lines if line.name in names)
    return markdown(Table(found.title, found.columns, lines)).rstrip()


def _at(found: Table, heading: str) -> Table:
    return replace(found, columns=tuple(one for one in found.columns if one.heading == heading))


def _done(found: Table) -> Table:
    """Without the rows that were not run, and without their footnotes."""
    lines = tuple(line for line in found.lines if line.cells)
    marks = {mark for line in lines for mark in line.marks.split(",")}
    return replace(found, lines=lines, footnotes=tuple(text for text in found.footnotes if text[0] in marks))


def suite_pages() -> dict[Path, str]:
    """Every page that shows a suite, as it should be."""
    tables = {name: measured(name) for name in _TITLES if (_SUITES.parent / name / "suite.json").is_file()}
    texts: dict[Path, list[tuple[str, str]]] = {_SUITES: [], _RESULTS: []}
    for name, found in tables.items():
        texts[_SUITES].append((name, markdown(_done(found))))
        texts[_RESULTS].append(
            (name, markdown(_done(_at(found, _SHORT_CALLS) if name == "molecules" else found)))
        )
    for method in METHODS.values():
        module = method.__module__.rsplit(".", 1)[-1]
        names = {name for name, one in METHODS.items() if one.__module__ == method.__module__}
        texts[ROOT / "docs" / "methods" / f"{module}.md"] = [("sudoku", _rows_of(tables["sudoku"], names))]
    pages = {}
    for page, parts in texts.items():
        content = page.read_text(encoding="utf-8")
        for name, text in parts:
            content = between(content, _marks(name), text)
        pages[page] = content
    return pages
