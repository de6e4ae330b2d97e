"""From the rows of a frontier to one line per model and number of steps: its curve at the entropy of the data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from simplax.errors import UserError
from simplax.evaluate.frontier.curve import bootstrap, read
from simplax.evaluate.text.measure import BELOW_DATA

Row = Mapping[str, Any]


def data_row(rows: Sequence[Row]) -> Row:
    return next(row for row in rows if row["kind"] == "data")


def curves(rows: Sequence[Row]) -> dict[tuple[str, int], list[Row]]:
    """Points by model and number of steps, curves in order of temperature; sets without a perplexity left out."""
    found: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        if row["kind"] == "model" and _finite(row["columns"]["perplexity"]):
            found.setdefault((row["row"], row["num_steps"]), []).append(row)
    return {key: sorted(points, key=lambda p: p["temperature"]) for key, points in found.items()}


def matches(rows: Sequence[Row], seed: int = 0) -> list[dict[str, Any]]:
    """The measured point nearest to the data's entropy, and the perplexity interpolated there, for every curve."""
    data = data_row(rows)["columns"]
    if not _finite(data["entropy"]):
        raise UserError("the data has no entropy to compare with: its held-out rows are empty.")
    return [_match(points, data, seed) for points in curves(rows).values()]


def _match(points: list[Row], data: Mapping[str, float], seed: int) -> dict[str, Any]:
    entropies = [point["columns"]["entropy"] for point in points]
    logs = [math.log(point["columns"]["perplexity"]) for point in points]
    replicates = [bootstrap(point["per_sample"], seed=seed) for point in points]
    reading = read(entropies, logs, data["entropy"], replicates)
    point = points[reading.place]
    kept = (
        "row", "method", "num_steps", "nfe", "temperature", "num", "intervals", "columns", "flags", "text",
        "settings", "seconds", "key",
    )  # fmt: skip
    between, caught = None, list(point["flags"])
    if reading.perplexity is not None:
        low, high = reading.interval or (None, None)
        between = {"perplexity": reading.perplexity, "low": low, "high": high}
        surely = reading.perplexity if high is None else high
        if surely < data["perplexity"] and BELOW_DATA not in caught:
            caught.insert(0, BELOW_DATA)  # no measured point need lie near enough for its own flag
    return {
        **{name: point[name] for name in kept if name in point},
        "flags": caught,
        "entropy": entropies[reading.place],
        "entropy_gap": reading.gap,
        "perplexity": point["columns"]["perplexity"],
        "log_ppl_gap": logs[reading.place] - math.log(data["perplexity"]),
        "interpolated": between,
        "notes": list(reading.notes),
    }


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
