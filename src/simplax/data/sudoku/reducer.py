"""A search for puzzles with few clues, from the generator's.

Greedy removal ends at 22 or more clues. From there, one clue is exchanged for another that leaves the solution unique;
now and then a clue becomes spare, and there is a puzzle with one fewer. Puzzles with the fewest clues go first.

`python -m simplax.data.sudoku.reducer --clues 17 --seconds 110 --number 14` prints what it finds; `few.txt` keeps it.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator

import numpy as np

from simplax.data.sudoku.boards import to_text
from simplax.data.sudoku.generator import generate

_MOST_SOLUTIONS = 3000
_ROOM = 4000
_KEPT = 400  # puzzles of one clue count that wait to be tried


def reduce(puzzle: np.ndarray, clues: int, seed: int, seconds: float) -> Iterator[np.ndarray]:
    """Puzzles with fewer and fewer clues, the first with each number, until there is one with `clues` or time is up."""
    from simplax.data.sudoku import _kernels, _reducing

    t, s = _kernels.tables(9), _kernels.scratch(9)
    seen, trash, out = _kernels.zeros(81 * 9), _kernels.zeros(81), _kernels.zeros(3 * _ROOM)
    rng, end = random.Random(seed), time.monotonic() + seconds
    waiting: dict[int, list[np.ndarray]] = {}
    known: set[bytes] = set()
    least = 82

    def bare(cells: np.ndarray) -> np.ndarray:
        """Without its spare clues, one after the other."""
        while (which := _reducing.spare(cells, trash, t, s)) >= 0:
            cells[which] = 0
        return cells

    def keep(cells: np.ndarray) -> int:
        number = int(np.count_nonzero(cells))
        if cells.tobytes() not in known:
            known.add(cells.tobytes())
            row = waiting.setdefault(number, [])
            row.append(cells)
            if len(row) > _KEPT:
                row.pop(rng.randrange(len(row)))
        return number

    def first(cells: np.ndarray) -> Iterator[np.ndarray]:
        nonlocal least
        number = keep(cells)
        if number < least:
            least = number
            yield cells.astype(np.int8)

    yield from first(bare(np.array(puzzle, dtype=np.int64)))
    while least > clues and time.monotonic() < end:
        row = waiting[min(number for number, boards in waiting.items() if boards)]
        cells = row.pop(rng.randrange(len(row)))
        made = _reducing.exchanges(cells, _MOST_SOLUTIONS, seen, out, t, s)
        moves = np.array(out[: 3 * made]).reshape(-1, 3)
        for clue, cell, digit in moves[rng.sample(range(made), made)]:
            other = cells.copy()
            other[clue], other[cell] = 0, digit
            if other.tobytes() not in known:
                yield from first(bare(other))
            if least <= clues or time.monotonic() > end:
                return


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clues", type=int, default=17, help="go no lower")
    parser.add_argument("--seconds", type=float, default=60.0, help="for one beginning")
    parser.add_argument("--first", type=int, default=0, help="seed of the first beginning")
    parser.add_argument("--number", type=int, default=1, help="how many beginnings")
    options = parser.parse_args()
    for seed in range(options.first, options.first + options.number):
        began = time.monotonic()
        for board in reduce(generate(seed, 17)[0], options.clues, seed, options.seconds):
            print(
                seed, np.count_nonzero(board), to_text(board), round(time.monotonic() - began, 1), flush=True
            )


if __name__ == "__main__":
    main()
