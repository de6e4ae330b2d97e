"""The tables of a frontier: in the paper's form, at the data's entropy, and with every column."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from simplax.evaluate.frontier.curve import EDGE_NOTE, OFF_NOTE
from simplax.evaluate.frontier.matches import data_row
from simplax.evaluate.text.measure import BELOW_DATA

Row = Mapping[str, Any]
OFF, EDGE, BELOW, CAUGHT = "†", "‡", "!", "§"
LEGEND = {
    OFF: "entropy more than 0.05 nats from the data's",
    EDGE: "the match is the lowest or highest temperature measured",
    BELOW: "perplexity below the data's own: a warning, not a success",
    CAUGHT: "other columns distinguish this set from human text (see the columns)",
}
# what a generator shows that repeats itself, within a sample or from one to the next
_REPEATS = {"rep_1", "rep_2", "rep_3", "seq_rep_4_pass", "unique_rows", "distinct_4", "entropy_pooled"}
_BRIEF = ("rep_2", "seq_rep_4_pass", "unique_rows", "rank_chi2_z", "energy_z", "typicality_z", "mmd_z")


@dataclass(frozen=True)
class Table:
    """Cells as text; `strong`: (row, column) of those to stand out; `labels`: how many columns name a row."""

    columns: list[str]
    rows: list[list[str]]
    strong: frozenset[tuple[int, int]] = frozenset()
    labels: int = 1

    def markdown(self) -> str:
        cells = [
            [f"**{escape(x)}**" if (i, j) in self.strong else escape(x) for j, x in enumerate(line)]
            for i, line in enumerate(self.rows)
        ]
        lines = [list(map(escape, self.columns)), ["---"] * len(self.columns), *cells]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def escape(text: str) -> str:
    """Text that a Markdown table shows as it is, on one line."""
    flat = " ".join(text.split())
    for old, new in (("\\", "\\\\"), ("|", "\\|"), ("<", "&lt;"), ("*", "\\*"), ("_", "\\_"), ("`", "\\`")):
        flat = flat.replace(old, new)
    return flat


def main_table(rows: Sequence[Row], found: Sequence[Row]) -> Table:
    """The paper's form: a row per model and a column per number of network calls, each PPL (entropy).

    The data and the controls call no network. The lowest perplexity of a column is bold among the entries without a
    mark: the others do not compare.
    """
    counts = sorted({match["num_steps"] for match in found})
    best = {count: _best([m for m in found if m["num_steps"] == count]) for count in counts}
    lines, strong = [], set()
    for i, label in enumerate(dict.fromkeys(match["row"] for match in found)):
        cells = []
        for j, count in enumerate(counts):
            match = next((m for m in found if (m["row"], m["num_steps"]) == (label, count)), None)
            cells.append("" if match is None else _cell(match))
            if match is not None and match is best[count]:
                strong.add((i, j + 2))
        lines.append([label, "", *cells])
    for row in rows:
        if row["kind"] != "model":
            marks = "".join(_marks(row)) if row["kind"] == "control" else ""
            lines.append([row["row"], _pair(row["columns"]) + marks, *[""] * len(counts)])
    names = ["PPL (entropy)", "no network", *(f"NFE {count:,}" for count in counts)]
    return Table(names, lines, frozenset(strong))


def matched_table(found: Sequence[Row]) -> Table:
    """Every match with its intervals, beside the perplexity interpolated at the data's entropy."""
    lines = [
        [
            match["row"],
            f"{match['num_steps']:,}",
            f"{match['nfe']:g}",
            f"{match['temperature']:g}",
            _with(match["entropy"], match["intervals"]["entropy"], ".2f"),
            f"{match['entropy_gap']:+.3f}",
            _with(match["perplexity"], match["intervals"]["perplexity"]),
            _interpolated(match["interpolated"]),
            f"{match['log_ppl_gap']:+.2f}",
            "; ".join(match["notes"]),
            ", ".join(match["flags"]),
        ]
        for match in found
    ]
    names = [
        "model", "steps", "NFE", "T", "entropy (95 %)", "off by", "PPL (95 %)", "PPL at the data's entropy (95 %)",
        "log PPL - data's", "match", "caught by",
    ]  # fmt: skip
    return Table(names, lines, labels=2)


