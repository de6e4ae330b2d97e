"""The files of a study: frontier.json, table.md, texts.md, frontier.png, frontier.svg and frontier.html."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from simplax.evaluate.frontier.matches import curves, data_row
from simplax.evaluate.frontier.tables import LEGEND, columns_table, main_table, matched_table, summary
from simplax.evaluate.frontier.texts import excerpt, texts_page
from simplax.io.files import write_text
from simplax.io.manifest import write
from simplax.viz.frontier import draw_frontier, frontier_run
from simplax.viz.player import write_player

RESULT = "frontier.json"
_LEFT_OUT = ("per_sample", "text", "settings")
"""Of a point in frontier.json: its own file has them."""

Row = Mapping[str, Any]


def shortened(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in _LEFT_OUT} for row in rows]


def tables_page(rows: Sequence[Row], found: Sequence[Row], scorer: str, setting: str) -> str:
    """Markdown of the three tables, with what is needed to read them."""
    notes = "\n".join(f"- {row['row']}: {row['note']}" for row in rows if row.get("note"))
    marks = "\n".join(f"- {mark} {what}" for mark, what in LEGEND.items())
    return f"""# Perplexity at the entropy of the data

{setting} Perplexity under {scorer}. {summary(rows)}

{main_table(rows, found).markdown()}
Every entry is the measured temperature whose entropy is nearest to the data's. Bold is the lowest of a column among
entries that compare. Marks:

{marks}

Controls, none of which comes from a model:

{notes}

## Matches

Intervals are of 95 %, from resampled sets of samples. The perplexity at the data's entropy lies between two neighbours
on the curve, in the logarithm and linear in entropy; where the curve does not reach that entropy there is none.

{matched_table(found).markdown()}
## All columns

{columns_table(rows, found).markdown()}"""


def write_study(
    out: Path,
    record: dict[str, Any],
    rows: Sequence[Row],
    found: Sequence[Row],
    *,
    scorer: str,
    setting: str,
) -> list[str]:
    """Write everything but the points themselves; the names of the files."""
    out.mkdir(parents=True, exist_ok=True)
    write_text(out / "table.md", tables_page(rows, found, scorer, setting))
    write_text(out / "texts.md", texts_page(rows, found))
    figures = draw_frontier(
        curves(rows),
        [row for row in rows if row["kind"] == "control"],
        data_row(rows),
        [out / "frontier.png", out / "frontier.svg"],
        title=setting,
        scorer=scorer,
    )
    lines = curves(rows)
    texts = [excerpt(str(point.get("text", ""))) for points in lines.values() for point in points]
    run = frontier_run(lines, data_row(rows), setting=f"{setting} Perplexity under {scorer}.", texts=texts)
    page = write_player(out / "frontier.html", "A frontier, temperature by temperature", [run])
    written = write(out / RESULT, record)
    return [str(written), str(out / "table.md"), str(out / "texts.md"), *figures, str(page)]
