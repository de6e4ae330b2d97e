"""A batched Sudoku solve against the network calls it makes: what the sampler itself costs.

Both run interleaved in one process, round by round, so that the ratio survives a busy machine. The weights are those
of an untrained `sudoku-cpu-simplax` unless a model is named: they do not change the cost.

    python benchmarks/bench_solve.py            table
    python benchmarks/bench_solve.py --json     the same as JSON
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import tyro

from simplax import recipes
from simplax.data.sudoku import generate_range
from simplax.evaluate.answers import answer, noise_seeds
from simplax.nn import call
from simplax.pretrained.model import Model, from_pretrained
from simplax.recipes.launch import build

TARGET = 1.10


@dataclass(frozen=True)
class Options:
    model: str | None = None
    """a run, an exported model or a bundled name"""
    batch: int = 64
    steps: int = 89
    eta: float = 10.0
    repeats: int = 3
    json: bool = False


def load(name: str | None) -> Model:
    if name is not None:
        return from_pretrained(name)
    config = recipes.get("sudoku-cpu-simplax")
    return Model(build(config).eval(), config)


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main(options: Options) -> dict[str, float]:
    model = load(options.model)
    puzzles = generate_range(0, options.batch, 30)[:, 0]
    held = model.config.task.board_layout.encode(torch.from_numpy(puzzles))  # type: ignore[attr-defined]
    held = held.to(model.device)
    times = torch.full((options.batch,), 0.5, device=model.device)
    seeds = noise_seeds(0, range(options.batch))

    def solve() -> None:
        answer(model, puzzles, seeds, num_steps=options.steps, eta=options.eta, batch_size=options.batch)

    @torch.no_grad()
    def forwards() -> None:
        for _ in range(options.steps):
            call(model.denoiser, held.tokens, times, given=held.given)

    solve(), forwards()  # warm-up
    pairs = [(timed(solve), timed(forwards)) for _ in range(options.repeats)]
    solving, bare = (statistics.median(column) for column in zip(*pairs))
    return {
        "batch": options.batch,
        "steps": options.steps,
        "threads": torch.get_num_threads(),
        "solve_seconds": solving,
        "forwards_seconds": bare,
        "puzzles_per_second": options.batch / solving,
        "ratio": statistics.median(a / b for a, b in pairs),
        "target": TARGET,
    }


if __name__ == "__main__":
    chosen = tyro.cli(Options)
    result = main(chosen)
    if chosen.json:
        print(json.dumps(result, indent=2))
    else:
        for key, value in result.items():
            print(f"{key:<20} {value:.4g}")
