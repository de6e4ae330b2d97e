"""Accuracy of a model on Sudoku at several clue counts, on sets of puzzles it was never trained on.

The `eval` split is the published one and is for reporting; whatever is chosen is chosen on `dev`, which shares neither
puzzles nor noise with it. In the `prefix` layout a board with wrong row separators counts as invalid, as published.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from simplax.concentration import Concentration
from simplax.data import sudoku
from simplax.data.sudoku import PuzzleSet
from simplax.errors import UserError
from simplax.evaluate.answers import Answers, answer, most_likely, noise_seeds, sudoku_task
from simplax.evaluate.cost import NOTHING, Cost, sampling_cost
from simplax.evaluate.intervals import wilson
from simplax.evaluate.revision import expected_edits, measure, own_evidence
from simplax.pretrained.model import Model
from simplax.samplers import Sampler
from simplax.samplers.base import Counted
from simplax.samplers.stopping import Settled

Split = Literal["eval", "dev"]
LARGEST = 2_000
"""Puzzles in an evaluation set; a development set from the same file begins after them."""
FROM_FILE = (17, 20)
_STREAMS: dict[str, int] = {"eval": 0, "dev": 1}
MOST_ATTEMPTS = 2_000
_PROBED = 256
"""Puzzles on which it is measured how much a network relies on a token's own evidence."""


@dataclass(frozen=True)
class Proportion:
    """A measured share with its 95 % Wilson interval."""

    value: float
    low: float
    high: float

    @staticmethod
    def of(successes: np.ndarray) -> Proportion:
        return Proportion(float(successes.mean()), *wilson(int(successes.sum()), len(successes)))

    def __str__(self) -> str:
        return f"{100 * self.value:.2f} ({100 * self.low:.2f} to {100 * self.high:.2f})"


@dataclass(frozen=True)
class BestOf:
    """Of several answers to every puzzle the one that the network itself gives the highest score: another measure than
    one answer per puzzle, and another cost. Nothing checks whether the chosen board is valid before it is chosen."""

    attempts: int
    accuracy: Proportion | None
    validity: Proportion
    nfe: float


@dataclass(frozen=True)
class Score(Counted):
    """What a model did on one set. `accuracy` (the whole board is the only solution) and `cell_accuracy` (the share of
    blank cells that are right) are None without clues, where every valid board is right.

    `clue_counts` says how many puzzles really have how many clues; `sha256` is the digest of the set. `distinct` counts
    the different boards among the valid ones without clues. `clues` is None for puzzles of a file with
    whatever counts it has.
    """

    clues: int | None
    num: int
    accuracy: Proportion | None
    cell_accuracy: float | None
    validity: Proportion
    nfe: float
    block_passes: float
    multiply_adds: float
    num_steps: int
    puzzles_per_second: float
    seconds: float
    clue_counts: dict[int, int]
    sha256: str
    distinct: int | None = None
    best_of: BestOf | None = None
    revision: dict[str, Any] | None = None
    by_rating: list[dict[str, Any]] | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def puzzle_set(
    clues: int,
    num: int,
    *,
    size: int = 9,
    split: Split = "eval",
    file: str | Path | None = None,
    exact: bool = False,
) -> PuzzleSet:
    """`num` puzzles with that many clues: of the published pool, of a `file` of 17-clue puzzles, or blank boards.

    `exact` continues the seed stream until so many puzzles have exactly `clues` clues, which one pass of the generator
    does not always reach; 4x4 puzzles, blank boards and those of a file always have them.
    """
    if num < 1 or (num > LARGEST and clues != 0 and split == "eval"):
        raise UserError(f"an evaluation set has 1 to {LARGEST} puzzles, not {num}.")
    if exact and (split == "dev" or size != 9):
        raise UserError("exact clue counts exist for 9x9 evaluation sets only.")
    if clues == 0:
        blank = np.zeros((num, size**2), dtype=np.int8)
        return PuzzleSet(blank, blank)
    if size == 4:
        return _four(clues, num, split)
    if clues in FROM_FILE:
        if file is None:
            raise UserError(f"{clues} clues need a file of 17-clue puzzles: name it with --puzzles FILE.")
        return sudoku.extend_seventeen(file, clues, num, skip=LARGEST if split == "dev" else 0)
    if split == "dev":
        return sudoku.development_set(clues, num)
    return sudoku.exact_clues(clues, num) if exact else sudoku.pool(clues).valid[:num]


def _four(clues: int, num: int, split: Split) -> PuzzleSet:
    """Puzzles of the 48 solutions never trained on: development takes the first half of them, evaluation the rest."""
    unseen = sudoku.puzzles_4x4(clues)[1]
    half = len(unseen) // 2
    if num > half:
        raise UserError(f"there are only {half} unseen 4x4 puzzles with {clues} clues: request fewer.")
    return unseen[:num] if split == "dev" else unseen[half : half + num]


