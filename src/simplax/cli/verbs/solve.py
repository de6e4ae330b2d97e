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
    StopAfter,
    Temperature,
    TimePower,
    read_eta,
    read_stop,
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
    attempts: Annotated[
        int, tyro.conf.arg(help="independent tries; the one the network itself scores highest is shown")
    ] = 1,
    any: Annotated[bool, tyro.conf.arg(help="accept boards with several solutions, blank ones too")] = False,
    html: Annotated[Path | None, tyro.conf.arg(help="write a page that plays the denoising")] = None,
    steps: Steps = None,
    sampler: SamplerName = OWN,
    eta: Eta = None,
    time_power: TimePower = None,
    temperature: Temperature = None,
    stop_after: StopAfter = None,
    seed: Seed = 0,
    batch_size: BatchSize = "auto",
    dtype: Dtype = "float32",
    weights: Weights = "auto",
    device: Device = "auto",
    json: Json = False,
) -> int:
    """Fill in Sudoku boards with a network and nothing else: no solver or search repairs what it writes.

    A solver only checks that a puzzle has one solution and colours the answer; it never chooses among attempts. In
    JSON, nfe counts all network calls spent on a puzzle. The exit status is 1 if a board that is shown is not valid.
    """
    if not 1 <= attempts <= MOST_ATTEMPTS:
        raise UserError(f"--attempts must lie between 1 and {MOST_ATTEMPTS}, got {attempts}.")
    concentration, stop = read_eta(eta), read_stop(stop_after)
    # mistakes in a puzzle are reported before a model is loaded
    parsed = read_puzzles(puzzles, several=any)
    check_targets(html)
    loaded = sampler.on(load_solver(model, weights, device, dtype))

    import numpy as np

    from simplax.evaluate.answers import answer, most_likely, noise_seeds
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
            stop=stop,
            batch_size=batch_size_for(loaded, batch_size, len(seeds)),
            trajectory=html is not None,
            score=attempts > 1,
            progress=done,
        )
    tries = answers.parts(attempts)
    shown = tries[0] if attempts == 1 else most_likely(tries)
    if html is not None:
        if first_process():
            settings = f", eta {eta}" if eta is not None else ""
            _write_page(html, f"{model}, {answers.num_steps} steps{settings}", parsed, shown)
        say(f"the denoising is in {html}")
    calls = np.sum([each.calls for each in tries], axis=0)
    valid = np.stack([each.solved for each in tries])
    rows = [
        {
            "puzzle": _digits(each.board),
            "solution": _digits(shown.boards[number]),
            "valid": bool(shown.solved[number]),
            "attempts": attempts,
            **{name: round(value, 6) for name, value in answers.work_of(int(calls[number])).items()},
            "nfe": int(calls[number]),
        }
        for number, each in enumerate(parsed)
    ]
    emit(json, rows, lambda: _shown(parsed, shown, valid, calls))
    return 0 if bool(shown.solved.all()) else 1


def _digits(board: np.ndarray) -> str:
    return "".join(map(str, board.tolist()))


def _shown(parsed: list[Puzzle], shown: Answers, valid: np.ndarray, calls: np.ndarray) -> Any:
    from rich.console import Group
    from rich.text import Text

    from simplax.viz.terminal import board_text, legend

    parts: list[Any] = [legend()]
    for number, each in enumerate(parsed):
        parts += ["", board_text(each.board, shown.boards[number], each.solution)]
        words = "solved" if shown.solved[number] else "not solved"
        if not shown.well_formed[number]:
            words += ", row separators are wrong"
        share = f", {valid[:, number].sum()} of {len(valid)} attempts valid" if len(valid) > 1 else ""
        parts.append(Text(f"{words}{share}, {calls[number] / len(valid):g} network calls per attempt"))
    return Group(*parts)


def _write_page(path: Path, name: str, parsed: list[Puzzle], shown: Answers) -> None:
    from simplax.viz.denoising import Episode, denoising_run
    from simplax.viz.player import write_player

    assert shown.frames is not None
    episodes = [
        Episode(
            each.board,
            shown.frames[:, number],
            each.solution,
            f"Puzzle {number + 1}: {'solved' if shown.solved[number] else 'not solved'}",
        )
        for number, each in enumerate(parsed)
    ]
    write_player(path, "Denoising a Sudoku", [denoising_run(episodes, name)])
