"""What the README and the guides say is run, not trusted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from simplax.methods import METHODS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()


def blocks(language: str) -> list[tuple[str, str]]:
    """Fenced code of one language: (where it is, its text)."""
    found = []
    for page in PAGES:
        for number, text in enumerate(
            re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.M | re.S)
        ):
            found.append((f"{page.relative_to(ROOT)}-{number}", text))
    return found


PYTHON = blocks("python")


def test_readme_has_a_six_line_example() -> None:
    (text,) = (text for where, text in PYTHON if where.startswith("README"))
    assert len([line for line in text.splitlines() if line.strip()]) == 6


@pytest.mark.parametrize("text", [text for _, text in PYTHON], ids=[where for where, _ in PYTHON])
def test_python_examples_run_and_print_what_they_promise(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(compile(text, "<example>", "exec"), {"__name__": "__example__"})
    promised = [float(number) for number in re.findall(r"# about ([\d.]+)", text)]
    printed = [float(line) for line in capsys.readouterr().out.split()] if promised else []
    assert printed == pytest.approx(promised, abs=0.03)


def test_every_make_command_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    pages = [*PAGES, ROOT / "CONTRIBUTING.md"]
    named = {name for page in pages for name in re.findall(r"(?:^|`)make ([a-z]+)", page.read_text(), re.M)}
    assert {"demo", "test"} <= named <= targets


def test_file_tree_names_every_module() -> None:
    package = ROOT / "src" / "simplax"
    modules = {path.name for path in package.glob("*.py")}
    modules |= {f"{path.parent.name}/" for path in package.glob("*/__init__.py")}
    tree = CONTRIBUTING.split("```text\n")[1].split("```")[0]
    listed = set(re.findall(r"^  (\S+)", tree, re.M))
    assert listed == modules


def test_readme_names_every_method_or_what_it_is_a_variant_of() -> None:
    named = README.split("**Methods**")[1].split("\n*")[0]
    for method in METHODS.values():
        assert method.facts.title.split(",")[0] in named, method.facts.title