def evaluate(
    model: Model,
    puzzles: PuzzleSet,
    clues: int | None,
    *,
    split: Split = "eval",
    num_steps: int | None = None,
    eta: float | Concentration | None = None,
    time_power: float | None = None,
    temperature: float | None = None,
    sampler: Sampler[Any] | None = None,
    stop: Settled | None = None,
    attempts: int = 1,
    revision: bool = False,
    ratings: np.ndarray | None = None,
    loops: int | None = None,
    seed: int = 0,
    batch_size: int = 128,
    progress: Callable[[int], None] | None = None,
) -> Score:
    """Score the model on a set; the noise of a puzzle belongs to its place in the set, never to its batch.

    With several `attempts` the first one is scored as ever and the one with the model's highest own score besides.
    `ratings` of the puzzles, if they have any, divide the accuracy.
    """
    if not 1 <= attempts <= MOST_ATTEMPTS:
        raise UserError(f"the number of attempts must lie between 1 and {MOST_ATTEMPTS}, got {attempts}.")
    tell = progress or (lambda done: None)

    def once(attempt: int) -> Answers:
        return answer(
            model,
            puzzles.puzzles,
            noise_seeds(seed, range(len(puzzles)), _STREAMS[split] + len(_STREAMS) * attempt),
            num_steps=num_steps,
            eta=eta,
            time_power=time_power,
            temperature=temperature,
            loops=loops,
            sampler=sampler,
            stop=stop,
            batch_size=batch_size,
            trajectory=revision and attempt == 0,
            score=attempts > 1,
            progress=lambda done: tell((attempt * len(puzzles) + done) // attempts),
        )

    start = time.perf_counter()
    first = once(0)
    seconds = time.perf_counter() - start
    best = None if attempts == 1 else _best([first, *map(once, range(1, attempts))], puzzles, clues)
    revised = _revision(model, first, puzzles, clues) if revision else None
    result = score(first, puzzles, clues, seconds)
    rated = None if ratings is None else by_rating(first.equal(puzzles.solutions), ratings)
    return replace(result, best_of=best, revision=revised, by_rating=rated)


def by_rating(solved: np.ndarray, ratings: np.ndarray) -> list[dict[str, Any]]:
    """Shares of solved boards by difficulty, in decades of the rating."""
    edges = [-np.inf, 1, 10, 100, 1000, np.inf]
    rows = []
    for low, high in itertools.pairwise(edges):
        here = (ratings >= low) & (ratings < high)
        if here.any():
            bounds = {"from": int(ratings[here].min()), "to": int(ratings[here].max())}
            rows.append({**bounds, "num": int(here.sum()), "accuracy": asdict(Proportion.of(solved[here]))})
    return rows


def _best(tries: list[Answers], puzzles: PuzzleSet, clues: int | None) -> BestOf:
    chosen = most_likely(tries)
    return BestOf(
        len(tries),
        Proportion.of(chosen.equal(puzzles.solutions)) if clues != 0 else None,
        Proportion.of(chosen.valid),
        sum(each.nfe for each in tries),
    )


def cost_of(
    model: Model,
    sets: Mapping[int | None, PuzzleSet],
    *,
    steps: Mapping[int | None, Sequence[int]],
    samplers: Mapping[int | None, Sampler[Any]],
    batch_size: int,
    attempts: int = 1,
    loops: int | None = None,
) -> Cost:
    """The cost of answering sets of puzzles, each `attempts` times with all of its `steps`, or with the model's own.

    Boards that stop early cost less.
    """
    total, layout = NOTHING, sudoku_task(model).board_layout
    for clues, chosen in sets.items():
        first = layout.encode(torch.from_numpy(np.ascontiguousarray(chosen.puzzles[:batch_size])))
        default = model.defaults(conditional=clues != 0).num_steps
        total += sampling_cost(
            model,
            len(chosen),
            sampler=samplers[clues],
            repeats=[*(steps.get(clues) or (default,))] * attempts,
            batch_size=batch_size,
            held=(first.tokens, first.given),
            loops=loops,
        )
    return total


def _revision(model: Model, answers: Answers, puzzles: PuzzleSet, clues: int | None) -> dict[str, Any]:
    assert answers.frames is not None and answers.times is not None
    process = model.method.process(model.denoiser)
    measured = measure(
        answers.frames,
        puzzles.puzzles == 0,
        decoded=answers.decoded,
        truth=puzzles.solutions if clues != 0 else None,
        expected=expected_edits(process, answers.times),
    ).to_json()
    if clues == 0:
        return measured
    held = sudoku_task(model).board_layout.encode(
        torch.from_numpy(puzzles.puzzles[:_PROBED]), torch.from_numpy(puzzles.solutions[:_PROBED])
    )
    return {**measured, "own_evidence": own_evidence(model, held.tokens, held.given)}


def score(answers: Answers, puzzles: PuzzleSet, clues: int | None, seconds: float) -> Score:
    """The measures of answers that took so many seconds."""
    right = answers.boards == puzzles.solutions
    values, numbers = np.unique(puzzles.clue_counts, return_counts=True)
    return Score(
        clues=clues,
        num=len(puzzles),
        accuracy=Proportion.of(answers.equal(puzzles.solutions)) if clues != 0 else None,
        cell_accuracy=float(right[puzzles.puzzles == 0].mean()) if clues != 0 else None,
        validity=Proportion.of(answers.valid),
        nfe=answers.nfe,
        block_passes=answers.block_passes,
        multiply_adds=answers.multiply_adds,
        num_steps=answers.num_steps,
        puzzles_per_second=len(puzzles) / seconds,
        seconds=seconds,
        clue_counts={int(value): int(number) for value, number in zip(values, numbers)},
        sha256=puzzles.sha256(),
        distinct=None if clues != 0 else len(np.unique(answers.boards[answers.valid], axis=0)),
    )
