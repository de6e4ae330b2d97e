"""How good a model and its few-step student are at a few network calls: a Markov chain, or 4x4 Sudoku.

python benchmarks/few_steps.py TEACHER STUDENT --out results/distillation/markov.json
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from simplax import from_pretrained
from simplax.data import sudoku
from simplax.data.sudoku.solver import valid_boards
from simplax.io.files import write_json
from simplax.io.manifest import environment
from simplax.pretrained.model import Model
from simplax.tasks import SudokuTask, ToyTask


def pair_divergence(task: ToyTask, tokens: Tensor) -> float:
    """KL in nats between the samples' law of two neighbours and the chain's, the mean over all places.

    Sharper samples than the chain's are as wrong as blurred ones: both are away from its law.
    """
    size = task.categories
    truth = task.chain.initial[:, None] * task.chain.transition
    pairs = tokens[:, :-1] * size + tokens[:, 1:]
    total = 0.0
    for place in range(pairs.shape[1]):
        law = torch.bincount(pairs[:, place], minlength=size**2).double() / len(pairs)
        total += float(torch.xlogy(law, law / truth.flatten()).sum())
    return total / pairs.shape[1]


def on_the_chain(model: Model, calls: int, number: int) -> dict[str, float]:
    task = model.config.task
    assert isinstance(task, ToyTask)
    tokens = model.sample(number, num_steps=calls, seeds=10**6).tokens
    nats = -task.chain.log_prob(tokens) / task.length
    return {
        "pair_kl": pair_divergence(task, tokens),
        "nats_per_token": float(nats.mean()),
        "nats_standard_error": float(nats.std()) / math.sqrt(number),
    }


def on_sudoku(model: Model, calls: int, number: int) -> dict[str, float]:
    """Held-out puzzles answered, and boards without clues that keep all rules."""
    task = model.config.task
    assert isinstance(task, SudokuTask)
    batch = replace(task, held_out=number).validation().batch(torch.arange(number))
    answers = model.sample(
        len(batch.tokens), num_steps=calls, seeds=10**6, tokens=batch.tokens, given=batch.given
    ).tokens
    solved = (answers == batch.tokens).all(-1).double()
    free = model.sample(number, num_steps=calls, seeds=2 * 10**6).tokens
    boards = sudoku.make_layout(task.layout, task.size).decode(free).numpy()
    valid = torch.from_numpy(valid_boards(boards)).double()
    kinds = len({tuple(board) for board in boards[valid.bool().numpy()].tolist()})
    return {
        "solved": float(solved.mean()),
        "solved_standard_error": float(solved.std()) / math.sqrt(len(solved)),
        "valid": float(valid.mean()),
        "valid_standard_error": float(valid.std()) / math.sqrt(len(valid)),
        "different_valid_boards": float(kinds),
    }


def measure(model: Model, calls: list[int], number: int) -> dict[str, dict[str, float]]:
    rule = on_sudoku if isinstance(model.config.task, SudokuTask) else on_the_chain
    return {str(count): rule(model, count, number) for count in calls}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("teacher", type=Path)
    parser.add_argument("student", type=Path)
    parser.add_argument("--calls", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--num", type=int, default=4000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    record: dict[str, Any] = {**environment(), "calls": options.calls, "samples": options.num}
    for name in ("teacher", "student"):
        model = from_pretrained(getattr(options, name), device="cpu")
        record[name] = {**model.describe(), "results": measure(model, options.calls, options.num)}
        print(name, record[name]["results"], flush=True)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        write_json(options.out, record)


if __name__ == "__main__":
    main()
