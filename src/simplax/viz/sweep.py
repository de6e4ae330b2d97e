"""Shares of boards against settings of the sampler, a panel per clue count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from simplax.viz.figures import pyplot, save

_MARKS = "osD^vP*"
# what the axis shows if it varies, in this order; everything else that varies makes lines
_LABELS = {
    "eta": "concentration η of the sampler",
    "share": "share of tokens redrawn in a step",
    "temperature": "temperature",
    "time_power": "power of the times",
    "num_steps": "steps",
    "redraw": "redrawn from",
}
_SHORT = {"eta": "η ", "share": "share ", "temperature": "T ", "time_power": "power ", "redraw": ""}


def draw_sweep(points: Sequence[Mapping[str, Any]], paths: Sequence[Path], *, title: str) -> list[str]:
    """One panel per clue count. A point is `{"clues", "settings", "measure", "value", "low", "high"}`.

    The first setting that varies is the axis, the others make a line each. Positive numbers lie on a logarithmic axis;
    as soon as others (or zero) are among them, all values are named side by side.
    """
    counts = list(dict.fromkeys(point["clues"] for point in points))
    varying = [name for name in _LABELS if len({point["settings"][name] for point in points}) > 1]
    axis, *others = varying or ["eta"]
    plot = pyplot()
    figure, grid = plot.subplots(
        1,
        len(counts),
        figsize=(1.2 + 4.4 * len(counts), 4.2),
        layout="constrained",
        squeeze=False,
        sharey=True,
    )
    values = list(dict.fromkeys(point["settings"][axis] for point in points))
    for axes, clues in zip(grid[0], counts):
        _panel(axes, [point for point in points if point["clues"] == clues], axis, values, others)
        axes.set_title(f"{clues} clues" if clues else "no clues")
    if others:
        grid[0][-1].legend(frameon=False, fontsize="small")
    figure.suptitle(title)
    return save(figure, paths)


def _panel(
    axes: Any, points: list[Mapping[str, Any]], axis: str, values: list[Any], others: list[str]
) -> None:
    logarithmic = all(_positive(value) for value in values)
    place = {value: float(value) if logarithmic else index for index, value in enumerate(values)}
    lines = dict.fromkeys(tuple(point["settings"][name] for name in others) for point in points)
    for number, line in enumerate(lines):
        on_it = [point for point in points if tuple(point["settings"][name] for name in others) == line]
        on_it.sort(key=lambda point: place[point["settings"][axis]])
        heights = [100 * point["value"] for point in on_it]
        below = [height - 100 * point["low"] for height, point in zip(heights, on_it)]
        above = [100 * point["high"] - height for height, point in zip(heights, on_it)]
        axes.errorbar(
            [place[point["settings"][axis]] for point in on_it],
            heights,
            yerr=[below, above],
            marker=_MARKS[number % len(_MARKS)],
            linestyle="-" if logarithmic else "none",
            capsize=2.5,
            linewidth=1.4,
            markersize=5,
            label=", ".join(_named(name, value) for name, value in zip(others, line)),
        )
    if logarithmic:
        axes.set_xscale("log")
        axes.set_xticks(list(place.values()), [str(value) for value in place])
        axes.minorticks_off()
    else:
        axes.set_xticks(list(place.values()), [_word(value) for value in place], rotation=30, ha="right")
    axes.set(xlabel=_LABELS[axis], ylabel=f"{points[0]['measure']} (%), 95 % interval", ylim=(-2, 102))
    axes.grid(alpha=0.3)


def _named(name: str, value: Any) -> str:
    return f"{value} steps" if name == "num_steps" else _SHORT[name] + _word(value)


def _word(value: Any) -> str:
    return "own" if value is None else str(value)


def _positive(value: Any) -> bool:
    try:
        return float(value) > 0
    except (TypeError, ValueError):
        return False
