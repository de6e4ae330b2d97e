"""Formulas of the documentation are TeX that converts, and the built pages have them as MathML."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("latex2mathml", reason="the docs extra is not installed")

from docs_math import _INLINE, mathml
from markdown import Markdown

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
METHOD_PAGES = [page for page in PAGES if page.parent.name == "methods"]
GREEK = re.compile(r"[α-ω]_|x̂|p̂|Σ_")


def written(text: str) -> str:
    return Markdown(extensions=["docs_math"]).convert(text)


def prose(page: Path) -> str:
    """A page without code."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT / "docs")))
def test_every_formula_converts(page: Path) -> None:
    for tex in re.findall(r"^```math\n(.*?)^```", page.read_text(), re.M | re.S):
        assert mathml(tex, "block").count("<math") == 1
    text = prose(page)
    for tex in re.findall(_INLINE, text):
        mathml(tex)
    assert "$" not in re.sub(_INLINE, "", text), "a dollar sign without its partner"
    assert not GREEK.search(text), "a formula outside of $...$"


@pytest.mark.parametrize("page", METHOD_PAGES, ids=lambda page: page.stem)
def test_definitions_are_formulas(page: Path) -> None:
    definition = page.read_text().split("## Definition")[1].split("## In the code")[0]
    assert "```math" in definition and "```text" not in definition
    # every page says what it trains and how it samples
    assert "**Process.**" in definition and "**Loss" in definition and "**Sampler" in definition


def test_dollar_signs_that_are_no_formulas_stay() -> None:
    assert "<math" not in written("It costs $ 5 or $6 or 7 $, `$HOME` and \\$x\\$ too.")
    assert written("Let $x$ be.").count("<math") == 1
    assert "<p>" in written("$x$")


def test_mistakes_in_formulas_are_named() -> None:
    with pytest.raises(ValueError, match="unknowncommand"):
        mathml(r"\unknowncommand x")
    with pytest.raises(ValueError, match="out of place"):
        mathml("a & b")
