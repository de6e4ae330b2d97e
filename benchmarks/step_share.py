"""The share of the best float32 matrix product that a Sudoku training step reaches on one thread.

    python benchmarks/step_share.py eager compiled

Steps and square products take turns, and each is timed by the processor time of this thread, which other programs
change less than the clock on the wall.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from bench_train import Options, configuration, training_flop

from simplax.recipes.launch import build
from simplax.train.distributed import connect
from simplax.train.precision import apply, choose
from simplax.train.step import Stepper

ROUNDS = 8
PRODUCTS = {512: 40, 1024: 5, 2048: 1}
"""Sizes, and how many products of a size are timed together."""


def product(size: int, times: int) -> tuple[Callable[[], None], float]:
    left, right, out = (torch.randn(size, size) for _ in range(3))

    def run() -> None:
        for _ in range(times):
            torch.mm(left, right, out=out)

    return run, 2.0 * size**3 * times


def main(modes: list[str]) -> None:
    torch.set_num_threads(1)
    config = configuration("simplax", Options(precision="float32"))
    turns = {str(size): product(size, times) for size, times in PRODUCTS.items()}
    with connect("cpu") as world:
        for mode in modes:
            denoiser = build(config)
            apply(choose("float32", denoiser, world.device), denoiser)
            run = replace(config.run, compile=mode == "compiled")
            stepper = Stepper(config.method, denoiser, config.task.train(), run, world)
            numbers = iter(range(ROUNDS + 2))

            def step(stepper: Stepper = stepper, numbers: object = numbers) -> None:
                stepper(next(numbers), False)  # type: ignore[call-overload]

            for _ in range(2):  # compilation and first allocations
                step()
            turns[mode] = step, training_flop(denoiser, config.run.batch_size, config.task.length)
        rates: dict[str, list[float]] = {name: [] for name in turns}
        for _ in range(ROUNDS):
            for name, (action, flop) in turns.items():
                start = time.thread_time()
                action()
                rates[name].append(flop / (time.thread_time() - start) / 1e9)
    medians = {name: statistics.median(found) for name, found in rates.items()}
    best = max(medians[str(size)] for size in PRODUCTS)
    for name, rate in medians.items():
        print(f"{name:10}{rate:8.1f} GFLOP/s{100 * rate / best:7.1f} % of the best product")


if __name__ == "__main__":
    main(sys.argv[1:] or ["eager"])
