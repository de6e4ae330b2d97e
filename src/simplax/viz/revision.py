"""How answers are revised along the steps: edits, mistakes made and taken back, and the share that is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from simplax.viz.figures import pyplot, save

# panels: what they show, the measures in them with their line styles, and whether the axis is logarithmic
_PANELS: tuple[tuple[str, dict[str, str], bool], ...] = (
    ("edits, in units of the exact chain's", {"multiple": "-"}, True),
    (
        "share of right positions kept (-), of wrong ones corrected (--)",
        {"retention": "-", "correction": "--"},
        False,
    ),
    ("share of decoded answers that are right", {"solved": "-"}, False),
)


def draw_revision(paths: Mapping[str, Mapping[str, Any]], files: Sequence[Path], *, title: str) -> list[str]:
    """`paths` are results of `evaluate.revision` by name, a colour each; what was not measured is left out."""
    plot = pyplot()
    figure, grid = plot.subplots(1, len(_PANELS), figsize=(14, 4), layout="constrained")
    for axes, (label, measures, logarithmic) in zip(grid, _PANELS):
        for number, (name, measured) in enumerate(paths.items()):
            for measure, style in measures.items():
                values = measured.get(measure)
                if values is None:
                    continue
                steps = range(1, len(values) + 1)
                heights = [float("nan") if value is None else value for value in values]
                label_of = name if style == "-" else None
                axes.plot(steps, heights, style, color=f"C{number % 10}", linewidth=1.4, label=label_of)
        if logarithmic:
            axes.set_yscale("log")
            axes.axhline(1, color="0.6", linewidth=0.8)
        else:
            axes.set_ylim(-0.02, 1.02)
        axes.set(xlabel="step", title=label)
        axes.title.set_fontsize("small")
        axes.grid(alpha=0.3)
    grid[0].legend(frameon=False, fontsize="small")
    figure.suptitle(title)
    return save(figure, files)
