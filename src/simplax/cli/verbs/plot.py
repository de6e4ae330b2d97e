"""`simplax plot RUN`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro

from simplax.cli.output import check_targets, emit
from simplax.cli.parsing import Json, run
from simplax.errors import UserError


def main(arguments: list[str]) -> None:
    run(plot, arguments, "simplax plot")


def plot(
    runs: Annotated[
        tuple[Path, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="RUN", help="run directories, in one figure"),
    ],
    /,
    *,
    out: Annotated[Path | None, tyro.conf.arg(help="image file; RUN/curves.png if not given")] = None,
    log: Annotated[bool, tyro.conf.arg(help="logarithmic axis for the loss")] = False,
    joined: Annotated[
        bool, tyro.conf.arg(help="each run begins where the one before ended, as second phases do")
    ] = False,
    json: Json = False,
) -> None:
    """Draw training and validation loss of one or several runs."""
    from simplax.train.metrics import read
    from simplax.viz.figures import image

    if not runs:
        raise UserError("name at least one run directory.")
    curves = {}
    for directory in runs:
        rows = read(directory / "metrics.jsonl")
        if not any("loss" in row for row in rows):
            raise UserError(
                f"{directory} has no curve to draw: it is not a run, or has not logged a loss yet."
            )
        curves[str(directory)] = rows
    target = image(out if out is not None else runs[0] / "curves.png")
    check_targets(target)
    _draw(curves, target, log, joined)
    last = {name: [row for row in rows if "loss" in row][-1] for name, rows in curves.items()}
    data = {
        "image": str(target),
        "runs": {n: {"step": r["step"], "loss": r["loss"]} for n, r in last.items()},
    }
    emit(json, data, lambda: str(target))


def _draw(curves: dict[str, list[dict[str, float]]], target: Path, log: bool, joined: bool) -> None:
    from simplax.viz.figures import pyplot, save

    figure, axes = pyplot().subplots(figsize=(7, 4), layout="constrained")
    before = 0.0
    for number, (name, rows) in enumerate(curves.items()):
        colour = f"C{number}"
        for key, style in (("loss", "-"), ("validation_loss", "o--")):
            points = [(before + row["step"], row[key]) for row in rows if key in row]
            if points:
                label = f"{Path(name).name} {key.replace('_', ' ')}"
                axes.plot(*zip(*points), style, color=colour, label=label, linewidth=1, markersize=3)
        before += rows[-1]["step"] if joined else 0
    axes.set(
        yscale="log" if log else "linear",
        xlabel="step",
        ylabel="loss (nats per token, as weighted in training)",
    )
    axes.legend()
    save(figure, [target])
