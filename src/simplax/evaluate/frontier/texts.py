"""Sample texts beside the numbers: the first by seed at the matched point, never a chosen one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from simplax.evaluate.frontier.matches import data_row
from simplax.evaluate.frontier.tables import Table, perplexity

LONGEST = 400
CUT = "[...]"


def excerpt(text: str, longest: int = LONGEST) -> str:
    """A text on one line, cut after a word where it is too long."""
    flat = " ".join(text.split())
    if len(flat) <= longest:
        return flat
    head = flat[: longest + 1].rsplit(" ", 1)[0] if " " in flat[: longest + 1] else flat[:longest]
    return f"{head} {CUT}"


def texts_page(rows: Sequence[Mapping[str, Any]], found: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: one table per number of steps, then the data and the controls."""
    parts = [
        "# Sample texts\n",
        f"The first sequence by seed at each matched point, cut with {CUT} and not chosen by anyone.\n",
    ]
    for count in sorted({match["num_steps"] for match in found}):
        here = [match for match in found if match["num_steps"] == count]
        parts += [f"## {count:,} steps\n", _table([(m["row"], m) for m in here])]
    others = [data_row(rows), *(row for row in rows if row["kind"] == "control")]
    parts += ["## Data and controls\n", _table([(row["row"], row) for row in others])]
    return "\n".join(parts)


def _table(sets: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    lines = [
        [
            label,
            f"{row['temperature']:g}" if "temperature" in row else "",
            f"{row['columns']['entropy']:.2f}",
            perplexity(row["columns"]["perplexity"]),
            excerpt(row["text"]),
        ]
        for label, row in sets
    ]
    return Table(["set", "T", "entropy", "PPL", "text"], lines).markdown()
