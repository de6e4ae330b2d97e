"""What must be said beside a number on Sudoku so that it can be compared with another: the facts of a fair row."""

from __future__ import annotations

from typing import Any

import numpy as np

from simplax.data import sudoku
from simplax.data.sudoku import PuzzleSet
from simplax.data.sudoku.equivalence import MOST, overlap
from simplax.evaluate.answers import sudoku_task
from simplax.nn.foreign import attribute
from simplax.pretrained.model import Model
from simplax.tasks import SudokuTask
from simplax.tasks.sudoku import PuzzleSource
from simplax.train.cost import count_calls

SYMMETRIES = "digits, rows in bands, bands, columns in stacks, stacks, transposition"


def declared(model: Model, *, attempts: int, chosen_on: str | None, seed: int = 0) -> dict[str, Any]:
    """Training, network and protocol of a Sudoku evaluation; None is what is not known.

    `chosen_on` says where the sampler's settings were chosen, in the words of whoever chose them; `seed` is that of the
    evaluation's noise.
    """
    task = sudoku_task(model)
    parameters = sum(parameter.numel() for parameter in model.denoiser.parameters())
    return {
        "training": {
            "puzzles": _training(task),
            "clues": "as in the file" if task.puzzles else task.clues,
            "augmentation": SYMMETRIES if task.augment else None,
            "batch_size": model.config.run.batch_size,
            **_work(model),
            "started_from": model.origin.get("started_from"),
        },
        "seeds": {"training": model.config.run.seed, "data": task.seed, "evaluation": seed},
        "trainings": 1,
        "layout": task.layout,
        "relations": bool(getattr(model.config.architecture, "relations", None)),
        "parameters": parameters,
        "block_passes_per_call": int(attribute(model.denoiser, "block_passes", 0) or 0) or None,
        "weights": model.origin.get("weights"),
        "sampler_chosen_on": chosen_on,
        "answers_per_puzzle": 1,
        "attempts_of_best_of": attempts if attempts > 1 else None,
        "answer_picked_by": "the network's own score, in best_of alone"
        if attempts > 1
        else "nobody: one answer",
        "verifier": None,
        "criterion": "every cell of the board is that of the answer",
    }


def _work(model: Model) -> dict[str, Any]:
    """How much one run was trained; the weights that it started from had a training of their own.

    A forward-equivalent is a pass of one example through the network: a call that is differentiated counts as three.
    """
    config, step = model.config, model.origin.get("step")
    steps = config.run.steps if step is None else int(step)
    examples = steps * config.run.batch_size
    calls = count_calls(config.method, config.architecture, config.task.length)
    return {
        "steps": steps,
        "steps_are": "planned" if step is None else "made",
        "examples": examples,
        "forward_equivalents": round(examples * (3 * calls.differentiated + calls.forward_only)),
    }


def _training(task: SudokuTask) -> str:
    if task.puzzles:
        return f"{task.limit or 'all'} puzzles of {task.puzzles}"
    if task.limit is not None:
        return f"{task.limit} puzzles made for the run"
    return "the published pool, 48,000" if task.size == 9 else "240 solutions of 4x4"


def overlap_of(model: Model, puzzles: PuzzleSet) -> dict[str, Any]:
    """How many of these puzzles the model was trained on, and up to what.

    Solutions up to the names of digits, and solutions and puzzles up to every symmetry. None, and a reason, where
    training puzzles are not at hand or too many boards are alike to be compared.
    """
    names = ("solutions_trained_on", "solutions_up_to_symmetry", "puzzles_up_to_symmetry")
    found: dict[str, Any] = {**dict.fromkeys(names), "symmetries": SYMMETRIES, "why_not": None}
    try:
        trained = _trained_on(sudoku_task(model))
    except (OSError, ValueError):
        return {**found, "why_not": "the puzzles of the training are not at hand"}
    seen = set(_in_order(trained))
    found["solutions_trained_on"] = sum(board in seen for board in _in_order(puzzles))
    both = overlap(puzzles, trained)
    if both is None:
        return {**found, "why_not": f"more than {MOST:,} boards are too much alike to be compared exactly"}
    return {**found, "solutions_up_to_symmetry": both.solutions, "puzzles_up_to_symmetry": both.puzzles}


def _trained_on(task: SudokuTask) -> PuzzleSet:
    source = task.train()
    return source.puzzles if isinstance(source, PuzzleSource) else sudoku.pool(task.clues).train


def _in_order(puzzles: PuzzleSet) -> list[bytes]:
    """Solutions with digits renamed so that the first row reads 1 to 9."""
    solutions = puzzles.solutions.astype(np.int64)
    names = np.zeros((len(solutions), 10), dtype=np.int8)
    np.put_along_axis(names, solutions[:, :9], np.arange(1, 10, dtype=np.int8)[None], axis=1)
    renamed = np.take_along_axis(names, solutions, axis=1)
    return [board.tobytes() for board in renamed]
