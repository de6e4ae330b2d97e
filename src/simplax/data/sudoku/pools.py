"""The benchmark's puzzles: 48,000 to train on, 2,000 to evaluate on, and seeds beyond them.

Training and evaluation share no solution, at any clue count: a set of 2,000 made on its own from the same
base seed would lie almost wholly inside the training set, so evaluation puzzles always come from the whole
pool.
"""

from __future__ import annotations

import os
import random
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from simplax.data.cache import cache_directory
from simplax.data.sudoku.generator import seed_stream
from simplax.data.sudoku.puzzles import PuzzleSet
from simplax.errors import UserError
from simplax.io.progress import progress as show_progress

BASE_SEED = 42
POOL_SIZE = 50_000
NUM_TRAIN = 48_000
DEVELOPMENT_SEED = 1_000_000  # far beyond the pool and whatever `exact_clues` adds to it
MIN_CLUES = 22  # one greedy pass practically never gets lower

# of the whole pool in its final order; a generator that disagrees would make results incomparable
PUBLISHED_SHA256 = {
    40: "e2f7ac6310417be4c172798d2a7083384ae3b4d4feaf136feed60790d180ecdc",
    35: "37726866ebb7f66b81a1feb6a9b67b5264802bdb5537f30dc1b2a2047979abaa",
    30: "29bc662b05c957b55dfc4889dc49364fa0533de92cc10500d457960b97f81042",
    25: "bbcb5bc18d831c94cf17211cda1a3917af4459cd1292e55ccd47a9c850930861",
}


@dataclass(frozen=True, eq=False)
class Pool:
    """All puzzles of one clue count in their final order; `next_seed` is the first seed not consumed."""

    clues: int
    puzzles: PuzzleSet
    next_seed: int

    @property
    def train(self) -> PuzzleSet:
        return self.puzzles[:NUM_TRAIN]

    @property
    def valid(self) -> PuzzleSet:
        return self.puzzles[NUM_TRAIN:]


def pool(clues: int, progress: bool | None = None) -> Pool:
    """The pool of one clue count, from the cache or made now; `progress=None` shows a bar on a terminal."""
    if not MIN_CLUES <= clues <= 80:
        raise UserError(
            f"The generator makes puzzles with {MIN_CLUES} to 80 clues, not {clues}; "
            "17 and 20 come from a file of 17-clue puzzles."
        )
    path = cache_directory() / f"sudoku-pool-v1-{clues}.npz"
    cached = _load(path, clues)
    if cached is not None:
        return cached
    made = _make_pool(clues, progress)
    expected = PUBLISHED_SHA256.get(clues)
    if expected is not None and made.puzzles.sha256() != expected:
        raise RuntimeError(
            f"The generated {clues}-clue pool differs from the published one; please report this."
        )
    _save(path, made)
    return made


def development_set(clues: int, num: int, progress: bool | None = None) -> PuzzleSet:
    """Puzzles for choosing anything on: seeds far beyond the pool, no solution of the pool among them."""
    seen = pool(clues, progress).puzzles.solution_keys()
    return _collect(DEVELOPMENT_SEED, clues, num, seen, progress)[0]


def exact_clues(clues: int, num: int = POOL_SIZE - NUM_TRAIN, progress: bool | None = None) -> PuzzleSet:
    """Evaluation puzzles with exactly `clues` clues: those of the pool, then the seed stream after it."""
    whole = pool(clues, progress)
    exact = whole.valid[whole.valid.clue_counts == clues]
    if len(exact) * 100 < len(whole.valid):
        raise UserError(
            f"Fewer than one generated puzzle in a hundred has exactly {clues} clues; request more clues."
        )
    if len(exact) >= num:
        return exact[:num]
    seen = whole.puzzles.solution_keys()

    def is_exact(puzzle: np.ndarray) -> bool:
        return np.count_nonzero(puzzle) == clues

    return exact + _collect(whole.next_seed, clues, num - len(exact), seen, progress, is_exact)[0]


def _make_pool(clues: int, progress: bool | None) -> Pool:
    in_seed_order, next_seed = _collect(BASE_SEED, clues, POOL_SIZE, set(), progress)
    order = list(range(POOL_SIZE))
    random.Random(BASE_SEED).shuffle(order)
    return Pool(clues, in_seed_order[np.array(order)], next_seed)


def _collect(
    first: int,
    clues: int,
    num: int,
    seen: set[bytes],
    progress: bool | None,
    keep: Callable[[np.ndarray], bool] = lambda puzzle: True,
) -> tuple[PuzzleSet, int]:
    """The first `num` puzzles from seed `first` that pass `keep` and have a new solution; the seed after."""
    kept: list[np.ndarray] = []
    seed = first
    bar = show_progress(f"{clues}-clue puzzles", num, progress)
    with bar as done, closing(seed_stream(first, clues)) as stream:  # type: ignore[type-var]
        while len(kept) < num:
            for pair in next(stream):
                seed += 1
                key = pair[1].tobytes()
                if key not in seen and keep(pair[0]):
                    seen.add(key)
                    kept.append(pair)
                    if len(kept) == num:
                        break
            done(len(kept))
    boards = np.stack(kept) if kept else np.zeros((0, 2, 81), dtype=np.int8)
    return PuzzleSet(boards[:, 0], boards[:, 1]), seed


def _save(path: Path, made: Pool) -> None:
    """Write beside the target, then rename: a reader sees the old file or the whole new one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as file:
            boards = made.puzzles
            np.savez_compressed(
                file,
                puzzles=boards.puzzles,
                solutions=boards.solutions,
                next_seed=made.next_seed,
                sha256=boards.sha256(),
            )
        os.replace(file.name, path)
    except OSError as error:
        warnings.warn(f"The puzzles were not cached in {path.parent}: {error}.", stacklevel=3)


def _load(path: Path, clues: int) -> Pool | None:
    """The cached pool, or `None` if it is absent, unreadable or not what was written."""
    try:
        with np.load(path, allow_pickle=False) as file:
            puzzles = PuzzleSet(file["puzzles"], file["solutions"])
            next_seed, stored = int(file["next_seed"]), str(file["sha256"])
        if puzzles.puzzles.shape != (POOL_SIZE, 81) or puzzles.solutions.shape != (POOL_SIZE, 81):
            return None
        intact = puzzles.sha256() == PUBLISHED_SHA256.get(clues, stored)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        return None
    return Pool(clues, puzzles, next_seed) if intact else None
