"""A table for the terminal, in as many pieces as its width asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simplax.suites.benchmark import Column
from simplax.suites.table import Cell, Line, Part, Table

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

_TITLE, _GAP = 18, 2  # widest title that is not wrapped where space is short, spaces between columns
_STYLES = {0: "", 1: "bold", 2: "underline"}


def number(cell: Cell, column: Column) -> str:
    digits = column.digits if cell.digits is None else cell.digits
    return "" if cell.value is None else f"{cell.value:.{digits}f}"


def details(cell: Cell, column: Column) -> list[str]:
    """The interval, and with several seeds what each of them gave."""
    parts = []
    if cell.low is not None and cell.high is not None:
        parts.append(f"[{cell.low:.{column.digits}f}, {cell.high:.{column.digits}f}]")
    if cell.spread:
        parts.append("{" + ", ".join(f"{value:.{column.digits}f}" for value in cell.spread) + "}")
    return parts


def terminal(found: Table) -> Any:
    """For rich: bold and underlined where the terminal can, published numbers dim."""
    from rich.console import Group
    from rich.text import Text

    states = [Text(f"{line.title}: {line.state}.") for line in found.lines if ":" in line.state]
    notes = [Text(text) for text in (*found.footnotes, *found.remarks)]
    parts = [_Fitted(part) for part in found.parts()]
    return Group(Text(found.title, style="bold"), Text(), *parts, *states, *notes)


@dataclass(frozen=True)
class _Fitted:
    """One part on lines no longer than the terminal's: in one piece if that fits, else with what surrounds a number
    below it, and with as many columns at a time as there is room for, the titles of the rows repeated."""

    part: Part

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        columns, room = self.part.columns, options.max_width
        titles = max((len(_title(line)) for line in self.part.lines), default=0)
        wide = titles + sum(_GAP + self._width(column, " ") for column in columns)
        pieces = [columns] if wide <= room else self._pieces(room - min(titles, _TITLE))
        for piece in pieces:
            if self.part.heading:
                yield Text(self.part.heading, style="bold")
            yield self._grid(piece, " " if wide <= room else "\n", first=piece is pieces[0])
            yield Text()

    def _width(self, column: Column, between: str) -> int:
        cells = (line.cells.get(column.key) for line in self.part.lines)
        words = [between.join([number(cell, column), *details(cell, column)]) for cell in cells if cell]
        title = [column.title] if between == " " else column.title.split()
        return max(len(row) for text in (*words, *title) for row in text.split("\n"))

    def _pieces(self, room: int) -> list[tuple[Column, ...]]:
        pieces: list[tuple[Column, ...]] = []
        left = 0
        for column in self.part.columns:
            needed = _GAP + self._width(column, "\n")
            if pieces and needed <= left:
                pieces[-1] = (*pieces[-1], column)
            else:
                pieces.append((column,))
                left = room
            left -= needed
        return pieces

    def _grid(self, columns: Sequence[Column], between: str, *, first: bool) -> Any:
        from rich.table import Table as Grid
        from rich.text import Text

        grid = Grid(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
        grid.add_column("")
        for column in columns:
            grid.add_column(column.title, width=self._width(column, between))
        for line in self.part.lines:
            if line.state and not first:
                continue
            title = Text(_title(line))
            if line.marks:
                title.stylize("dim", len(title) - len(_marks(line)))
            cells = [title, *(_text(line.cells.get(column.key), column, between) for column in columns)]
            if line.state:
                cells[1:2] = [Text(line.state.split(":")[0], style="dim")]
            grid.add_row(*cells, style="" if line.kind == "model" else "dim")
        return grid


def _marks(line: Line) -> str:
    return f" ({line.marks})" if line.marks else ""


def _title(line: Line) -> str:
    return ("  " if line.kind == "published" else "") + line.title + _marks(line)


def _text(cell: Cell | None, column: Column, between: str) -> Any:
    from rich.text import Text

    text = Text()
    if cell is not None:
        text.append(number(cell, column), style=_STYLES[cell.rank])
        for part in details(cell, column):
            text.append(between + part, style="dim")
    return text
