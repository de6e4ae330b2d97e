"""What must be said beside a number on Sudoku so that it can be compared with another: the facts of a fair row."""

from __future__ import annotations

from typing import Any

import numpy as np

from simplax.data import sudoku
from simplax.data.sudoku import PuzzleSet
from simplax.evaluate.answers import sudoku_task
from simplax.nn.foreign import attribute
from simplax.pretrained.model import Model
from simplax.tasks import SudokuTask

SYMMETRIES = "digits, rows in bands, bands, columns in stacks, stacks, transposition"


def declared(model: Model, *, attempts: int, chosen_on: str | None) -> dict[str, Any]:
    """Training, network and protocol of a Sudoku evaluation; None is what is not known.

    `chosen_on` says where the sampler's settings were chosen, in the words of whoever chose them.
    """
    task = sudoku_task(model)
    parameters = sum(parameter.numel() for parameter in model.denoiser.parameters())
    return {
        "training": {
            "puzzles": _training(task),
            "clues": "as in the file" if task.puzzles else task.clues,
            "augmentation": SYMMETRIES if task.augment else None,
            "batch_size": model.config.run.batch_size,
        },
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


def _training(task: SudokuTask) -> str:
    if task.puzzles:
        return f"{task.limit or 'all'} puzzles of {task.puzzles}"
    if task.limit is not None:
        return f"{task.limit} puzzles made for the run"
    return "the published pool, 48,000" if task.size == 9 else "240 solutions of 4x4"


def shared_solutions(model: Model, puzzles: PuzzleSet) -> int | None:
    """How many of these puzzles have a solution that the model was trained on, up to the names of digits.

    None if what it was trained on is not at hand.
    """
    task = sudoku_task(model)
    try:
        trained = sudoku.pool(task.clues).train if task.puzzles is None else task.training_puzzles
    except (OSError, ValueError):
        return None
    seen = set(_in_order(trained))
    return sum(board in seen for board in _in_order(puzzles))


def _in_order(puzzles: PuzzleSet) -> list[bytes]:
    """Solutions with digits renamed so that the first row reads 1 to 9."""
    solutions = puzzles.solutions.astype(np.int64)
    names = np.zeros((len(solutions), 10), dtype=np.int8)
    np.put_along_axis(names, solutions[:, :9], np.arange(1, 10, dtype=np.int8)[None], axis=1)
    renamed = np.take_along_axis(names, solutions, axis=1)
    return [board.tobytes() for board in renamed]
