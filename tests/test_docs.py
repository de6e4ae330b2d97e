"""The documentation stays in step with the code."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from simplax import functional, samplers
from simplax.cli.suite_pages import measured, suite_pages
from simplax.methods import METHODS, Method

ROOT = Path(__file__).parents[1]
NUM_EQUATIONS = 124  # numbered equations of the paper, main text and appendices


def equations() -> dict[int, tuple[str, str, str]]:
    """Rows of docs/equations.md by equation number: what it says, functions, tests."""
    rows = {}
    for line in (ROOT / "docs" / "equations.md").read_text().splitlines():
        if match := re.match(r"\| \((\d+)\)(.*?) \| (.*?) \| (.*?) ?\|$", line):
            rows[int(match[1])] = (match[2], match[3], match[4])
    return rows


def public_functions() -> dict[str, object]:
    return {
        name: value
        for name, value in vars(functional).items()
        if not name.startswith("_") and callable(value)
    }


def test_equations_table_is_complete() -> None:
    rows = equations()
    assert list(rows) == list(range(1, NUM_EQUATIONS + 1))
    for number, (says, where, _) in rows.items():
        assert says.split("<br>")[-1] and where, number
    labels = re.findall(r"`(eq:\w+)`", "".join(says for says, _, _ in rows.values()))
    assert len(labels) == len(set(labels))


def test_equations_table_names_what_exists() -> None:
    for number, (_, where, tests) in equations().items():
        for module, name in re.findall(r"`(?:(samplers|schedules|simplex|times)\.)?(\w+)[\w.]*`", where):
            owner = importlib.import_module(f"simplax.{module}") if module else functional
            assert hasattr(owner, name), (number, name)
        for test in re.findall(r"`([^`]+)`", tests):
            path, _, function = test.partition("::")
            assert (ROOT / "tests" / path).is_file(), (number, test)
            assert f"def {function}" in (ROOT / "tests" / path).read_text(), (number, test)


def test_equation_numbers_in_docstrings_agree_with_the_table() -> None:
    rows = equations()
    for name, value in {**public_functions(), "samplers.Simplax": samplers.Simplax}.items():
        for group in re.findall(r"\(eqs?\. ((?:\d+(?:, | and | to )?)+)\)", inspect.getdoc(value) or ""):
            for number in map(int, re.findall(r"\d+", group)):
                assert f"`{name}`" in rows[number][1], f"{name} claims equation {number}, the table does not"


def test_every_public_function_has_an_api_entry() -> None:
    page = (ROOT / "docs" / "api" / "functional.md").read_text()
    documented = re.findall(r"^::: simplax\.functional\.(\w+)$", page, re.M)
    assert sorted(documented) == sorted(public_functions())


@pytest.mark.skipif(importlib.util.find_spec("zensical") is None, reason="the docs extra is not installed")
def test_site_builds_strictly() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"], cwd=ROOT, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr
    page = (ROOT / "site" / "methods" / "simplax" / "index.html").read_text()
    assert page.count('<div class="formula"') == 3 and "```" not in page and "$" not in page.split("<main")[1]


SECTIONS = ["Definition", "In the code", "Defaults", "Numbers", "Exactness"]
METHOD_PAGES = sorted((ROOT / "docs" / "methods").glob("*.md"))


def page_of(method: type[Method]) -> Path:
    """A method's page is named after its module, which variants share."""
    return ROOT / "docs" / "methods" / f"{method.__module__.rsplit('.', 1)[-1]}.md"


def test_every_method_has_a_page_that_the_list_links_to() -> None:
    listed = (ROOT / "docs" / "methods.md").read_text()
    menu = (ROOT / "mkdocs.yml").read_text()
    for name, method in METHODS.items():
        page = page_of(method)
        assert page.is_file(), f"{name} needs a page: {page}"
        assert f"(methods/{page.name})" in listed and f"methods/{page.name}" in menu, name
    assert {page_of(method) for method in METHODS.values()} == set(METHOD_PAGES)


@pytest.mark.parametrize("page", METHOD_PAGES, ids=lambda page: page.stem)
def test_page_of_a_method_names_code_and_options_that_exist(page: Path) -> None:
    text = page.read_text()
    assert re.findall(r"^## (.+)$", text, re.M) == SECTIONS
    for path, names in re.findall(r"`([\w/]+)\.py::([\w.]+)`", text):
        owner: object = importlib.import_module(f"simplax.{path.replace('/', '.')}")
        for name in names.split("."):
            owner = getattr(owner, name)
    variants = [method for method in METHODS.values() if page_of(method) == page]
    options = {field.name: field for method in variants for field in dataclasses.fields(method)}  # type: ignore[arg-type]
    defaults = text.split("## Defaults")[1].split("## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", defaults, re.M))
    assert sorted(rows) == sorted(options)
    for name, said in rows.items():
        if isinstance(options[name].default, bool | int | float | str | None) and name != "truncation":
            assert said.strip("`") == str(options[name].default), name


