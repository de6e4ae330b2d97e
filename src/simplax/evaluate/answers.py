"""A model's answers to Sudoku puzzles: the network and its sampler alone, nothing repairs what they write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simplax.concentration import Concentration
from simplax.data.sudoku import valid_boards
from simplax.errors import UserError
from simplax.io.sharding import alone, current
from simplax.nn.compiling import check_compiler
from simplax.pretrained.model import Model
from simplax.samplers import Sampler, Samples
from simplax.samplers.base import Counted
from simplax.samplers.batches import in_order, join
from simplax.samplers.stopping import Settled
from simplax.samplers.transfer import moved
from simplax.tasks import SudokuTask


@dataclass(frozen=True, eq=False)
class Answers(Counted):
    """`boards` (number, cells), 0 where a token is not a digit; `nfe` network calls per board (`calls` (number,) those
    of each), made of `block_passes` transformer blocks and `multiply_adds` of matrix products (0: not known).

    `well_formed` (number,) is False where the row separators of the `prefix` layout are wrong: such a board counts as
    neither valid nor right. `frames` (times, number, cells) are the boards on the way, if requested, and `decoded`
    (calls, number, cells) what the network took for the answer at each call. `log_prob` (number,) is the model's own
    score of each answer, if requested: the mean log-probability of its cells under the last prediction. `times` are
    those of the steps.
    """

    puzzles: np.ndarray
    boards: np.ndarray
    well_formed: np.ndarray
    nfe: float
    num_steps: int
    frames: np.ndarray | None = None
    block_passes: float = 0.0
    multiply_adds: float = 0.0
    calls: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    decoded: np.ndarray | None = None
    log_prob: np.ndarray | None = None
    times: Tensor | None = None

    def parts(self, number: int) -> list[Answers]:
        """As many equal runs of consecutive answers."""
        size = len(self.boards) // number
        cuts = [slice(size * part, size * (part + 1)) for part in range(number)]
        return [
            replace(
                self,
                puzzles=self.puzzles[cut],
                boards=self.boards[cut],
                well_formed=self.well_formed[cut],
                **self.work_of(float(self.calls[cut].mean())),
                frames=None if self.frames is None else self.frames[:, cut],
                calls=self.calls[cut],
                decoded=None if self.decoded is None else self.decoded[:, cut],
                log_prob=None if self.log_prob is None else self.log_prob[cut],
            )
            for cut in cuts
        ]

    def work_of(self, calls: float) -> dict[str, Any]:
        """What so many calls cost: all boards are of one length, and so one call of one costs the same as any other."""
        return {
            name: value * calls / self.nfe if self.nfe else 0.0 for name, value in self.work().items()
        } | {"nfe": calls}

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
    sampler: Sampler[Any] | None = None,
    stop: Settled | None = None,
    loops: int | None = None,
    batch_size: int = 128,
    trajectory: bool = False,
    score: bool = False,
    progress: Callable[[int], None] | None = None,
    watch: Callable[[int, Tensor], None] | None = None,
) -> Answers:
    """Fill in `puzzles` (number, cells; 0 is blank), each with noise of its own seed; the rest is the model's default.

    A `sampler` takes the place of the model's own, for boards with clues and without. `stop` ends boards that do not
    change any more, `score` asks for the model's own score of each answer.

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
    if sampler is not None and (eta is not None or time_power is not None):
        raise UserError("give a sampler, or eta and a time power for the model's own, not both.")
    held = task.board_layout.encode(torch.from_numpy(np.ascontiguousarray(puzzles)))
    batches = list(_batches(puzzles, batch_size))
    processes, finished = current(), 0
    tell = processes.counting(progress, len(puzzles))

    def draw(number: int) -> Samples:
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
            sampler=sampler or model.sampler(eta, time_power=time_power, conditional=conditional),
            loops=loops,
            batch_size=len(rows),
            trajectory=trajectory,
            stop=stop,
            score=score,
            watch=watch,
        )
        finished += len(rows)
        tell(finished)
        # small numbers: a long path is kept, and travels, in bytes
        drawn = replace(drawn, trajectory=_bytes(drawn.trajectory), decoded=_bytes(drawn.decoded))
        return moved(drawn, "cpu")

    whole = join(processes.map(draw, len(batches)))
    return _answers(
        task, puzzles, in_order(whole, torch.from_numpy(np.concatenate([rows for rows, _ in batches])))
    )


def _bytes(path: Tensor | None) -> Tensor | None:
    return None if path is None else path.to(torch.int8)


def _answers(task: SudokuTask, puzzles: np.ndarray, drawn: Samples) -> Answers:
    boards, formed = _read(task, drawn.tokens.cpu())
    assert drawn.sample_calls is not None
    return Answers(
        puzzles,
        boards,
        formed,
        num_steps=drawn.num_steps,
        frames=None if drawn.trajectory is None else _frames(task, drawn.trajectory),
        calls=drawn.sample_calls.cpu().numpy(),
        decoded=None if drawn.decoded is None else _frames(task, drawn.decoded),
        log_prob=None if drawn.log_prob is None else drawn.log_prob.cpu().numpy(),
        times=drawn.times,
        **drawn.work(),
    )


def most_likely(tries: Sequence[Answers]) -> Answers:
    """Of several answers to the same puzzles the ones with the model's highest own score; nothing else is looked at."""
    scores = np.stack([each.log_prob for each in tries if each.log_prob is not None])
    best, rows = scores.argmax(0), np.arange(scores.shape[1])

    def chosen(parts: list[np.ndarray | None]) -> np.ndarray | None:
        there = [part for part in parts if part is not None]
        return np.stack(there)[best, :, rows].swapaxes(0, 1) if len(there) == len(tries) else None

    return replace(
        tries[0],
        boards=np.stack([each.boards for each in tries])[best, rows],
        well_formed=np.stack([each.well_formed for each in tries])[best, rows],
        frames=chosen([each.frames for each in tries]),
        decoded=chosen([each.decoded for each in tries]),
        log_prob=scores.max(0),
        calls=np.stack([each.calls for each in tries])[best, rows],
    )


def compiled(model: Model, sizes: Sequence[int], batch_size: int) -> Model:
    """The model with its network compiled, for sets of these sizes: what is timed afterwards does not compile."""
    check_compiler(next(model.denoiser.parameters()).device)
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
