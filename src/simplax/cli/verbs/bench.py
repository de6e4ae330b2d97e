"""`simplax bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from simplax.cli.output import check_targets, emit, say, table
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
    figure: Annotated[
        Path | None, tyro.conf.arg(help="image file; bench.png or growth.png here if not given")
    ] = None,
    json: Json = False,
) -> None:
    """What a step of Simplax costs beside its network: time, memory, and what the literal forms would cost.

    Takes under five minutes on two idle cores. Close other programs first. The forms that are compared take turns, so
    that other load on the machine widens the spread of the numbers but favours none of them.
    """
    from simplax.bench.figure import draw_growth, draw_ratios
    from simplax.viz.figures import image

    # a missing matplotlib or an unknown format is reported before minutes of measuring, not after
    target = image(figure or Path("growth.png" if growth else "bench.png"))
    check_targets(target)
    if growth:
        report, draw, lines = _growth(quick), draw_growth, _growth_table
    else:
        report, draw, lines = _steps(quick, precision), draw_ratios, _ratio_table
    emit(json, report, lambda: lines(report))
    draw(report, target)
    say(f"figure: {target}")


def _steps(quick: bool, precision: str) -> dict[str, Any]:
    from simplax.bench import run as plans

    return plans.run(plans.QUICK if quick else plans.FULL, precision, say)


def _growth(quick: bool) -> dict[str, Any]:
    from simplax.bench import growth as measured

    return measured.growth(measured.QUICK_AXES if quick else measured.AXES, say)


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
