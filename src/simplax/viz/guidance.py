"""The trade-off of guidance: how many novel molecules are left against what was asked of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from simplax.viz.figures import pyplot, save

# Schiff et al. 2025 on QM9, label QED above its 90th percentile, 92 M parameters, 32 steps: (novel of 1,024, their mean
# QED) without guidance and with the strength in the name, as quoted in arXiv 2503.09790
PUBLISHED_QED: dict[str, tuple[tuple[int, float], tuple[int, float]]] = {
    "AR, 3": ((11, 0.41), (79, 0.60)),
    "MDLM, 3": ((271, 0.45), (96, 0.60)),
    "UDLM, 5": ((345, 0.46), (64, 0.62)),
}


def draw_guidance(
    name: str, rows: Sequence[Mapping[str, Any]], described: Mapping[str, str], paths: Sequence[Path]
) -> list[str]:
    """A panel per label: the share of novel molecules against the mean of their property, a point per strength."""
    figure, grid = pyplot().subplots(
        1, len(described), figsize=(5.6 * len(described), 4.4), layout="constrained", squeeze=False
    )
    for axes, (label, value) in zip(grid.flat, described.items()):
        kept = [row for row in rows if row[f"{label}_novel"] is not None]
        means = [row[f"{label}_novel"] for row in kept]
        shares = [100 * row["novel"] / row["num"] for row in kept]
        errors = [row[f"{label}_novel_error"] or 0.0 for row in kept]
        axes.errorbar(means, shares, xerr=errors, marker="o", capsize=2.5, label=name)
        for mean, share, row in zip(means, shares, kept):
            axes.annotate(f" {row['guidance']:g}", (mean, share), fontsize=8)
        if label == "qed":
            for number, (who, points) in enumerate(PUBLISHED_QED.items(), 1):
                published = [(mean, 100 * novel / 1024) for novel, mean in points]
                axes.plot(*zip(*published), "x--", color=f"C{number}", label=f"published: none and {who}")
        axes.set(
            xlabel=f"mean {label} of novel molecules ({label}={value})", ylabel="novel (% of all strings)"
        )
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=8)
    figure.suptitle(f"{rows[0]['num']:,} strings at each strength of guidance")
    return save(figure, paths)
