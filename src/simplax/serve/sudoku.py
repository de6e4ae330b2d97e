"""Requests about Sudoku: boards to fill in, and puzzles to begin with."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from simplax.data.sudoku import (
    Undecided,
    conflicts,
    few_clue_puzzle,
    few_clues,
    generate_range,
    only_solution,
    parse,
    to_text,
)
from simplax.errors import UserError
from simplax.evaluate.answers import answer, noise_seeds, sudoku_task
from simplax.pretrained.model import Model
from simplax.serve.engine import Job
from simplax.serve.plans import Clock, Plan
from simplax.serve.schemas import Puzzle, SudokuRequest
from simplax.serve.served import Served

FEWEST_CLUES, MOST_CLUES = 17, 80
_GUESSES = 300_000  # of the solver, about half a second
_TRIES = 8  # seeds: one greedy pass may keep more clues than requested


def read_board(text: str) -> np.ndarray:
    """The one board of a request, without a clash among its clues."""
    board = parse(text)
    if conflicts(board).any():
        raise UserError("The puzzle is contradictory: a digit stands twice in a row, column or box.")
    return board


def known_solution(board: np.ndarray) -> np.ndarray | None:
    """The solution, None if there are several or it takes too long to tell."""
    from simplax.data.sudoku import _kernels

    try:
        return only_solution(board, _GUESSES if _kernels.COMPILED else _GUESSES // 100)
    except Undecided:
        return None


def make_puzzle(clues: int, seed: int) -> Puzzle:
    """A puzzle with one solution and that many clues, or as few more as there are.

    Up to 21 clues they are variants of stored puzzles, since the generator does not get so low.
    """
    if clues in few_clues():
        return Puzzle(puzzle=digits(few_clue_puzzle(clues, seed)), clues=clues, seed=seed)
    made = generate_range(seed * _TRIES, _TRIES, clues)[:, 0]
    best = made[np.count_nonzero(made, axis=1).argmin()]
    return Puzzle(puzzle=digits(best), clues=int(np.count_nonzero(best)), seed=seed)


def digits(board: np.ndarray) -> str:
    return to_text(board).replace(".", "0")


def plan(served: Served, asked: SudokuRequest, board: np.ndarray, solution: np.ndarray | None) -> Plan:
    task = sudoku_task(served.model)
    if board.size != task.size**2:
        raise UserError(f"this model fills in {task.size}x{task.size} boards: give {task.size**2} cells.")
    sampling = served.sampling(asked, conditional=bool(board.any()))
    clock = Clock(served.model, sampling)
    known = None if solution is None else digits(solution)

    def work(job: Job, model: Model) -> dict[str, Any]:
        def watch(step: int, tokens: Tensor) -> None:
            boards = task.board_layout.decode(tokens.cpu()).numpy()
            belief = _belief(job.logits, task.size) if asked.belief and step else None
            job.emit("step", {**clock.at(step), "boards": list(map(digits, boards)), "belief": belief})

        answers = answer(
            sampling.on(model),
            np.tile(board, (asked.attempts, 1)),
            [noise_seeds(asked.seed, range(1), attempt)[0] for attempt in range(asked.attempts)],
            num_steps=sampling.num_steps,
            temperature=asked.temperature,
            batch_size=asked.attempts,
            watch=watch,
        )
        solved = answers.solved
        return {
            "boards": list(map(digits, answers.boards)),
            "valid": solved.tolist(),
            "share": float(solved.mean()),
            "solution": known,
            "steps": answers.num_steps,
            "calls": answers.nfe,
        }

    start = {
        "model": served.name,
        "puzzle": digits(board),
        "solution": known,
        "steps": sampling.steps,
        "temperature": asked.temperature or served.model.defaults(conditional=bool(board.any())).temperature,
        "attempts": asked.attempts,
    }
    return Plan(served.model, asked.attempts, start, work)


def _belief(logits: Tensor | None, size: int) -> list[list[list[int]]] | None:
    """x_hat of every attempt in thousandths, a row per cell; None where positions are not cells."""
    if logits is None or logits.shape[1] != size**2 or logits.shape[2] < size:
        return None
    thousandths = torch.softmax(logits[:, :, :size].float(), dim=-1) * 1000
    rows: list[list[list[int]]] = thousandths.round().int().tolist()
    return rows
