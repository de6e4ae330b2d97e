"""`simplax figure sudoku MODEL...`, and figures of results: `simplax figure NAME RESULT.json...`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import tyro

from simplax.cli import entry, help_text
from simplax.cli.output import check_targets, emit
from simplax.cli.parsing import Device, Json, Weights, run
from simplax.cli.puzzles import BUNDLED, load_solver, read_puzzles
from simplax.cli.sampling import Seed, Steps
from simplax.errors import UserError, nearest

# name: (module with a function of that name, what it draws); adding one is adding a line
FIGURES: dict[str, tuple[str, str]] = {
    "sudoku": ("simplax.cli.verbs.figure", "one puzzle as several models fill it in"),
    "molecules": (
        "simplax.cli.verbs.figure_molecules",
        "validity and FCD against network calls, from evaluations",
    ),
    "revision": (
        "simplax.cli.verbs.figure_revision",
        "edits, mistakes and solved boards per step, from evaluations",
    ),
}


def main(arguments: list[str]) -> Any:
    if not arguments or arguments[0] in ("-h", "--help"):
        print(help_text("simplax figure", "Draw results.", FIGURES))
        return 0 if arguments else 2
    name, *rest = arguments
    if name not in FIGURES:
        raise UserError(f"there is no figure {name!r}{nearest(name, list(FIGURES))}")
    return run(entry(FIGURES[name][0], name), rest, f"simplax figure {name}")


def sudoku(
    models: Annotated[
        tuple[str, ...],
        tyro.conf.Positional,
        tyro.conf.arg(metavar="MODEL", help="runs, exported models or bundled names; a board each"),
    ] = (BUNDLED,),
    /,
    *,
    puzzle: Annotated[
        str | None, tyro.conf.arg(help="81 cells or a file with one puzzle; a made one if not given")
    ] = None,
    names: Annotated[tuple[str, ...] | None, tyro.conf.arg(help="titles of the boards, in order")] = None,
    steps: Steps = None,
    seed: Seed = 0,
    out: Annotated[
        Path, tyro.conf.arg(help="image file; without an ending both .png and .svg are written")
    ] = Path("sudoku"),
    weights: Weights = "auto",
    device: Device = "auto",
    json: Json = False,
) -> None:
    """One puzzle as several models fill it in, side by side: blue is given, black is right, red is wrong."""
    from simplax.evaluate.answers import answer, noise_seeds
    from simplax.viz.boards import draw_boards
    from simplax.viz.figures import both_formats, image

    if not models:
        raise UserError("name at least one model.")
    if names is not None and len(names) != len(models):
        raise UserError(f"give one name per model: {len(models)} models but {len(names)} names.")
    # a missing matplotlib or an unknown format is reported before the work, not after it
    files = [image(path) for path in both_formats(out)]
    check_targets(*files)
    parsed, *more = read_puzzles([puzzle if puzzle is not None else _made()])
    if more:
        raise UserError(f"a figure shows one puzzle and {puzzle} has {1 + len(more)}: give one of them.")
    answers = {}
    for number, model in enumerate(models):
        loaded = load_solver(model, weights, device)
        title = names[number] if names is not None else loaded.config.name
        drawn = answer(loaded, parsed.board[None], noise_seeds(seed, [0]), num_steps=steps)
        # two models may have the same name; titles must differ
        answers[title if title not in answers else f"{title} {number + 1}"] = drawn.boards[0]
    assert parsed.solution is not None
    written = draw_boards(parsed.board, parsed.solution, answers, files)
    wrong = {title: int((board != parsed.solution).sum()) for title, board in answers.items()}
    data = {"puzzle": "".join(map(str, parsed.board.tolist())), "wrong_cells": wrong, "files": written}
    emit(json, data, lambda: "\n".join(written))


def _made() -> str:
    """A 25-clue puzzle from a seed beyond those of every pool."""
    from simplax.data.sudoku import generate, to_text

    return to_text(generate(1_000_042, 25)[0])