def set_table(rows: Sequence[Row]) -> Table:
    """The columns that people look at first, for any sets."""
    lines = []
    for row in rows:
        columns, intervals = row["columns"], row.get("intervals")
        ppl, entropy = columns["perplexity"], columns["entropy"]
        lines.append(
            [
                row["row"],
                perplexity(ppl) if intervals is None or ppl is None else _with(ppl, intervals["perplexity"]),
                number(entropy, ".2f") if intervals is None else _with(entropy, intervals["entropy"], ".2f"),
                *(number(columns.get(name)) for name in _BRIEF),
                ", ".join(row["flags"]),
            ]
        )
    return Table(["set", "PPL (95 %)", "entropy (95 %)", *_BRIEF, "caught by"], lines)


def columns_table(rows: Sequence[Row], found: Sequence[Row]) -> Table:
    """Everything that was measured, for the data, the controls and every match."""
    sets = [*((row["row"], row) for row in rows if row["kind"] != "model")]
    sets += [(f"{m['row']}, {m['num_steps']:,} steps, T {m['temperature']:g}", m) for m in found]
    names = list(dict.fromkeys(name for _, row in sets for name in row["columns"]))
    lines = [
        [label, *(number(row["columns"].get(name)) for name in names), ", ".join(row["flags"])]
        for label, row in sets
    ]
    return Table(["set", *names, "caught by"], lines)


def number(value: float | None, form: str = "") -> str:
    """Short enough for a table: four figures, and never an exponent below a million."""
    if value is None or not math.isfinite(value):
        return "n/a"
    if form:
        return format(value, form)
    if value == 0 or abs(value) >= 1e6 or abs(value) < 1e-3:
        return f"{value:.3g}"
    digits = max(0, 3 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(digits, 4)}f}"


def perplexity(value: float | None) -> str:
    return number(value, ".1f" if value is not None and value < 1000 else ",.0f")


def _with(value: float, interval: Sequence[float], form: str = "") -> str:
    show = perplexity if not form else (lambda x: number(x, form))
    return f"{show(value)} ({show(interval[0])} to {show(interval[1])})"


def _interpolated(found: Row | None) -> str:
    if found is None:
        return "not reached"
    if found["low"] is None:
        return perplexity(found["perplexity"])
    return _with(found["perplexity"], (found["low"], found["high"]))


def _pair(columns: Mapping[str, float | None]) -> str:
    return f"{perplexity(columns['perplexity'])} ({number(columns['entropy'], '.2f')})"


def _marks(row: Row) -> list[str]:
    notes, flags = row.get("notes", ()), row["flags"]
    return [
        *([OFF] if any(note.startswith(OFF_NOTE) for note in notes) else []),
        *([EDGE] if EDGE_NOTE in notes else []),
        *([BELOW] if BELOW_DATA in flags else []),
        *([CAUGHT] if any(flag != BELOW_DATA for flag in flags) else []),
    ]


def _cell(match: Row) -> str:
    calls = "" if round(match["nfe"]) == match["num_steps"] else f" [{match['nfe']:.4g} calls]"
    return _pair(match["columns"]) + "".join(_marks(match)) + calls


def _best(found: Sequence[Row]) -> Row | None:
    """The lowest perplexity of the comparable matches.

    Comparable is a match near the data's entropy, between two measured temperatures, not below the data, without
    repetition, and with no more calls than the others.
    """
    fair = [
        match
        for match in found
        if not {OFF, EDGE, BELOW} & set(_marks(match))
        and not _REPEATS & set(match["flags"])
        and round(match["nfe"]) <= match["num_steps"]
    ]
    return min(fair, key=lambda m: m["perplexity"], default=None) if len(found) > 1 else None


def summary(rows: Sequence[Row]) -> str:
    """One sentence about the human text everything is compared with."""
    data = data_row(rows)
    return (
        f"Human text: perplexity {perplexity(data['columns']['perplexity'])}, entropy "
        f"{data['columns']['entropy']:.3f} nats ({data['num']} held-out sequences)."
    )
