"""`simplax compare RESULT...`: stored results side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import tyro

from simplax.cli.output import emit, table
from simplax.cli.parsing import Json, run
from simplax.errors import UserError

if TYPE_CHECKING:
    from simplax.evaluate.results import Result

_SHARES = ("solved", "valid")


def main(arguments: list[str]) -> None:
    run(compare, arguments, "simplax compare")


def compare(
    results: Annotated[
        tuple[str, ...],
        tyro.conf.Positional,
        tyro.conf.arg(
            metavar="RESULT", help="files that evaluate, frontier and sweep wrote, or a frontier's folder"
        ),
    ],
    /,
    *,
    json: Json = False,
) -> None:
    """Print results side by side, and mark with * every row whose settings are not those of the first.

    Each kind of evaluation has a table of its own. What model it is, when and how fast it ran are not settings.
    """
    from simplax.evaluate.results import by_evaluation, read

    if not results:
        raise UserError("name at least one result file.")
    groups = by_evaluation([read(path) for path in results])
    data = {kind: _plain(found) for kind, found in groups.items()}
    emit(json, data, lambda: _shown(groups))


def _plain(found: list[Result]) -> list[dict[str, Any]]:
    return [
        {
            "file": result.file,
            "row": line.label,
            "values": line.values,
            "differs": {
                name: {"first": first, "here": here}
                for name, (first, here) in result.differences(found[0]).items()
            },
        }
        for result in found
        for line in result.lines
    ]


def _shown(groups: dict[str, list[Result]]) -> Any:
    from rich.console import Group
    from rich.text import Text

    parts: list[Any] = []
    for kind, found in groups.items():
        names = list(dict.fromkeys(name for result in found for line in result.lines for name in line.values))
        lines, words = [], []
        for result in found:
            differs = result.differences(found[0])
            if differs:
                listed = "; ".join(
                    f"{n} {_short(here)}, not {_short(first)}" for n, (first, here) in differs.items()
                )
                words.append(Text(f"* {result.file}: {listed}"))
            for line in result.lines:
                cells = [_cell(name, line.values.get(name)) for name in names]
                lines.append(["*" if differs else "", result.file, line.label, *cells])
        if not words and len(found) > 1:
            words.append(Text("The settings are the same."))
        parts += [Text(kind), table(["", "file", "set", *names], lines, names=3), *words, Text()]
    return Group(*parts[:-1])


def _cell(name: str, value: Any) -> str:
    from simplax.evaluate.frontier.tables import number

    if value is None:
        return ""
    scale = 100 if name.startswith(_SHARES) else 1
    if isinstance(value, list):
        middle, *interval = [None if v is None else v * scale for v in value]
        return number(middle) + (
            "" if None in interval else f" ({number(interval[0])} to {number(interval[1])})"
        )
    return value if isinstance(value, str) else number(float(value) * scale)


def _short(value: Any) -> str:
    """A setting in a sentence; long values such as digests are shortened."""
    text = "absent" if value is None else str(value)
    return text if len(text) <= 40 else f"{text[:12]}..."
