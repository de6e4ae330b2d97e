"""Pictures of generated molecules: drawn structures, properties against the data, errors, quality against calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from simplax.data.molecules.canonical import parse, rdkit
from simplax.io.files import write_text
from simplax.viz.figures import pyplot, save

if TYPE_CHECKING:
    from simplax.evaluate.molecules.measure import Measured
    from simplax.evaluate.molecules.references import References

_SHOWN, _PER_ROW, _CELL = 30, 6, (200, 150)
_MARKS = "osD^vP*Xh<>"
_UNITS = {"logP": "logP", "SA": "synthetic accessibility", "QED": "QED", "weight": "weight (Da)"}


def draw_evaluation(folder: Path, strings: Sequence[str], own: Measured, against: References) -> list[str]:
    """The pictures of one set of strings: `structures.svg`, `properties` and, if any string is invalid, `errors`."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    if own.molecules:
        written.append(draw_structures(folder / "structures.svg", strings, own, against))
        written += draw_properties(own, against, [folder / "properties.png", folder / "properties.svg"])
    if own.errors:
        written += draw_errors(
            {"strings": (own.errors, own.num)}, [folder / "errors.png", folder / "errors.svg"]
        )
    return written


def draw_structures(path: Path, strings: Sequence[str], own: Measured, against: References) -> str:
    """The first valid strings in the order they were generated, drawn; nothing is chosen.

    The legend has QED and SA, and says which are not in the training set.
    """
    rdkit()
    from rdkit.Chem import Draw

    first = own.molecules[:_SHOWN]
    fresh = {m.canonical for m in first}.difference(against.train)
    legends = [
        f"QED {m.values[2]:.2f}  SA {m.values[1]:.1f}{'  novel' if m.canonical in fresh else ''}"
        for m in first
    ]
    image = Draw.MolsToGridImage(
        [parse(m.canonical) for m in first],
        molsPerRow=_PER_ROW,
        subImgSize=_CELL,
        legends=legends,
        useSVG=True,
    )
    write_text(path, str(getattr(image, "data", image)))
    return str(path)


def draw_properties(own: Measured, against: References, paths: Sequence[Path]) -> list[str]:
    """Histograms of logP, SA, QED and weight of the valid strings over those of the test set, W1 in the legend."""
    from simplax.evaluate.molecules.chemistry import PROPERTIES

    values = np.array([molecule.values for molecule in own.molecules])
    figure, grid = pyplot().subplots(2, 2, figsize=(8.4, 6.0), layout="constrained")
    for place, (axes, name) in enumerate(zip(grid.flat, PROPERTIES)):
        data = against.test.values[name]
        # of each by itself: the data are so many that strings far from them would fall outside
        ranges = np.array([np.quantile(part, [0.001, 0.999]) for part in (data, values[:, place])])
        low, high = ranges[:, 0].min(), ranges[:, 1].max()
        edges = np.linspace(low, max(high, low + 1e-6), 41)
        axes.hist(data, edges, density=True, color="0.8", label="test set")
        axes.hist(
            values[:, place], edges, density=True, histtype="step", linewidth=1.6, color="C0",
            label=f"generated, W1 {own.values[name]:.3g}",
        )  # fmt: skip
        axes.set(xlabel=_UNITS[name], yticks=[])
        axes.legend(frameon=False, fontsize=8)
    figure.suptitle(f"{own.num_valid:,} valid molecules of {own.num:,} strings")
    return save(figure, paths)