def test_every_page_is_in_the_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        assert str(page.relative_to(ROOT / "docs")) in menu, page


WITHOUT_A_PAGE = {
    "bench": "what `simplax bench` runs",
    "cli": "the commands",
    "io": "files and progress of the others",
    "serve": "its API is HTTP, on the page about it",
    "typing": "on the pages of what uses it",
    "viz": "what the commands draw with",
}


def test_reference_has_every_method_sampler_and_public_module() -> None:
    pages = {page.stem: page.read_text() for page in (ROOT / "docs" / "api").glob("*.md")}
    for method in METHODS.values():
        assert f"::: simplax.methods.{method.__name__}\n" in pages["methods"], method
    for sampler in samplers.SAMPLERS.values():
        assert f"::: simplax.samplers.{sampler.__name__}\n" in pages["samplers"], sampler
    package = ROOT / "src" / "simplax"
    found = {path.parent.name for path in package.glob("*/__init__.py")} | {
        path.stem for path in package.glob("[!_]*.py")
    }
    assert set(WITHOUT_A_PAGE) <= found
    # whatever else is new needs a page, in the list and about that module
    assert set(pages) - {"index", "guidance"} == found - set(WITHOUT_A_PAGE)
    for name in pages.keys() - {"index"}:
        assert f"({name}.md)" in pages["index"], name
        assert name == "guidance" or f"::: simplax.{name}" in pages[name], name


FIGURES = {
    "sudoku-boards": "results/sudoku/boards",
    "sudoku-curves": "results/sudoku/curves",
    "sudoku-carry-curves": "results/sudoku/carry-curves",
    "sudoku-eta-sweep": "results/sudoku/eta-sweep",
    "sudoku-revision": "results/sudoku/revision/revision",
    "molecules-calls": "results/suites/molecules/calls",
    "text-frontier": "results/text/frontier",
    "bench": "benchmarks/bench",
}


def test_figures_of_the_pages_are_those_of_the_results() -> None:
    folder = ROOT / "docs" / "figures"
    pages = "".join(page.read_text() for page in (ROOT / "docs").rglob("*.md"))
    assert {path.name for path in folder.iterdir()} == {f"{name}.png" for name in FIGURES}
    for name, source in FIGURES.items():
        copy, original = folder / f"{name}.png", ROOT / f"{source}.png"
        assert copy.read_bytes() == original.read_bytes(), f"cp {source}.png docs/figures/{name}.png"
        assert f"figures/{name}.png)" in pages, name


@pytest.mark.skipif(importlib.util.find_spec("zensical") is None, reason="the docs extra is not installed")
def test_built_pages_load_nothing_from_elsewhere() -> None:
    built = ROOT / "site"
    if not (built / "index.html").is_file():
        test_site_builds_strictly()
    for page in built.rglob("*.html"):
        tags = re.findall(r"<(?:script|link|img|iframe|source)\b[^>]*>", page.read_text())
        outside = [tag for tag in tags if re.search(r"(?:src|href)=[\"']?(?:https?:)?//", tag)]
        assert [tag for tag in outside if 'rel="canonical"' not in tag] == [], page


def test_pages_show_the_suite_as_it_was_measured() -> None:
    for page, content in suite_pages().items():
        assert page.read_text(encoding="utf-8") == content, f"{page}: make reference"


def test_readme_has_numbers_of_the_suite() -> None:
    said = next(line for line in (ROOT / "README.md").read_text().splitlines() if "eleven methods" in line)
    lines = [line for line in measured().lines if line.kind == "model"]
    for column, part in zip(("30", "0"), said.split("valid blank boards")):
        for line in lines:
            if match := re.search(rf"(?<![\w-]){re.escape(line.title)} ([\d.]+)", part):
                assert match[1] == f"{line.cells[column].value:.1f}", (line.title, column)
            else:
                below = re.search(r"the others below (\d+)", part)
                assert below and (line.cells[column].value or 0) < int(below[1]), (line.title, column)


SCRIPTS = [
    (page.name, script)
    for page in sorted((ROOT / "docs").rglob("*.md"))
    for script in re.findall(r"^```bash\n(.*?)^```", page.read_text(), re.M | re.S)
    if "#SBATCH" in script
]


@pytest.mark.parametrize(("page", "script"), SCRIPTS)
def test_job_scripts_are_shell(page: str, script: str) -> None:
    """What a scheduler is given runs nowhere here: that it can be read is what can be checked."""
    found = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True)
    assert found.returncode == 0 and not found.stderr, (page, found.stderr)
    assert script.startswith("#!/bin/bash\n#SBATCH ")  # options after the first command are not read


def test_there_are_job_scripts() -> None:
    assert {page for page, _ in SCRIPTS} >= {"training.md", "scaling.md"}
