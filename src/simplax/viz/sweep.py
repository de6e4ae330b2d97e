"""Accuracy against the sampler's concentration, one line per number of network calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from simplax.viz.figures import pyplot, save

_MARKS = "osD^vP*"


def draw_sweep(points: Sequence[Mapping[str, Any]], paths: Sequence[Path], *, title: str) -> list[str]:
    """One panel per clue count. A point is `{"clues", "eta" (text), "num_steps", "measure", "value", "low", "high"}`.

    Positive constants lie on a logarithmic axis; as soon as a schedule (or zero) is among them, all etas are named
    side by side.
    """
    counts = list(dict.fromkeys(point["clues"] for point in points))
    etas = list(dict.fromkeys(point["eta"] for point in points))
    plot = pyplot()
    figure, grid = plot.subplots(
        1,
        len(counts),
        figsize=(1.2 + 4.4 * len(counts), 4.2),
        layout="constrained",
        squeeze=False,
        sharey=True,
    )
    for axes, clues in zip(grid[0], counts):
        _panel(axes, [point for point in points if point["clues"] == clues], etas)
        axes.set_title(f"{clues} clues" if clues else "no clues")
    grid[0][-1].legend(title="network calls", frameon=False)
    figure.suptitle(title)
    return save(figure, paths)


def _panel(axes: Any, points: list[Mapping[str, Any]], etas: list[str]) -> None:
    logarithmic = all(_positive(eta) for eta in etas)
    place = {eta: float(eta) if logarithmic else index for index, eta in enumerate(etas)}
    steps = list(dict.fromkeys(point["num_steps"] for point in points))
    for number, count in enumerate(steps):
        line = sorted(
            (point for point in points if point["num_steps"] == count), key=lambda p: place[p["eta"]]
        )
        values = [100 * point["value"] for point in line]
        below = [value - 100 * point["low"] for value, point in zip(values, line)]
        above = [100 * point["high"] - value for value, point in zip(values, line)]
        axes.errorbar(
            [place[point["eta"]] for point in line],
            values,
            yerr=[below, above],
            marker=_MARKS[number % len(_MARKS)],
            linestyle="-" if logarithmic else "none",
            capsize=2.5,
            linewidth=1.4,
            markersize=5,
            label=str(count),
        )
    if logarithmic:
        axes.set_xscale("log")
        axes.set_xticks(list(place.values()), list(place))
        axes.minorticks_off()
    else:
        axes.set_xticks(list(place.values()), list(place), rotation=30, ha="right")
    axes.set(
        xlabel="concentration η of the sampler",
        ylabel=f"{points[0]['measure']} (%), 95 % interval",
        ylim=(-2, 102),
    )
    axes.grid(alpha=0.3)


def _positive(eta: str) -> bool:
    try:
        return float(eta) > 0
    except ValueError:
        return False
