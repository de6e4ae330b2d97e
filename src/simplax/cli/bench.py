"""`simplax bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from simplax.cli.output import emit, say, table
from simplax.cli.parsing import Json, run


def main(arguments: list[str]) -> None:
    run(bench, arguments, "simplax bench")


def bench(
    *,
    growth: Annotated[bool, tyro.conf.arg(help="time and memory against K, L, J and batch instead")] = False,
    quick: Annotated[
        bool, tyro.conf.arg(help="a tiny network in seconds: does it run, not how fast")
    ] = False,
    precision: Annotated[
        Literal["auto", "float32", "bfloat16"], tyro.conf.arg(help="auto: the faster one here")
    ] = "auto",
    figure: Annotated[Path | None, tyro.conf.arg(help="image file to write, for instance bench.png")] = None,
    json: Json = False,
) -> None:
    """What a step of Simplax costs beside its network: time, memory, and what the literal forms would cost.

    Takes under five minutes on two idle cores. Close other programs first: contestants take turns, so a busy machine
    widens the spread rather than favours one, but it does widen it.
    """
    (_growth if growth else _steps)(quick, precision, figure, json)


def _steps(quick: bool, precision: str, figure: Path | None, json: bool) -> None:
    from simplax.bench.figure import draw_ratios
    from simplax.bench.run import FULL, QUICK
    from simplax.bench.run import run as measure

    report = measure(QUICK if quick else FULL, precision, say)
    if figure is not None:
        draw_ratios(report, figure)
    emit(json, report, lambda: _ratio_table(report))


def _growth(quick: bool, precision: str, figure: Path | None, json: bool) -> None:
    from simplax.bench.figure import draw_growth
    from simplax.bench.growth import AXES, QUICK_AXES
    from simplax.bench.growth import growth as measure

    report = measure(QUICK_AXES if quick else AXES, say)
    if figure is not None:
        draw_growth(report, figure)
    emit(json, report, lambda: _growth_table(report))


def _ratio_table(report: dict[str, Any]) -> Any:
    from simplax.bench.run import GOALS, RATIOS

    rows = []
    for part in report["sizes"]:
        for name, spread in part["ratios"].items():
            inner = f"{spread['low']:.3g} to {spread['high']:.3g}" if spread["count"] > 1 else ""
            cells = [name, f"{spread['median']:.3f}", inner, str(spread["count"]), GOALS.get(name, "")]
            rows.append([part["size"]["name"], *cells, RATIOS[name]])
        for kind in ("training", "sampling"):
            for name, time in part[f"{kind}_seconds"].items():
                inner = f"{1e3 * time['low']:.4g} to {1e3 * time['high']:.4g}" if time["count"] > 1 else ""
                cells = [f"{kind}: {name}", f"{1e3 * time['median']:.4g} ms", inner, str(time["count"]), ""]
                rows.append([part["size"]["name"], *cells, f"one {kind} step, {part['precision']}"])
        for name, count in part["peak_bytes"].items():
            cells = [f"memory: {name}", f"{count / 2**20:.4g} MiB", "", "", ""]
            rows.append([part["size"]["name"], *cells, "peak of projection and loss"])
    return table(["size", "what", "median", "quartiles", "rounds", "goal", "meaning"], rows)


def _growth_table(report: dict[str, Any]) -> Any:
    rows = []
    for axis, part in report.items():
        for name, values in part["measured"].items():
            for value, seconds, count in zip(part["values"], values["seconds"], values["bytes"]):
                rows.append([axis, f"{value:,}", name, f"{1e3 * seconds:.4g} ms", f"{count / 2**20:.4g} MiB"])
    return table(["axis", "value", "what", "time", "peak memory"], rows)
