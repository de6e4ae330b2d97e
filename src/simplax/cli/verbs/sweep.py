"""`simplax sweep MODEL`: the sampler's concentration against the number of network calls."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import tyro

from simplax.cli.output import announce, check_targets, emit, table
from simplax.cli.parsing import Device, Json, ModelName, Weights, run
from simplax.cli.sampling import (
    OWN,
    BatchSize,
    Compile,
    Dtype,
    SamplerName,
    Seed,
    Temperature,
    TimePower,
)
from simplax.cli.verbs.evaluations.sudoku import Puzzles, Split
from simplax.io.progress import progress


def main(arguments: list[str]) -> None:
    run(sweep, arguments, "simplax sweep")


def sweep(
    model: ModelName,
    /,
    *,
    clues: Annotated[tuple[int, ...], tyro.conf.arg(help="clue counts, a panel each; 0 is blank boards")] = (
        30,
    ),
    eta: Annotated[
        tuple[str, ...],
        tyro.conf.arg(metavar="ETA", help="numbers, vanish:VALUE:POWER:UNTIL:LEAST or pertoken:REDRAWS"),
    ] = ("0.01", "0.1", "0.3", "1", "3", "10"),
    steps: Annotated[tuple[int, ...], tyro.conf.arg(metavar="N", help="network calls, a line each")] = (
        22,
        89,
    ),
    num: Annotated[int, tyro.conf.arg(help="puzzles per point")] = 300,
    puzzles: Puzzles = None,
    split: Split = "dev",
    sampler: SamplerName = OWN,
    time_power: TimePower = None,
    temperature: Temperature = None,
    seed: Seed = 0,
    batch_size: BatchSize = "auto",
    dtype: Dtype = "float32",
    compile: Compile = False,
    out: Annotated[Path, tyro.conf.arg(help="where to write NAME.json, NAME.png and NAME.svg")] = Path(
        "eta-sweep"
    ),
    weights: Weights = "auto",
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Accuracy of a Sudoku model (validity, with no clues) against eta for several numbers of network calls.

    Every point uses the same puzzles and noise. The default split is dev: what is chosen here may then be reported on
    the evaluation puzzles.
    """
    from simplax.concentration import parse, spell
    from simplax.config.run import encode
    from simplax.errors import UserError
    from simplax.evaluate import sudoku
    from simplax.evaluate.answers import compiled, sudoku_task
    from simplax.io.manifest import write
    from simplax.io.sharding import current
    from simplax.pretrained.manifest import manifest
    from simplax.pretrained.model import from_pretrained
    from simplax.pretrained.numerics import batch_size_for
    from simplax.viz.figures import pyplot
    from simplax.viz.sweep import draw_sweep

    if not (clues and eta and steps):
        raise UserError("a sweep needs at least one clue count, one eta and one number of steps.")
    concentrations = [parse(text) for text in eta]
    pyplot()  # a missing matplotlib is reported before the work, not after it
    base = out.with_suffix("") if out.suffix in (".json", ".png", ".svg") else out
    files = [base.with_name(base.name + ending) for ending in (".json", ".png", ".svg")]
    check_targets(*files)
    loaded = sampler.on(from_pretrained(model, weights=weights, device=device, dtype=dtype))
    size_of_batch = batch_size_for(loaded, batch_size, num)
    loaded.sampler(concentrations[0])
    size = sudoku_task(loaded).size
    sets = {count: sudoku.puzzle_set(count, num, size=size, split=split, file=puzzles) for count in clues}
    if compile:
        loaded = compiled(loaded, [len(chosen) for chosen in sets.values()], size_of_batch)
    first = {
        count: loaded.sampler(concentrations[0], time_power=time_power, conditional=count > 0)
        for count in sets
    }
    cost = announce(
        sudoku.cost_of(
            loaded, sets, steps=steps, samplers=first, batch_size=size_of_batch, repeats=len(concentrations)
        )
    )
    grid = [(c, s, e) for c in sets for s in dict.fromkeys(steps) for e in concentrations]
    record = manifest(
        loaded,
        seeds=[seed],
        evaluation="eta sweep",
        split=split,
        puzzles=None if puzzles is None else puzzles.name,
        compiled=compile,
        complete=False,
        result=[],
    )
    points: list[dict[str, Any]] = record["result"]
    with progress("sweep", len(grid) * num) as done:
        for index, (count, number, value) in enumerate(grid):
            score = sudoku.evaluate(
                loaded,
                sets[count],
                count,
                split=split,
                num_steps=number,
                eta=value,
                time_power=time_power,
                temperature=temperature,
                seed=seed,
                batch_size=size_of_batch,
                progress=lambda finished, before=index * num: done(before + finished),  # type: ignore[misc]
            )
            used = loaded.sampler(value, time_power=time_power, conditional=count > 0)
            used_temperature = (
                loaded.defaults(conditional=count > 0).temperature if temperature is None else temperature
            )
            points.append(
                {**_point(score, spell(value)), "sampler": encode(used), "temperature": used_temperature}
            )
            record["complete"] = len(points) == len(grid)
            # after every point: who stops a long sweep keeps what was measured
            written = current().on_first(lambda: str(write(files[0], record)))
    title = f"{loaded.config.name}: {num} puzzles per point"
    figures = current().on_first(lambda: draw_sweep(points, files[1:], title=title))
    data = {"points": points, "written": written, "figures": figures, "cost": cost}
    emit(json, data, lambda: _shown(points))


def _point(score: Any, eta: str) -> dict[str, Any]:
    measure, share = ("valid", score.validity) if score.accuracy is None else ("solved", score.accuracy)
    return {
        "clues": score.clues,
        "eta": eta,
        "num_steps": score.num_steps,
        **score.work(),
        "measure": measure,
        "value": share.value,
        "low": share.low,
        "high": share.high,
        "num": score.num,
        "puzzles_per_second": score.puzzles_per_second,
    }


def _shown(points: list[dict[str, Any]]) -> Any:
    names = ["clues", "steps", "eta", "measure", "% (95 %)"]
    rows = [
        [
            str(p["clues"]),
            str(p["num_steps"]),
            p["eta"],
            p["measure"],
            f"{100 * p['value']:.1f} ({100 * p['low']:.1f} to {100 * p['high']:.1f})",
        ]
        for p in points
    ]
    return table(names, rows)
