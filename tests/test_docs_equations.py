"""docs/equations.md maps the whole paper: every equation to code that imports and to tests that exist."""

from __future__ import annotations

import ast
import importlib
import re
from functools import cache
from pathlib import Path

from simplax import functional
from simplax.functional import distributions, objectives, process, surrogates

ROOT = Path(__file__).parents[1]
# as LaTeX numbers the paper's source: one per equation, one per line of an align that is not suppressed
NUM_EQUATIONS, NUM_LABELLED = 124, 108

ROW = re.compile(r"\| \((\d+)\)(?: `(eq:\w+)`)?<br>(.+?) \| (.+?) \| (.+?) \|")


def rows() -> list[tuple[int, str | None, str, str]]:
    """Number, label, code and tests of every equation, in the order of the page."""
    page = (ROOT / "docs" / "equations.md").read_text().splitlines()
    lines = [line for line in page if line.startswith("| (")]
    parsed = [ROW.fullmatch(line) for line in lines]
    assert all(parsed), [line for line, match in zip(lines, parsed) if not match]
    return [(int(m[1]), m[2], m[4], m[5]) for m in parsed if m]


@cache
def defined_in(name: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / name).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def functions_named(code: str) -> list[str]:
    """Dotted names under simplax, from the code column; options such as `decoded=True` are not names."""
    names = re.findall(r"`([A-Za-z_.]+)`", code)
    return [name if "." in name else f"functional.{name}" for name in names]


def test_every_equation_of_the_paper_has_one_row() -> None:
    table = rows()
    assert [number for number, *_ in table] == list(range(1, NUM_EQUATIONS + 1))
    labels = [label for _, label, *_ in table if label]
    assert len(labels) == len(set(labels)) == NUM_LABELLED


def test_every_function_in_the_table_exists() -> None:
    for number, _, code, _ in rows():
        names = functions_named(code)
        assert names or re.search(r"step of the proof of \(\d+\)|a general fact", code), number
        for name in names:
            module, attribute, *members = name.split(".")
            owner = getattr(importlib.import_module(f"simplax.{module}"), attribute)
            for member in members:
                owner = getattr(owner, member)


def test_every_proof_step_leads_to_a_function() -> None:
    code_of = {number: code for number, _, code, _ in rows()}
    for number, code in code_of.items():
        for target in map(int, re.findall(r"proof of \((\d+)\)", code)):
            assert functions_named(code_of[target]), (number, target)


def test_every_equation_has_a_test_that_exists() -> None:
    for number, _, _, tests in rows():
        named = re.findall(r"`([^`]+)`", tests)
        assert named, number
        for test in named:
            file, _, function = test.partition("::")
            assert function.startswith("test_") and function in defined_in(file), (number, test)


def test_every_function_of_the_paper_is_in_the_table() -> None:
    """Those of the modules that transcribe the paper; `uniform_rate` is UDLM's, for comparison."""
    listed = {name for _, _, code, _ in rows() for name in functions_named(code)}
    modules = {module.__name__ for module in (process, objectives, surrogates, distributions)}
    ours = {name for name, value in vars(functional).items() if getattr(value, "__module__", None) in modules}
    assert {f"functional.{name}" for name in ours - {"uniform_rate", "Estimate"}} <= listed
