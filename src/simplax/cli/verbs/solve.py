"""`simplax solve PUZZLE...`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from simplax.cli.output import check_targets, emit, first_process, say
from simplax.cli.parsing import Device, Json, Weights, run
from simplax.cli.puzzles import BUNDLED, Puzzle, load_solver, read_puzzles
from simplax.cli.sampling import (
    OWN,
    BatchSize,
    Dtype,
    Eta,
    SamplerName,
    Seed,
    Steps,
    Temperature,
    TimePower,
    read_eta,
)
from simplax.errors import UserError
from simplax.io.progress import progress

if TYPE_CHECKING:
    import numpy as np

    from simplax.evaluate.answers import Answers

MOST_ATTEMPTS = 4096


def main(arguments: list[str]) -> int:
    status: int = run(solve, arguments, "simplax solve")
    return status


def solve(
    puzzles: Annotated[
        tuple[str, ...],
        tyro.conf.Positional,
        tyro.conf.arg(
            metavar="PUZZLE", help="81 cells with . or 0 for blank, a file of puzzles, or - for stdin"
        ),
    ],
    /,
    *,
    model: Annotated[str, tyro.conf.arg(help="a bundled name, a run or an exported model")] = BUNDLED,
    attempts: Annotated[int, tyro.conf.arg(help="independent tries; the first valid board is shown")] = 1,
    any: Annotated[bool, tyro.conf.arg(help="accept boards with several solutions, blank ones too")] = False,
    html: Annotated[Path | None, tyro.conf.arg(help="write a page that plays the denoising")] = None,
    steps: Steps = None,
    sampler: SamplerName = OWN,
    eta: Eta = None,
    time_power: TimePower = None,
    temperature: Temperature = None,
    seed: Seed = 0,
    batch_size: BatchSize = "auto",
    dtype: Dtype = "float32",
    weights: Weights = "auto",
    device: Device = "auto",
    json: Json = False,
) -> int:
    """Fill in Sudoku boards with a network and nothing else: no solver or search repairs what it writes.

    A solver only checks that a puzzle has one solution and colours the answer. In JSON, nfe counts all network calls
    spent on a puzzle (the mean over all puzzles, for samplers that can skip some). The exit status is 1 if some puzzle
    got no valid solution.
    """
    if not 1 <= attempts <= MOST_ATTEMPTS:
        raise UserError(f"--attempts must lie between 1 and {MOST_ATTEMPTS}, got {attempts}.")
    concentration = read_eta(eta)
    # mistakes in a puzzle are reported before a model is loaded
    parsed = read_puzzles(puzzles, several=any)
    check_targets(html)
    loaded = sampler.on(load_solver(model, weights, device, dtype))

    import numpy as np

    from simplax.evaluate.answers import answer, noise_seeds
    from simplax.pretrained.numerics import batch_size_for

    boards = np.stack([each.board for each in parsed])
    seeds = [s for attempt in range(attempts) for s in noise_seeds(seed, range(len(parsed)), attempt)]
    with progress("solving", len(seeds)) as done:
        answers = answer(
            loaded,
            np.tile(boards, (attempts, 1)),
            seeds,
            num_steps=steps,
            eta=concentration,
            time_power=time_power,
            temperature=temperature,
            batch_size=batch_size_for(loaded, batch_size, len(seeds)),
            trajectory=html is not None,
            progress=done,
        )
    solved = answers.solved.reshape(attempts, len(parsed))
    # argmax finds the first valid attempt, or the first of all if none is valid
    shown = solved.argmax(0) * len(parsed) + np.arange(len(parsed))
    if html is not None:
        if first_process():
            settings = f", eta {eta}" if eta is not None else ""
            _write_page(html, f"{model}, {answers.num_steps} steps{settings}", parsed, answers, shown)
        say(f"the denoising is in {html}")
    rows = [
        {
            "puzzle": _digits(each.board),
            "solution": _digits(answers.boards[row]),
            "valid": bool(solved[:, number].any()),
            "attempts": attempts,
            **{name: round(value * attempts, 6) for name, value in answers.work().items()},
        }
        for number, (each, row) in enumerate(zip(parsed, shown))
    ]
    emit(json, rows, lambda: _shown(parsed, answers, shown, solved))
    return 0 if bool(solved.any(0).all()) else 1


def _digits(board: np.ndarray) -> str:
    return "".join(map(str, board.tolist()))


def _shown(parsed: list[Puzzle], answers: Answers, shown: np.ndarray, solved: np.ndarray) -> Any:
    from rich.console import Group
    from rich.text import Text

    from simplax.viz.terminal import board_text, legend

    parts: list[Any] = [legend()]
    for number, (each, row) in enumerate(zip(parsed, shown)):
        parts += ["", board_text(each.board, answers.boards[row], each.solution)]
        words = "solved" if solved[:, number].any() else "not solved"
        if not answers.well_formed[row]:
            words += ", row separators are wrong"
        share = f", {solved[:, number].sum()} of {len(solved)} attempts valid" if len(solved) > 1 else ""
        parts.append(Text(f"{words}{share}, {answers.nfe:g} network calls per attempt"))
    return Group(*parts)


def _write_page(path: Path, name: str, parsed: list[Puzzle], answers: Answers, shown: np.ndarray) -> None:
    from simplax.viz.denoising import Episode, denoising_run
    from simplax.viz.player import write_player

    assert answers.frames is not None
    episodes = [
        Episode(
            each.board,
            answers.frames[:, row],
            each.solution,
            f"Puzzle {number}: {'solved' if answers.solved[row] else 'not solved'}",
        )
        for number, (each, row) in enumerate(zip(parsed, shown), 1)
    ]
    write_player(path, "Denoising a Sudoku", [denoising_run(episodes, name)])
