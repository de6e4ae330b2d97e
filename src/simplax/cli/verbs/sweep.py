"""`simplax sweep MODEL`: settings of the sampler against each other on development puzzles."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import tyro

from simplax.cli.output import announce, check_targets, emit, say, table
from simplax.cli.parsing import Device, Json, ModelName, Weights, run
from simplax.cli.sampling import OWN, BatchSize, Compile, Dtype, SamplerName, Seed
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
    redraw: Annotated[
        tuple[str, ...],
        tyro.conf.arg(
            metavar="NAME",
            help="what tokens are redrawn from: own (the model's sampler), simplax, prediction, posterior, coloured or "
            "coloured-posterior",
        ),
    ] = ("own",),
    eta: Annotated[
        tuple[str, ...],
        tyro.conf.arg(
            metavar="ETA",
            help="numbers, vanish:VALUE:POWER:UNTIL:LEAST or pertoken:REDRAWS; 0.01 to 10 if nothing is to be compared",
        ),
    ] = (),
    share: Annotated[
        tuple[float, ...], tyro.conf.arg(help="share of tokens redrawn in a step, instead of eta")
    ] = (),
    temperature: Annotated[tuple[float, ...], tyro.conf.arg(help="divides the logits")] = (),
    time_power: Annotated[
        tuple[float, ...], tyro.conf.arg(metavar="P", help="times of the steps are (1 - k/N)^P")
    ] = (),
    steps: Annotated[tuple[int, ...], tyro.conf.arg(metavar="N", help="steps of the sampler")] = (22, 89),
    num: Annotated[int, tyro.conf.arg(help="puzzles per point")] = 300,
    puzzles: Puzzles = None,
    split: Split = "dev",
    sampler: SamplerName = OWN,
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
    """Accuracy of a Sudoku model (validity, with no clues) at all combinations of sampler settings.

    Every point uses the same puzzles and noise. The default split is dev: what is chosen here may then be reported on
    the evaluation puzzles. The file is written after every point, and a sweep that finds one goes on with it: points it
    holds are not measured again.
    """
    from simplax.config.run import encode
    from simplax.errors import UserError
    from simplax.evaluate import sudoku
    from simplax.evaluate import sweep as sweeps
    from simplax.evaluate.answers import compiled, sudoku_task
    from simplax.io.manifest import write
    from simplax.io.sharding import current
    from simplax.pretrained.manifest import manifest
    from simplax.pretrained.model import from_pretrained
    from simplax.pretrained.numerics import batch_size_for
    from simplax.viz.figures import pyplot
    from simplax.viz.sweep import draw_sweep

    if not (clues and steps):
        raise UserError("a sweep needs at least one clue count and one number of steps.")
    if not (eta or share or temperature or time_power or tuple(redraw) != ("own",)):
        eta = _ETAS
    grid = sweeps.grid(clues, steps, redraw, eta, share, temperature, time_power)
    pyplot()  # a missing matplotlib is reported before the work, not after it
    base = out.with_suffix("") if out.suffix in (".json", ".png", ".svg") else out
    files = [base.with_name(base.name + ending) for ending in (".json", ".png", ".svg")]
    check_targets(*files)
    loaded = sampler.on(from_pretrained(model, weights=weights, device=device, dtype=dtype))
    samplers = {settings: settings.sampler(loaded) for settings in grid}
    for used in samplers.values():
        loaded.method.check_sampler(used)
    size_of_batch = batch_size_for(loaded, batch_size, num)
    size = sudoku_task(loaded).size
    sets = {count: sudoku.puzzle_set(count, num, size=size, split=split, file=puzzles) for count in clues}
    identity = {
        "weights": loaded.origin.get("sha256"),
        "number of puzzles": num,
        "split": split,
        "seed": seed,
        "sampler": encode(loaded.config.sampling.sampler),
        # None for what earlier files do not say
        "dtype": None if loaded.dtype == "float32" else loaded.dtype,
        "number of loops": loaded.config.sampling.loops,
        "file of puzzles": None if puzzles is None else puzzles.name,
    }
    before = sweeps.measured(files[0], identity)
    if compile:
        loaded = compiled(loaded, [len(chosen) for chosen in sets.values()], size_of_batch)
    record = manifest(
        loaded, seeds=[seed], evaluation="sampler sweep", sweep=identity, compiled=compile, complete=False
    )
    points = dict(before)  # what was measured before stays in the file, whether or not it is requested now
    todo = [settings for settings in grid if settings not in before]
    if before:
        say(f"{files[0]} holds {len(before)} points: {len(todo)} of {len(grid)} are left to measure")
    cost = announce(
        sudoku.cost_of(
            loaded,
            {count: chosen for count, chosen in sets.items() if any(one.clues == count for one in todo)},
            steps={count: [one.num_steps for one in todo if one.clues == count] for count in sets},
            samplers={one.clues: samplers[one] for one in todo},
            batch_size=size_of_batch,
        )
    )
    written = str(files[0])
    with progress("sweep", len(todo) * num) as done:
        for index, settings in enumerate(todo):
            used_temperature = settings.temperature_for(loaded)
            score = sudoku.evaluate(
                loaded,
                sets[settings.clues],
                settings.clues,
                split=split,
                num_steps=settings.num_steps,
                sampler=samplers[settings],
                temperature=used_temperature,
                seed=seed,
                batch_size=size_of_batch,
                progress=lambda finished, before=index * num: done(before + finished),  # type: ignore[misc]
            )
            points[settings] = {
                **sweeps.point(settings, score),
                "sampler": encode(samplers[settings]),
                "temperature": used_temperature,
            }
            record["result"], record["complete"] = list(points.values()), index + 1 == len(todo)
            # after every point: who stops a long sweep keeps what was measured
            written = current().on_first(lambda: str(write(files[0], record)))
    shown = [points[settings] for settings in grid]
    title = f"{loaded.config.name}: {num} puzzles per point"
    figures = current().on_first(lambda: draw_sweep(shown, files[1:], title=title))
    data = {"points": shown, "written": written, "figures": figures, "cost": cost}
    emit(json, data, lambda: _shown(shown))


_ETAS = ("0.01", "0.1", "0.3", "1", "3", "10")


def _shown(points: list[dict[str, Any]]) -> Any:
    from simplax.evaluate.sweep import AXES, varying

    axes = varying(points)
    rows = [
        [
            str(p["clues"]),
            *(_value(p["settings"][name]) for name in axes),
            p["measure"],
            f"{100 * p['value']:.1f} ({100 * p['low']:.1f} to {100 * p['high']:.1f})",
            f"{p['nfe']:g}",
        ]
        for p in points
    ]
    return table(["clues", *(AXES[name] for name in axes), "measure", "% (95 %)", "NFE"], rows)


def _value(value: Any) -> str:
    return "own" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
