"""Formulas of the documentation: TeX between dollar signs and in ```math blocks becomes MathML when the site is built.

Browsers draw MathML themselves, so the pages load nothing for it. `mkdocs.yml` names both functions; the same source
is also drawn where Markdown is shown as it is, as on GitHub.
"""

from __future__ import annotations

import re
from typing import Any
from xml.etree.ElementTree import Element, fromstring

from latex2mathml.converter import convert
from markdown import Extension, Markdown
from markdown.inlinepatterns import InlineProcessor

# no space inside the dollar signs and no digit behind them, so that prices stay prices
_INLINE = r"(?<![\\$])\$(?![\s$])([^$\n]*?)(?<![\s\\])\$(?![\d$])"
_AFTER_CODE = 185  # spans of code come first (190), escapes later (180)


def mathml(tex: str, display: str = "inline") -> str:
    """One formula as MathML; a mistake in it is an error that names it."""
    # the converter knows the environment that MathML has columns for, not its inner form
    found = convert(re.sub(r"\{aligned\}", "{align*}", tex.strip()), display=display)
    # names of laws are identifiers, for operators get space on both sides; the converter takes the tilde for a letter
    found = re.sub(r"<mo>([A-Za-z]{2,})</mo>", r"<mi>\1</mi>", found)
    found = found.replace("<mi>&#x0007E;</mi>", "<mo>&#x0223C;</mo>")
    found = re.sub(
        r"(<mi>(?:log|ln|exp|min|max|arcsin|argmax)</mi>)(?!<mo[ >])", r'\1<mspace width="0.17em"/>', found
    )
    try:
        root = fromstring(found)
    except SyntaxError as error:
        raise ValueError(f"this formula has a sign out of place, perhaps an &: {tex}") from error
    unknown = [text for text in root.itertext() if "\\" in text]
    if unknown:
        raise ValueError(f"this formula has a command that is not known, {unknown[0]}: {tex}")
    return found


def fence(source: str, language: str, css_class: str, options: Any, md: Markdown, **more: Any) -> str:
    """A ```math block, for superfences."""
    return f'<div class="formula" tabindex="0">{mathml(source, "block")}</div>'


class _Inline(InlineProcessor):
    def handleMatch(self, m: re.Match[str], data: str) -> tuple[Element | str, int, int]:
        # in a span, for a paragraph that is nothing but a formula would otherwise lose its element
        return self.md.htmlStash.store(f"<span>{mathml(m[1])}</span>"), m.start(0), m.end(0)


class Formulas(Extension):
    def extendMarkdown(self, md: Markdown) -> None:
        md.inlinePatterns.register(_Inline(_INLINE, md), "formula", _AFTER_CODE)


def makeExtension(**options: Any) -> Formulas:
    """What Python-Markdown calls to load this."""
    return Formulas(**options)