def draw_errors(
    sets: Mapping[str, tuple[Mapping[str, int], int]], paths: Sequence[Path], *, title: str | None = None
) -> list[str]:
    """Shares of strings that are no molecules, stacked by kind, one bar per set: its errors and number of strings."""
    from simplax.evaluate.molecules.chemistry import ERRORS

    figure, axes = pyplot().subplots(figsize=(9.0, 1.6 + 0.35 * max(len(sets), 2)), layout="constrained")
    names = list(sets)
    left = np.zeros(len(names))
    for kind in ERRORS:
        share = np.array([100 * errors.get(kind, 0) / num for errors, num in sets.values()])
        if share.any():
            axes.barh(names, share, left=left, label=kind)
            left += share
    axes.invert_yaxis()  # the first at the top, as in a table
    if title is not None:
        figure.suptitle(title)
    axes.set(xlabel="% of all strings: those that are not valid, by kind of error")
    axes.legend(frameon=False, ncols=4, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return save(figure, paths)


def draw_calls(points: Sequence[Mapping[str, Any]], paths: Sequence[Path], *, title: str) -> list[str]:
    """Validity and FCD against network calls, a line per model.

    A point is `{"name", "nfe", "valid", "valid_interval", "FCD/Test", "FCD/Test_interval", "num_valid", "floor",
    "floor_num"}`, the floor being the distance of `floor_num` training molecules. Models that were measured at one
    number of calls only (AR makes one per token) are a horizontal line.
    """
    figure, (left, right) = pyplot().subplots(1, 2, figsize=(10.4, 5.2), layout="constrained")
    for number, name in enumerate(dict.fromkeys(point["name"] for point in points)):
        own = sorted((p for p in points if p["name"] == name), key=lambda p: p["nfe"])
        dashed = "--" if number >= 10 else "-"  # there are ten colours
        style = {
            "color": f"C{number % 10}",
            "marker": _MARKS[number % len(_MARKS)],
            "linestyle": dashed,
            "label": name,
        }
        for axes, column, scale in ((left, "valid", 100), (right, "FCD/Test", 1)):
            _line(axes, [p for p in own if p[column] is not None], column, scale, style)
    floors = [p["floor"] for p in points if p.get("floor") is not None]
    if floors:
        right.axhspan(min(floors), max(floors), color="0.6", alpha=0.5, label=floor_label(points))
    left.set(ylabel="valid (%), 95 % interval", ylim=(-2, 102))
    right.set(
        ylabel=f"FCD of {_range(p['num_valid'] for p in points)} valid strings, 95 % interval", yscale="log"
    )
    for places in ("major", "minor"):
        getattr(right.yaxis, f"set_{places}_formatter")(lambda value, place: f"{value:g}")
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.set(xlabel="network calls per molecule")
        axes.xaxis.set_major_formatter(lambda value, place: f"{value:g}")
        axes.grid(alpha=0.3)
    figure.legend(
        *right.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=8
    )
    figure.suptitle(title)
    return save(figure, paths)


def floor_label(points: Sequence[Mapping[str, Any]]) -> str:
    """How many training molecules the floor is of: the distance falls with their number."""
    with_floor = [p for p in points if p.get("floor") is not None]
    if all(p["floor_num"] == p["num_valid"] for p in with_floor):
        return "training molecules, as many as are valid"
    return f"{_range(p['floor_num'] for p in with_floor)} training molecules (fewer lie higher)"


def _range(numbers: Iterable[int]) -> str:
    found = sorted(numbers)
    return f"{found[0]:,}" if found[0] == found[-1] else f"{found[0]:,} to {found[-1]:,}"


def _line(axes: Any, own: list[Mapping[str, Any]], column: str, scale: float, style: dict[str, Any]) -> None:
    if not own:
        return
    values = [scale * p[column] for p in own]
    ends = [p[f"{column}_interval"] or (p[column], p[column]) for p in own]
    below = [max(0.0, value - scale * low) for value, (low, _) in zip(values, ends)]
    above = [max(0.0, scale * high - value) for value, (_, high) in zip(values, ends)]
    axes.errorbar(
        [p["nfe"] for p in own],
        values,
        yerr=[below, above],
        capsize=2.5,
        linewidth=1.4,
        markersize=5,
        **style,
    )
    if len(own) == 1:
        axes.axhline(values[0], color=style["color"], linewidth=0.8, linestyle=":")
