"""The Sudoku benchmark's generator: one seed, one puzzle, the same everywhere.

A seed makes a `random.Random`, which fills a board by backtracking and then chooses the order in which
cells are blanked as long as the solution stays unique. The pass is made once, so a puzzle keeps more clues
than requested when the order is unlucky. The same seed has the same solution and the same order for every
clue count.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np

from simplax.errors import UserError

CELLS = 81


def generate(seed: int, clues: int) -> tuple[np.ndarray, np.ndarray]:
    """Puzzle and solution of one seed, flat int8 boards."""
    puzzle, solution = generate_range(seed, 1, clues)[0]
    return puzzle, solution


def generate_range(first: int, number: int, clues: int) -> np.ndarray:
    """`(number, 2, 81)` puzzles and solutions of consecutive seeds."""
    from simplax.data.sudoku import _digging, _kernels, _twister

    if not 0 <= clues <= CELLS:
        raise UserError(f"A 9x9 puzzle has between 0 and 81 clues, not {clues}.")
    if max(abs(first), abs(first + number)) >= 2**63:
        raise UserError("Seeds of puzzles are 64-bit integers.")
    out = _kernels.zeros(number * 2 * CELLS)
    buffers = _kernels.tables(9), _kernels.scratch(9)
    _digging.generate(first, number, clues, out, _twister.new_rng(), _kernels.zeros(3 * CELLS), *buffers)
    return np.asarray(out, dtype=np.int8).reshape(number, 2, CELLS)


def seed_stream(first: int, clues: int, chunk: int = 256) -> Iterator[np.ndarray]:
    """Endless chunks of `generate_range`, in the order of the seeds, made on every core.

    Compiled code releases the interpreter lock, so threads are enough for it; plain Python needs processes.
    """
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with _executor(workers) as executor:
        pending: deque[Future[np.ndarray]] = deque()
        try:
            while True:
                while len(pending) < 2 * workers:
                    pending.append(executor.submit(generate_range, first, chunk, clues))
                    first += chunk
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()


def _executor(workers: int) -> Executor:
    from simplax.data.sudoku import _kernels

    return ThreadPoolExecutor(workers) if _kernels.COMPILED else ProcessPoolExecutor(workers)
