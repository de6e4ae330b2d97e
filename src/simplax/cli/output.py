"""What a verb prints: JSON for machines or text for people on stdout, and nothing else there."""

from __future__ import annotations

import json as json_module
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simplax.errors import UserError
from simplax.io.progress import first_process as first_process

if TYPE_CHECKING:
    from simplax.evaluate.cost import Cost

_PIPE_WIDTH = 400  # a pipe has no width to fit a table into


def emit(json: bool, data: Any, text: Callable[[], Any]) -> None:
    """Print `data` as JSON, or what `text()` returns (a string or a rich table); first process only."""
    if not first_process():
        return
    if json:
        print(json_module.dumps(_plain(data), indent=2, allow_nan=False))
        return
    from rich.console import Console

    if sys.stdout.isatty():
        Console(highlight=False).print(text(), markup=False)
        return
    console = Console(width=_PIPE_WIDTH, highlight=False)
    with console.capture() as captured:
        console.print(text(), markup=False)
    print("\n".join(line.rstrip() for line in captured.get().splitlines()))


def check_targets(*paths: Path | None) -> None:
    """Refuse files that cannot be written before the work is done that would fill them."""
    for path in paths:
        if path is None:
            continue
        if path.is_dir():
            raise UserError(f"{path} is a directory: name a file.")
        if path.exists() and not path.is_file():
            raise UserError(
                f"{path} is not a file that can be replaced: name another; results can go to stdout with --json."
            )
        real = path.resolve()  # a link is written through
        place = next(parent for parent in real.parents if parent.exists())
        linked = path.is_symlink() and place != real.parent
        # files are replaced whole, so it is their directory that must allow it
        if linked or not place.is_dir() or not os.access(place, os.W_OK):
            raise UserError(f"{path} cannot be written: choose another place.")


def say(message: str) -> None:
    """Print a line for the person at the terminal on stderr; first process only."""
    if first_process():
        print(message, file=sys.stderr)


def announce(cost: Cost) -> dict[str, Any]:
    """Tell the person what the work will cost, if it is long; the same as JSON, for the result."""
    sentence = cost.sentence()
    if sentence:
        say(sentence)
    return cost.to_json()


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]], names: int = 0) -> Any:
    """A table whose cells are wrapped where space is short; one of numbers, whose rows are named by its first `names`
    columns, is continued below instead."""
    from rich.table import Table

    from simplax.cli.fitted import Fitted

    if names:
        return Fitted(columns, rows, names)
    result = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        result.add_column(column, overflow="fold")
    for row in rows:
        result.add_row(*row)
    return result


def facts(pairs: Mapping[str, Any]) -> Any:
    """Names and values, one pair per line."""
    from rich.table import Table

    result = Table(box=None, pad_edge=False, show_header=False)
    for name, value in pairs.items():
        result.add_row(name, f"{value:.4g}" if isinstance(value, float) else str(value))
    return result


def _plain(value: Any) -> Any:
    """Numbers that JSON cannot write become null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
