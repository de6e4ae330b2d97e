"""A model's answers to Sudoku puzzles: the network and its sampler alone, nothing repairs what they write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from simplax.concentration import Concentration
from simplax.data.sudoku import valid_boards
from simplax.errors import UserError
from simplax.io.sharding import alone, current
from simplax.pretrained.model import Model
from simplax.samplers import Samples
from simplax.samplers.base import WORK, Counted
from simplax.samplers.transfer import moved
from simplax.tasks import SudokuTask


@dataclass(frozen=True, eq=False)
class Answers(Counted):
    """`boards` (number, cells), 0 where a token is not a digit; `nfe` network calls per board, made of
    `block_passes` transformer blocks and `multiply_adds` of matrix products (0: not known).

    `well_formed` (number,) is False where the row separators of the `prefix` layout are wrong: such a board counts as
    neither valid nor right. `frames` (times, number, cells) are the boards on the way, if requested.
    """

    puzzles: np.ndarray
    boards: np.ndarray
    well_formed: np.ndarray
    nfe: float
    num_steps: int
    frames: np.ndarray | None = None
    block_passes: float = 0.0
    multiply_adds: float = 0.0

    @property
    def valid(self) -> np.ndarray:
        """(number,) whether every row, column and box holds every digit once."""
        return self.well_formed & valid_boards(self.boards)

    @property
    def solved(self) -> np.ndarray:
        """(number,) whether a board is valid and keeps every clue."""
        return self.valid & ((self.puzzles == 0) | (self.puzzles == self.boards)).all(1)

    def equal(self, solutions: np.ndarray) -> np.ndarray:
        """(number,) whether a board is well formed and this solution in every cell."""
        return self.well_formed & (self.boards == solutions).all(1)


def sudoku_task(model: Model) -> SudokuTask:
    """The model's task, which must be Sudoku."""
    if not isinstance(model.config.task, SudokuTask):
        raise UserError(f"the model {model.config.name!r} was not trained on Sudoku: name one that was.")
    return model.config.task


def noise_seeds(seed: int, numbers: Sequence[int] | range, stream: int = 0) -> list[int]:
    """One seed per puzzle, no two equal: a function of `seed`, its number and a stream (an attempt, a split)."""
    for name, value, bits in (
        ("seed", seed, 30),
        ("stream", stream, 12),
        ("number", max(numbers, default=0), 20),
    ):
        if not 0 <= value < 1 << bits:
            raise UserError(f"the {name} of the noise must lie between 0 and {(1 << bits) - 1}, got {value}.")
    return [(seed << 32) + (stream << 20) + number for number in numbers]


def answer(
    model: Model,
    puzzles: np.ndarray,
    seeds: Sequence[int],
    *,
    num_steps: int | None = None,
    eta: float | Concentration | None = None,
    time_power: float | None = None,
    temperature: float | None = None,
    loops: int | None = None,
    batch_size: int = 128,
    trajectory: bool = False,
    progress: Callable[[int], None] | None = None,
    watch: Callable[[int, Tensor], None] | None = None,
) -> Answers:
    """Fill in `puzzles` (number, cells; 0 is blank), each with noise of its own seed; the rest is the model's default.

    What comes out for a puzzle does not depend on the others in its batch. `progress` is called with the number done
    after every batch, `watch` with the number of steps that a batch has made and its tokens.
    """
    task = sudoku_task(model)
    if puzzles.ndim != 2 or not len(puzzles) or puzzles.shape[1] != task.size**2:
        raise UserError(
            f"this model fills in {task.size}x{task.size} boards: give it puzzles of {task.size**2} cells."
        )
    if batch_size < 1:
        raise UserError(f"the batch size must be at least 1, got {batch_size}.")
    held = task.board_layout.encode(torch.from_numpy(np.ascontiguousarray(puzzles)))
    boards, formed = np.zeros_like(puzzles, dtype=np.int8), np.zeros(len(puzzles), dtype=bool)
    paths: np.ndarray | None = None
    batches = list(_batches(puzzles, batch_size))
    processes, finished = current(), 0
    tell = processes.counting(progress, len(puzzles))

    def draw(number: int) -> tuple[Samples, np.ndarray | None]:
        nonlocal finished
        rows, conditional = batches[number]
        defaults = model.defaults(conditional=conditional)
        drawn = model.sample(
            len(rows),
            num_steps=num_steps,
            seeds=[seeds[row] for row in rows],
            temperature=defaults.temperature if temperature is None else temperature,
            tokens=held.tokens[rows],
            given=held.given[rows],
            sampler=model.sampler(eta, time_power=time_power, conditional=conditional),
            loops=loops,
            batch_size=len(rows),
            trajectory=trajectory,
            watch=watch,
        )
        finished += len(rows)
        tell(finished)
        frames = None if drawn.trajectory is None else _frames(task, drawn.trajectory)
        return replace(moved(drawn, "cpu"), trajectory=None), frames

    work, steps = dict.fromkeys(WORK, 0.0), 0
    for (rows, _), (drawn, frames) in zip(batches, processes.map(draw, len(batches))):
        shares = {name: value * len(rows) / len(puzzles) for name, value in drawn.work().items()}
        work, steps = {name: work[name] + shares[name] for name in WORK}, drawn.num_steps
        boards[rows], formed[rows] = _read(task, drawn.tokens)
        if frames is not None:
            if paths is None:
                paths = np.zeros((len(drawn.times), *puzzles.shape), dtype=np.int8)
            paths[:, rows] = frames
    return Answers(puzzles, boards, formed, num_steps=steps, frames=paths, **work)


def compiled(model: Model, sizes: Sequence[int], batch_size: int) -> Model:
    """The model with its network compiled, for sets of these sizes: what is timed afterwards does not compile."""
    ready = replace(model, denoiser=torch.compile(model.denoiser))  # type: ignore[arg-type]
    task = sudoku_task(model)
    # one step is enough to compile; some samplers leave no choice
    steps = 1 if model.sampler(conditional=False).steps_for(task.length) is None else None
    shapes = {min(size, batch_size) for size in sizes} | {size % batch_size for size in sizes}
    with alone():  # every process compiles for itself
        for number in sorted(shapes - {0}, reverse=True):
            blank = np.zeros((number, task.size**2), np.int8)
            answer(ready, blank, [0] * number, num_steps=steps, batch_size=number)
    return ready


def _batches(puzzles: np.ndarray, size: int) -> Iterator[tuple[np.ndarray, bool]]:
    """Rows of the batches, and whether they have clues: blank boards go by themselves, for a model may have other
    defaults where nothing is given. Clues decide, not given positions: the `prefix` layout gives a blank puzzle too."""
    clued = (puzzles != 0).any(1)
    for conditional in (True, False):
        (rows,) = np.nonzero(clued == conditional)
        for start in range(0, len(rows), size):
            yield rows[start : start + size], conditional


def _read(task: SudokuTask, tokens: Tensor) -> tuple[np.ndarray, np.ndarray]:
    layout = task.board_layout
    return layout.decode(tokens).numpy().astype(np.int8), layout.well_formed(tokens).numpy()


def _frames(task: SudokuTask, trajectory: Tensor) -> np.ndarray:
    return np.stack([_read(task, tokens)[0] for tokens in trajectory.cpu()])
