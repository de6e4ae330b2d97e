"""A table as Markdown, HTML and LaTeX, and as a run of a page; `terminal` prints it."""

from __future__ import annotations

import html as escaping
from collections.abc import Callable
from typing import Any

from simplax.suites.benchmark import Column
from simplax.suites.table import Line, Table
from simplax.suites.terminal import details, number, terminal

Style = Callable[[str, int], str]
"""A number as the best (1), the second best (2) or another (0)."""


def _cells(line: Line, columns: tuple[Column, ...], style: Style, escape: Callable[[str], str]) -> list[str]:
    found = []
    for column in columns:
        cell = line.cells.get(column.key)
        if cell is None:
            found.append("")
            continue
        value, around = style(number(cell, column), cell.rank), escape(" ".join(details(cell, column)))
        found.append(f"{value} {around}".strip())
    if line.state and found:
        found[0] = escape(line.state)
    return found


def markdown(found: Table) -> str:
    styles: dict[int, Callable[[str], str]] = {
        0: lambda text: text,
        1: lambda text: f"**{text}**",
        2: lambda text: f"<u>{text}</u>",
    }

    def escape(text: str) -> str:
        return text.replace("|", "\\|")

    lines = [f"**{found.title}**"]
    for part in found.parts():
        head = ["", *(column.title for column in part.columns)]
        lines += ["", *([f"*{part.heading}*", ""] if part.heading else [])]
        lines += [_bars(head), _bars(["---"] * len(head))]
        for line in part.lines:
            title = f"*{line.title}*" if line.kind != "model" else line.title
            mark = f" <sup>{line.marks}</sup>" if line.marks else ""
            cells = _cells(line, part.columns, lambda text, rank: styles[rank](text), escape)
            lines.append(_bars([escape(title) + mark, *cells]))
    for text in (*found.footnotes, *found.remarks):
        lines += ["", text]
    return "\n".join(lines)


def _bars(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def html(found: Table) -> str:
    """A fragment that needs nothing but itself."""
    styles: dict[int, Callable[[str], str]] = {
        0: lambda text: text,
        1: lambda text: f"<strong>{text}</strong>",
        2: lambda text: f"<u>{text}</u>",
    }
    tables = []
    for part in found.parts():
        heads = "".join(f"<th>{escaping.escape(column.title)}</th>" for column in part.columns)
        rows = []
        for line in part.lines:
            mark = f" <sup>{line.marks}</sup>" if line.marks else ""
            cells = _cells(line, part.columns, lambda text, rank: styles[rank](text), escaping.escape)
            body = "".join(f"<td>{cell}</td>" for cell in cells)
            rows.append(f'<tr class="{line.kind}"><th>{escaping.escape(line.title)}{mark}</th>{body}</tr>')
        tables += [
            f"<table><caption>{escaping.escape(part.heading or found.title)}</caption>",
            f"<thead><tr><th></th>{heads}</tr></thead>",
            "<tbody>",
            *rows,
            "</tbody></table>",
        ]
    title = [f"<h2>{escaping.escape(found.title)}</h2>"] if found.columns and found.columns[0].heading else []
    notes = "".join(f"<p>{escaping.escape(text)}</p>" for text in (*found.footnotes, *found.remarks))
    return "\n".join([*title, *tables, notes])


def page_run(found: Table) -> dict[str, Any]:
    """The table as a run of a page, which goes through its columns and draws each as bars."""
    columns = []
    for column in found.columns:
        bars = []
        for line in found.lines:
            cell = line.cells.get(column.key)
            words = "" if cell is None else " ".join([number(cell, column), *details(cell, column)]).strip()
            bars.append({
                "title": line.title,
                "kind": line.kind,
                "value": None if cell is None else cell.value,
                "words": words or line.state,
            })  # fmt: skip
        columns.append({"title": column.full_title, "bars": bars})
    notes = [*found.footnotes, *found.remarks]
    return {"kind": "scores", "name": found.title, "columns": columns, "notes": notes}


_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
}  # fmt: skip


def _tex(text: str) -> str:
    return "".join(_SPECIAL.get(letter, letter) for letter in text)


def latex(found: Table) -> str:
    """With the package booktabs."""
    styles: dict[int, Callable[[str], str]] = {
        0: lambda text: text,
        1: lambda text: rf"\textbf{{{text}}}",
        2: lambda text: rf"\underline{{{text}}}",
    }
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{_tex(found.title)}}}"]
    for part in found.parts():
        lines += [rf"\par\medskip\textit{{{_tex(part.heading)}}}\par\smallskip"] if part.heading else []
        lines += [rf"\begin{{tabular}}{{l{'c' * len(part.columns)}}}", r"\toprule"]
        lines += [rf"{' & '.join(['', *(_tex(column.title) for column in part.columns)])} \\", r"\midrule"]
        for line in part.lines:
            title = rf"\quad {_tex(line.title)}" if line.kind == "published" else _tex(line.title)
            mark = rf"\textsuperscript{{{line.marks}}}" if line.marks else ""
            cells = _cells(line, part.columns, lambda text, rank: styles[rank](text), _tex)
            lines.append(rf"{' & '.join([title + mark, *cells])} \\")
        lines += [r"\bottomrule", r"\end{tabular}", ""]
    lines += [rf"{_tex(text)}\par" for text in (*found.footnotes, *found.remarks)]
    return "\n".join([*lines, r"\end{table}"])


FORMATS: dict[str, Callable[[Table], Any]] = {
    "terminal": terminal,
    "markdown": markdown,
    "html": html,
    "latex": latex,
}
