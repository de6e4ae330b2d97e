"""Results of the Sudoku suite in the documentation; `python -m simplax.cli.reference` writes them from the results."""

from __future__ import annotations

from pathlib import Path

from simplax.methods import METHODS
from simplax.suites.catalogue import declare
from simplax.suites.formats import markdown
from simplax.suites.store import Store, stored_options
from simplax.suites.table import Table, table

ROOT = Path(__file__).parents[3]
_MARKS = "<!-- Sudoku suite, by make reference -->", "<!-- end of Sudoku suite -->"


def between(page: str, marks: tuple[str, str], text: str) -> str:
    """A page with `text` between its two marks."""
    before, _, rest = page.partition(marks[0])
    _, _, after = rest.partition(marks[1])
    return f"{before}{marks[0]}\n{text}\n{marks[1]}{after}"


def measured() -> Table:
    """What is committed of the suite."""
    place = ROOT / "results" / "suites" / "sudoku"
    stored = stored_options(place)
    assert stored is not None, f"{place} has no suite.json"
    return table(declare("sudoku", stored[1]), Store.at(place))


def _rows_of(found: Table, names: set[str]) -> str:
    """Rows of some methods in Markdown, without the notes of the whole table."""
    lines = tuple(line for line in found.lines if line.name in names)
    part = Table(found.title, found.columns, lines)
    return markdown(part).rstrip()


def suite_pages() -> dict[Path, str]:
    """Every page that shows the suite, as it should be."""
    found = measured()
    whole = (ROOT / "results" / "suites" / "README.md", ROOT / "docs" / "results.md")
    texts = dict.fromkeys(whole, markdown(found))
    for method in METHODS.values():
        module = method.__module__.rsplit(".", 1)[-1]
        names = {name for name, one in METHODS.items() if one.__module__ == method.__module__}
        texts[ROOT / "docs" / "methods" / f"{module}.md"] = _rows_of(found, names)
    return {page: between(page.read_text(encoding="utf-8"), _MARKS, text) for page, text in texts.items()}
