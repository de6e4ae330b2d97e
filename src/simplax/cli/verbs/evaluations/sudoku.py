"""`simplax evaluate MODEL sudoku`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from simplax.cli.output import announce, check_targets, emit, table
from simplax.cli.parsing import Device, Json, ModelName, Weights
from simplax.cli.sampling import (
    OWN,
    BatchSize,
    Compile,
    Dtype,
    Eta,
    Loops,
    SamplerName,
    Seed,
    Steps,
    StopAfter,
    Temperature,
    TimePower,
    read_eta,
    read_stop,
)
from simplax.cli.verbs.evaluations.record import Out, keep
from simplax.io.progress import progress

if TYPE_CHECKING:
    import numpy as np

    from simplax.data.sudoku import PuzzleSet
    from simplax.evaluate.sudoku import Score
    from simplax.pretrained.model import Model
    from simplax.tasks import SudokuTask

Clues = Annotated[
    tuple[int, ...] | None,
    tyro.conf.arg(help="clue counts; 0 is blank boards. All that can be had if not given"),
]
Split = Annotated[
    Literal["eval", "dev"],
    tyro.conf.arg(help="eval: the published puzzles, for reporting; dev: others, for choosing settings"),
]
Puzzles = Annotated[
    Path | None, tyro.conf.arg(metavar="FILE", help="17-clue puzzles, one per line, for 17 and 20 clues")
]
File = Annotated[
    Path | None,
    tyro.conf.arg(
        metavar="FILE",
        help="17-clue puzzles, one per line, for 17 and 20 clues; or a CSV file with columns question, answer and "
        "rating, whose puzzles are then the ones measured",
    ),
]


def evaluate(
    model: ModelName,
    /,
    *,
    clues: Clues = None,
    num: Annotated[int, tyro.conf.arg(help="puzzles per clue count")] = 2000,
    puzzles: File = None,
    exact_clues: Annotated[bool, tyro.conf.arg(help="only puzzles with exactly so many clues")] = False,
    split: Split = "eval",
    steps: Steps = None,
    sampler: SamplerName = OWN,
    eta: Eta = None,
    time_power: TimePower = None,
    temperature: Temperature = None,
    stop_after: StopAfter = None,
    attempts: Annotated[
        int,
        tyro.conf.arg(help="answers per puzzle; the one the network scores highest is a column of its own"),
    ] = 1,
    revision: Annotated[
        bool, tyro.conf.arg(help="measure edits, mistakes made and taken back, per step")
    ] = False,
    chosen_on: Annotated[
        str | None, tyro.conf.arg(help="where the sampler's settings were chosen, for the manifest")
    ] = None,
    loops: Loops = None,
    seed: Seed = 0,
    batch_size: BatchSize = "auto",
    dtype: Dtype = "float32",
    compile: Compile = False,
    out: Out = None,
    weights: Weights = "auto",
    device: Device = "auto",
    json: Json = False,
) -> None:
    """Solved boards, right cells, valid boards and speed on puzzles never trained on, with 95 % Wilson intervals.

    A puzzle is solved if the whole board is its only solution. In the prefix layout a board with wrong row separators
    counts as invalid. Nothing may be chosen by looking at the eval split: use --split dev for that. With a CSV file,
    choose on its training file; --num takes so many of its puzzles in a seeded order.
    """
    from simplax.config.run import encode
    from simplax.evaluate import sudoku
    from simplax.evaluate.answers import compiled, sudoku_task
    from simplax.evaluate.declared import declared
    from simplax.pretrained.manifest import manifest
    from simplax.pretrained.model import from_pretrained
    from simplax.pretrained.numerics import batch_size_for

    check_targets(out)
    concentration, stop = read_eta(eta), read_stop(stop_after)
    loaded = sampler.on(from_pretrained(model, weights=weights, device=device, dtype=dtype))
    size_of_batch = batch_size_for(loaded, batch_size, num)
    task = sudoku_task(loaded)
    # all sets first: one that cannot be made is reported before hours of sampling
    sets = _sets(task, clues, num, puzzles, split, exact_clues)
    counts = [count for count, *_ in sets]
    # blank boards may have settings of their own
    used = {
        count: loaded.sampler(concentration, time_power=time_power, conditional=count != 0)
        for count in counts
    }
    temperatures = {count: _temperature(loaded, count, temperature) for count in counts}
    if compile:
        loaded = compiled(loaded, [len(chosen) for _, chosen, _ in sets], size_of_batch)
    cost = announce(
        sudoku.cost_of(
            loaded,
            {count: chosen for count, chosen, _ in sets},
            steps={} if steps is None else dict.fromkeys(counts, (steps,)),
            samplers=used,
            batch_size=size_of_batch,
            attempts=attempts,
            loops=loops,
        )
    )
    scores: list[Score] = []
    written: str | None = None
    record: dict[str, Any] = {}
    for count, chosen, ratings in sets:
        with progress("puzzles" if count is None else f"{count} clues", len(chosen)) as done:
            score = sudoku.evaluate(
                loaded,
                chosen,
                count,
                split=split,
                num_steps=steps,
                eta=concentration,
                time_power=time_power,
                temperature=temperature,
                stop=stop,
                attempts=attempts,
                revision=revision,
                ratings=ratings,
                loops=loops,
                seed=seed,
                batch_size=size_of_batch,
                progress=done,
            )
        scores.append(score)
        record = record or manifest(
            loaded,
            sampler=used[count],
            num_steps=score.num_steps,
            **score.work(),
            seeds=[seed],
            temperature=temperatures[count],
            loops=loaded.config.sampling.loops if loops is None else loops,
            evaluation="sudoku",
            layout=task.layout,
            split=split,
            puzzles=_file_facts(loaded, puzzles, chosen),
            exact_clues=exact_clues,
            stop=None if stop is None else encode(stop),
            declared=declared(loaded, attempts=attempts, chosen_on=chosen_on, seed=seed),
            compiled=compile,
            complete=False,
            result=[],
        )
        record["result"].append(
            {**score.to_json(), "sampler": encode(used[count]), "temperature": temperatures[count]}
        )
        record["complete"] = len(scores) == len(sets)
        # after every count: who stops an evaluation of an hour keeps what was measured, if there is a place for it
        written = keep(record, "sudoku", model, out, written)
    results = record["result"]
    data = {"results": results, "manifest": record, "written": written, "cost": cost}
    emit(json, data, lambda: _shown(scores))


def _sets(
    task: SudokuTask,
    clues: tuple[int, ...] | None,
    num: int,
    puzzles: Path | None,
    split: Literal["eval", "dev"],
    exact_clues: bool,
) -> list[tuple[int | None, PuzzleSet, np.ndarray | None]]:
    """Clue count, puzzles and ratings of every set; a CSV file is one set, with whatever clues it has."""
    from simplax.data.sudoku import is_rated, load_rated
    from simplax.errors import UserError
    from simplax.evaluate import sudoku

    if puzzles is not None and is_rated(puzzles):
        if clues is not None or exact_clues or task.size != 9:
            raise UserError("a CSV file has puzzles and clues of its own, 9x9: leave clue counts out.")
        if num < 1:
            raise UserError(f"the number of puzzles must be at least 1, got {num}.")
        chosen = load_rated(puzzles).some(num)
        return [(None, chosen.puzzles, chosen.ratings)]
    counts = clues if clues is not None else _all_counts(task, puzzles)
    if not counts:
        raise UserError("name at least one clue count.")
    return [
        (
            count,
            sudoku.puzzle_set(count, num, size=task.size, split=split, file=puzzles, exact=exact_clues),
            None,
        )
        for count in counts
    ]


def _file_facts(model: Model, puzzles: Path | None, chosen: PuzzleSet) -> Any:
    """The name of a file of puzzles; of a CSV file also its digest and what it shares with the training data."""
    from simplax.data.sudoku import is_rated
    from simplax.evaluate.declared import overlap_of
    from simplax.io.files import sha256

    if puzzles is None or not is_rated(puzzles):
        return None if puzzles is None else puzzles.name
    return {
        "name": puzzles.name,
        "sha256": sha256(puzzles),
        **overlap_of(model, chosen),
    }


def _temperature(model: Model, count: int | None, chosen: float | None) -> float:
    return model.defaults(conditional=count != 0).temperature if chosen is None else chosen


def _all_counts(task: Any, puzzles: Path | None) -> tuple[int, ...]:
    if task.size == 4:
        return (task.clues, 0)
    return (40, 35, 30, 25, *((20, 17) if puzzles is not None else ()), 0)


def _shown(scores: list[Score]) -> Any:
    names = [
        "clues",
        "puzzles",
        "solved % (95 %)",
        "right cells %",
        "valid % (95 %)",
        "NFE",
        "block passes",
        "puzzles/s",
        "real clues",
    ]
    rows = [
        [
            "any" if score.clues is None else str(score.clues),
            str(score.num),
            "" if score.accuracy is None else str(score.accuracy),
            "" if score.cell_accuracy is None else f"{100 * score.cell_accuracy:.2f}",
            str(score.validity),
            f"{score.nfe:g}",
            f"{score.block_passes:g}",
            f"{score.puzzles_per_second:.1f}",
            ", ".join(f"{value}: {number}" for value, number in score.clue_counts.items()),
        ]
        for score in scores
    ]
    if any(score.best_of for score in scores):
        names[6:6] = ["best by own score %", "its NFE"]
        for row, score in zip(rows, scores):
            best = score.best_of
            assert best is not None
            row[6:6] = [f"{best.accuracy or best.validity}, of {best.attempts}", f"{best.nfe:g}"]
    return table(names, rows, names=1)
