"""`simplax demo`: train a small Sudoku model from scratch, measure it, and watch the bundled one at work."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from simplax.cli.output import emit, say
from simplax.cli.parsing import Json, run
from simplax.cli.puzzles import BUNDLED

if TYPE_CHECKING:
    import numpy as np

    from simplax.evaluate.sudoku import Score
    from simplax.pretrained.model import Model

RECIPE = "sudoku4-simplax"
UNSEEN = 1000
# made by the benchmark's generator from seeds beyond its pool, 30 clues each
PUZZLES = (
    ".3..289.....9...4..8...513......26.9..289.47...1.....2.5.....2.9..6..78.1.3..4..6",
    "..5.1....6.....5....1.587.6....8.6..16.....2..3796.8...4....18.789..54.....87.3..",
    ".5.8.4...8...2....24......37...925..68.1..9.....4..13.9.2.......65..374.43...7..5",
)


def main(arguments: list[str]) -> None:
    run(demo, arguments, "simplax demo")


def demo(
    *,
    out: Annotated[Path | None, tyro.conf.arg(help="keep the 4x4 run here; thrown away if not given")] = None,
    frame: Annotated[
        float, tyro.conf.arg(help="seconds per step when a terminal shows the denoising")
    ] = 0.04,
    smoke: Annotated[
        bool, tyro.conf.arg(help="train five steps only, to see that everything is there")
    ] = False,
    json: Json = False,
) -> None:
    """Train 4x4 Sudoku from nothing in about a minute, measure it on unseen puzzles, then solve 9x9 ones.

    48 of the 288 solutions of 4x4 Sudoku are never trained on; the accuracy is on puzzles of those. The 9x9 boards are
    filled in by the model that comes with the package, if this installation has it.
    """
    with tempfile.TemporaryDirectory() as scratch:
        trained = _train(out if out is not None else Path(scratch) / RECIPE, smoke, json)
    nine = _solve_nine(0.0 if json else frame, quiet=json)
    data = {"recipe": RECIPE, **trained, "bundled": nine}
    emit(json, data, lambda: _closing(data))


def _train(directory: Path, smoke: bool, quiet: bool) -> dict[str, Any]:
    from simplax import recipes
    from simplax.evaluate.sudoku import evaluate, puzzle_set
    from simplax.pretrained.model import from_pretrained
    from simplax.recipes.launch import launch
    from simplax.train.metrics import read as rows

    config = recipes.smoke(recipes.get(RECIPE)) if smoke else recipes.get(RECIPE)
    if not quiet:
        say(f"Training {config.name} from scratch: {config.run.steps} steps on 4x4 puzzles with 6 clues.")
    launch(config, directory, quiet=quiet)
    seconds = [row["time"] for row in rows(directory / "metrics.jsonl") if "time" in row][-1]
    model = from_pretrained(directory)
    score = evaluate(model, puzzle_set(6, UNSEEN, size=4), 6)
    if not quiet:
        _show_four(model, score, seconds)
    assert score.accuracy is not None
    return {"seconds": seconds, "steps": config.run.steps, "unseen_puzzles": score.to_json()}


def _show_four(model: Model, score: Score, seconds: float) -> None:
    from rich.columns import Columns
    from rich.console import Console

    from simplax.evaluate.answers import answer, noise_seeds
    from simplax.evaluate.sudoku import puzzle_set
    from simplax.viz.terminal import board_text, legend

    puzzles = puzzle_set(6, 4, size=4)
    answers = answer(model, puzzles.puzzles, noise_seeds(0, range(4)))
    boards = [board_text(*each) for each in zip(puzzles.puzzles, answers.boards, puzzles.solutions)]
    console = Console(highlight=False)
    console.print(
        f"Trained in {seconds:.0f} s. Of {score.num} puzzles whose solutions it never saw it solves "
        f"[bold]{score.accuracy} %[/] with {score.nfe:g} network calls each."
    )
    console.print(Columns(boards, padding=(0, 3)), legend(), "", sep="\n")


def _solve_nine(frame: float, quiet: bool) -> list[dict[str, Any]] | None:
    """Solve the 9x9 puzzles with the bundled model; None if there is none."""
    from simplax.pretrained.model import bundled, from_pretrained

    if BUNDLED not in bundled():
        return None
    import numpy as np

    from simplax.data.sudoku import check, parse
    from simplax.evaluate.answers import answer, noise_seeds

    boards = np.stack([parse(text) for text in PUZZLES])
    model = from_pretrained(BUNDLED)
    if not quiet:
        say(f"Solving {len(boards)} 9x9 puzzles with the bundled model: the network alone, no search.")
    answers = answer(model, boards, noise_seeds(0, range(len(boards))), trajectory=not quiet)
    if answers.frames is not None:
        _play(boards, answers.frames, np.stack([check(board) for board in boards]), frame)
    return [
        {"puzzle": text, "valid": bool(valid), **answers.work()}
        for text, valid in zip(PUZZLES, answers.solved)
    ]


def _play(puzzles: np.ndarray, frames: np.ndarray, solutions: np.ndarray, pause: float) -> None:
    """Every step on a terminal; only the last one where nobody watches."""
    from rich.columns import Columns
    from rich.console import Console
    from rich.live import Live

    from simplax.viz.terminal import board_text

    def shown(boards: np.ndarray) -> Any:
        return Columns([board_text(*each) for each in zip(puzzles, boards, solutions)], padding=(0, 3))

    console = Console(highlight=False)
    if not sys.stdout.isatty():
        console.print(shown(frames[-1]))
        return
    with Live(console=console, auto_refresh=False) as live:
        for boards in frames:
            live.update(shown(boards), refresh=True)
            time.sleep(pause)


def _closing(data: dict[str, Any]) -> str:
    if data["bundled"] is None:
        return (
            "This installation has no bundled 9x9 model. Train one with `simplax train sudoku-cpu-simplax`, "
            "then `simplax solve PUZZLE --model runs/sudoku-cpu-simplax`."
        )
    solved = sum(row["valid"] for row in data["bundled"])
    return (
        f"{solved} of {len(data['bundled'])} 9x9 puzzles solved. Try your own: simplax solve PUZZLE\n"
        "Watch it in a browser, cell by cell: make serve, or simplax serve --open"
    )
