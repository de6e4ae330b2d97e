"""A table for the terminal, and as Markdown, HTML and LaTeX."""

from __future__ import annotations

import html as escaping
from collections.abc import Callable
from typing import Any

from simplax.suites.benchmark import Column
from simplax.suites.table import Cell, Line, Table


def _number(cell: Cell, column: Column) -> str:
    digits = column.digits if cell.digits is None else cell.digits
    return "" if cell.value is None else f"{cell.value:.{digits}f}"


def _interval(cell: Cell, column: Column) -> str:
    """The interval, and with several seeds what each of them gave."""
    parts = []
    if cell.low is not None and cell.high is not None:
        parts.append(f"[{cell.low:.{column.digits}f}, {cell.high:.{column.digits}f}]")
    if cell.spread:
        parts.append("{" + ", ".join(f"{value:.{column.digits}f}" for value in cell.spread) + "}")
    return " ".join(parts)


Style = Callable[[str, int], str]
"""A number as the best (1), the second best (2) or another (0)."""


def _cells(line: Line, columns: tuple[Column, ...], style: Style, escape: Callable[[str], str]) -> list[str]:
    found = []
    for column in columns:
        cell = line.cells.get(column.key)
        if cell is None:
            found.append("")
            continue
        number, interval = style(_number(cell, column), cell.rank), escape(_interval(cell, column))
        found.append(f"{number} {interval}".strip())
    if line.state and found:
        found[0] = escape(line.state)
    return found


def terminal(found: Table) -> Any:
    """For rich: bold and underlined where the terminal can, published numbers dim."""
    from rich.console import Group
    from rich.table import Table as Grid
    from rich.text import Text

    grid = Grid(
        "", *(column.title for column in found.columns), box=None, pad_edge=False, header_style="bold"
    )
    styles = {0: "", 1: "bold", 2: "underline"}
    for line in found.lines:
        title = Text(f"  {line.title}" if line.kind == "published" else line.title)
        if line.marks:
            title.append(f" ({line.marks})", style="dim")
        cells = [title]
        for column in found.columns:
            cell = line.cells.get(column.key)
            text = Text()
            if cell is not None:
                text.append(_number(cell, column), style=styles[cell.rank])
                interval = _interval(cell, column)
                text.append(f" {interval}" if interval else "", style="dim")
            cells.append(text)
        if line.state:
            cells[1:2] = [Text(line.state.split(":")[0], style="dim")]
        grid.add_row(*cells, style="" if line.kind == "model" else "dim")
    states = [Text(f"{line.title}: {line.state}.") for line in found.lines if ":" in line.state]
    notes = [Text(text) for text in (*found.footnotes, *found.remarks)]
    return Group(Text(found.title, style="bold"), Text(), grid, Text(), *states, *notes)


def markdown(found: Table) -> str:
    styles: dict[int, Callable[[str], str]] = {
        0: lambda text: text,
        1: lambda text: f"**{text}**",
        2: lambda text: f"<u>{text}</u>",
    }

    def escape(text: str) -> str:
        return text.replace("|", "\\|")

    head = ["", *(column.title for column in found.columns)]
    lines = [f"**{found.title}**", "", _bars(head), _bars(["---"] * len(head))]
    for line in found.lines:
        title = f"*{line.title}*" if line.kind != "model" else line.title
        mark = f" <sup>{line.marks}</sup>" if line.marks else ""
        cells = _cells(line, found.columns, lambda text, rank: styles[rank](text), escape)
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
    heads = "".join(f"<th>{escaping.escape(column.title)}</th>" for column in found.columns)
    rows = []
    for line in found.lines:
        mark = f" <sup>{line.marks}</sup>" if line.marks else ""
        cells = _cells(line, found.columns, lambda text, rank: styles[rank](text), escaping.escape)
        body = "".join(f"<td>{cell}</td>" for cell in cells)
        rows.append(f'<tr class="{line.kind}"><th>{escaping.escape(line.title)}{mark}</th>{body}</tr>')
    notes = "".join(f"<p>{escaping.escape(text)}</p>" for text in (*found.footnotes, *found.remarks))
    return "\n".join([
        f"<table><caption>{escaping.escape(found.title)}</caption>",
        f"<thead><tr><th></th>{heads}</tr></thead>",
        "<tbody>",
        *rows,
        "</tbody></table>",
        notes,
    ])  # fmt: skip


def page_run(found: Table) -> dict[str, Any]:
    """The table as a run of a page, which goes through its columns and draws each as bars."""
    columns = []
    for column in found.columns:
        bars = []
        for line in found.lines:
            cell = line.cells.get(column.key)
            words = "" if cell is None else f"{_number(cell, column)} {_interval(cell, column)}".strip()
            bars.append({
                "title": line.title,
                "kind": line.kind,
                "value": None if cell is None else cell.value,
                "words": words or line.state,
            })  # fmt: skip
        columns.append({"title": column.title, "bars": bars})
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
    heads = " & ".join(["", *(_tex(column.title) for column in found.columns)])
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{_tex(found.title)}}}"]
    lines += [rf"\begin{{tabular}}{{l{'c' * len(found.columns)}}}", r"\toprule", rf"{heads} \\", r"\midrule"]
    for line in found.lines:
        title = rf"\quad {_tex(line.title)}" if line.kind == "published" else _tex(line.title)
        mark = rf"\textsuperscript{{{line.marks}}}" if line.marks else ""
        cells = _cells(line, found.columns, lambda text, rank: styles[rank](text), _tex)
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
