"""The figures of a report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simplax.viz.figures import pyplot, save


def draw_ratios(report: dict[str, Any], target: Path) -> None:
    """Training and sampling steps of every contestant over the floor, at each size."""
    figure, axes = pyplot().subplots(
        2, len(report["sizes"]), figsize=(4.5 * len(report["sizes"]), 5), layout="constrained", squeeze=False
    )
    for column, part in enumerate(report["sizes"]):
        for row, kind in enumerate(("training", "sampling")):
            times = part[f"{kind}_seconds"]
            floor = times["floor"]["median"]
            names = list(times)[::-1]
            panel = axes[row, column]
            middle = [times[n]["median"] / floor for n in names]
            spread = [
                [m - times[n]["low"] / floor for m, n in zip(middle, names)],
                [times[n]["high"] / floor - m for m, n in zip(middle, names)],
            ]
            panel.barh(names, middle, xerr=spread, color=["C1" if n == "dense" else "C0" for n in names])
            panel.axvline(1.0, color="black", linewidth=0.8)
            panel.set(title=f"{kind}, {part['size']['name']}", xlabel="time over the floor")
    save(figure, [target])


def draw_growth(report: dict[str, Any], target: Path) -> None:
    """Seconds and bytes against each axis, both logarithmic."""
    figure, axes = pyplot().subplots(
        2, len(report), figsize=(4 * len(report), 7), layout="constrained", squeeze=False
    )
    for column, (axis, part) in enumerate(report.items()):
        for row, kind in enumerate(("seconds", "bytes")):
            panel = axes[row, column]
            for name, values in part["measured"].items():
                panel.loglog(part["values"], values[kind], "o-", label=name, markersize=3)
            panel.set(xlabel=axis, ylabel=kind)
            panel.minorticks_off()
    axes[0, 0].legend(fontsize=7)
    save(figure, [target])
