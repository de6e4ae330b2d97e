"""Perplexity against entropy as temperature changes: a panel per number of network calls, a curve per model."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from simplax.viz.figures import pyplot, save

Row = Mapping[str, Any]
_MARKS = "osD^vPX*hp"
_CONTROL_MARKS = "XP*sdp<>"
_COLUMNS = 4


def draw_frontier(
    curves: Mapping[tuple[str, int], Sequence[Row]],
    controls: Sequence[Row],
    data: Row,
    paths: Sequence[Path],
    *,
    title: str,
    scorer: str,
) -> list[str]:
    """Curves by (model, steps), points in order of temperature; T = 1 is ringed, the data is a cross-hair.

    A row has `columns` with `entropy` and `perplexity`, and points their `temperature` and `intervals`.
    """
    counts = sorted({count for _, count in curves})
    names = list(dict.fromkeys(name for name, _ in curves))
    wide = min(len(counts), _COLUMNS)
    high = math.ceil(len(counts) / wide)
    plot = pyplot()
    figure, grid = plot.subplots(
        high,
        wide,
        figsize=(max(1.4 + 3.4 * wide, 6.0), 1.9 + 3.1 * high),
        layout="constrained",
        squeeze=False,
        sharex=True,
        sharey=True,
    )
    panels = list(grid.flat)
    for axes, count in zip(panels, counts):
        _cross_hair(axes, data)
        _controls(axes, controls)
        for number, name in enumerate(names):
            if (name, count) in curves:
                _curve(axes, curves[name, count], number, name)
        axes.set_title(f"{count:,} steps", fontsize=10)
        axes.set_yscale("log")
        axes.grid(alpha=0.25, which="both", linewidth=0.5)
    for axes in panels[len(counts) :]:
        axes.set_visible(False)
        axes.set_in_layout(False)
    for axes in grid[-1]:
        axes.set_xlabel("entropy of a sequence (nats)", fontsize=9)
    for axes in grid[:, 0]:
        axes.set_ylabel("perplexity", fontsize=9)
    width = int(15 * figure.get_figwidth())
    lines = [textwrap.fill(text, width) for text in (title, f"Perplexity under {scorer}; T = 1 is ringed.")]
    figure.suptitle("\n".join(lines), fontsize=9)
    _legend(figure, panels[: len(counts)], names)
    return save(figure, paths)


def _legend(figure: Any, panels: Sequence[Any], names: Sequence[str]) -> None:
    """One for all panels: models first, then the data and the controls."""
    found: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels()):
            found.setdefault(label, handle)
    order = [*names, *(label for label in found if label not in names)]
    columns = max(1, min(len(order), int(figure.get_figwidth() / 1.5)))
    figure.legend(
        [found[label] for label in order],
        order,
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=8,
    )


def _curve(axes: Any, points: Sequence[Row], number: int, name: str) -> None:
    x = [point["columns"]["entropy"] for point in points]
    y = [point["columns"]["perplexity"] for point in points]
    mark, colour = _MARKS[number % len(_MARKS)], f"C{number % 10}"
    axes.errorbar(
        x,
        y,
        xerr=_bars(points, x, "entropy"),
        yerr=_bars(points, y, "perplexity"),
        fmt=f"-{mark}",
        color=colour,
        markersize=4,
        linewidth=1.3,
        elinewidth=0.7,
        label=name,
        zorder=3,
    )
    for point, h, ppl in zip(points, x, y):
        if point["temperature"] == 1:
            axes.plot(h, ppl, "o", markersize=10, markerfacecolor="none", markeredgecolor=colour, zorder=4)


def _bars(points: Sequence[Row], values: Sequence[float], name: str) -> list[list[float]]:
    """How far the interval reaches below and above; a percentile interval need not hold its own estimate."""
    ends = [point["intervals"][name] for point in points]
    return [
        [max(value - low, 0.0) for value, (low, _) in zip(values, ends)],
        [max(high - value, 0.0) for value, (_, high) in zip(values, ends)],
    ]


def _controls(axes: Any, controls: Sequence[Row]) -> None:
    for number, row in enumerate(controls):
        columns = row["columns"]
        if columns["perplexity"] is None or not math.isfinite(columns["perplexity"]):
            continue
        mark = _CONTROL_MARKS[number % len(_CONTROL_MARKS)]
        axes.plot(
            columns["entropy"],
            columns["perplexity"],
            mark,
            markeredgecolor="0.35",
            markerfacecolor="none",
            markersize=6,
            linestyle="none",
            label=row["row"],
            zorder=2,
        )


def _cross_hair(axes: Any, data: Row) -> None:
    columns = data["columns"]
    axes.axvline(columns["entropy"], color="0.2", linestyle=":", linewidth=1, label="data")
    axes.axhline(columns["perplexity"], color="0.2", linestyle=":", linewidth=1)


def frontier_run(
    curves: Mapping[tuple[str, int], Sequence[Row]], data: Row, *, setting: str, texts: Sequence[str]
) -> dict[str, Any]:
    """The same curves as a run of a page, which shows one temperature after the other; `texts` are one per point."""
    left = iter(texts)
    plain = [
        {
            "name": name,
            "steps": count,
            "points": [
                {"temperature": point["temperature"], **_place(point), "text": next(left)} for point in points
            ],
        }
        for (name, count), points in curves.items()
    ]
    temperatures = sorted({point["temperature"] for points in curves.values() for point in points})
    return {
        "kind": "frontier",
        "name": "Perplexity against entropy",
        "setting": setting,
        "temperatures": temperatures,
        "curves": plain,
        "data": _place(data),
    }


def _place(row: Row) -> dict[str, float]:
    return {name: float(row["columns"][name]) for name in ("entropy", "perplexity")}
