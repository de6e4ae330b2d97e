"""Tables that keep to the width of the terminal: as many columns at a time as there is room for, nothing cut off.

Where they do not fit in one piece, the interval of a number goes below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

_GAP = 2
_LONG = 32  # cells longer than this are wrapped where the table does not fit in one piece
_SHORT = 8  # names of rows are not made narrower than this


@dataclass(frozen=True, eq=False)
class Fitted:
    """A table in one piece if it fits, else in several with its first `names` columns, which name the rows, in each."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    names: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room, every = options.max_width, range(len(self.columns))
        whole = [max(self._cells(place), len(self.columns[place])) for place in every]
        if sum(whole) + _GAP * (len(whole) - 1) <= room:
            yield self._grid(dict(enumerate(whole)))
            return
        below = Fitted(self.columns, [_stacked(row, self.names) for row in self.rows], self.names)
        yield from below._continued(whole[: self.names], room)

    def _continued(self, names: Sequence[int], room: int) -> RenderResult:
        """Piece after piece, the rows named in each."""
        every = range(len(self.columns))
        named = _shrunk(names, room // 2)
        left = room - sum(named) - _GAP * len(named)
        values = {place: min(self._narrow(place), left) for place in every[self.names :]}
        for number, piece in enumerate(_pieces(values, left)):
            if number:
                yield ""
            yield self._grid({**dict(enumerate(named)), **{place: values[place] for place in piece}})

    def _cells(self, place: int) -> int:
        return max((len(line) for row in self.rows for line in str(row[place]).split("\n")), default=0)

    def _narrow(self, place: int) -> int:
        """As narrow as a column can be without a word in two, unless its cells are short."""
        words = [word for row in self.rows for word in str(row[place]).split()]
        longest = max(map(len, [*words, *self.columns[place].split()]), default=0)
        return max(longest, min(self._cells(place), _LONG))

    def _grid(self, widths: dict[int, int]) -> Any:
        from rich.table import Table

        grid = Table(box=None, pad_edge=False, header_style="bold")
        for place, width in widths.items():
            grid.add_column(self.columns[place], width=width, overflow="fold")
        for row in self.rows:
            grid.add_row(*(row[place] for place in widths))
        return grid


def _stacked(row: Sequence[Any], names: int) -> list[Any]:
    """Cells such as `5 (4 to 6)` on two lines; the first `names` as they are."""
    from rich.text import Text

    def one(cell: Any) -> Any:
        parts = str(cell).replace(" (", "\n(").replace(" [", "\n[")
        return Text(parts, style=cell.style) if isinstance(cell, Text) else parts

    return [*row[:names], *map(one, row[names:])]


def _shrunk(widths: Sequence[int], room: int) -> list[int]:
    """The widest one narrowed until all fit."""
    found = list(widths)
    while sum(found) + _GAP * len(found) > room and max(found) > _SHORT:
        found[found.index(max(found))] -= 1
    return found


def _pieces(widths: dict[int, int], room: int) -> list[list[int]]:
    pieces: list[list[int]] = []
    left = -1
    for place, width in widths.items():
        if left < width:
            pieces.append([])
            left = room
        pieces[-1].append(place)
        left -= width + _GAP
    return pieces
