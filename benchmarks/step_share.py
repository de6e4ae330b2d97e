"""The share of the best float32 matrix product that a Sudoku training step reaches on one thread, before and now.

    python benchmarks/step_share.py --modes eager compiled

Steps of the network as it was (`old_block.py`), steps of the network as it is, and square products take turns, and
each is timed by the processor time of this thread, which other programs change less than the clock on the wall. The
best product is the faster of two libraries' at the best of three sizes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
import tyro
from bench_train import Options, configuration, training_flop
from old_block import use_old_blocks

from simplax.nn.linear import ONEDNN
from simplax.recipes.launch import build
from simplax.train.distributed import World, connect
from simplax.train.precision import apply, choose
from simplax.train.step import Stepper

PRODUCTS = {512: 40, 1024: 5, 2048: 1}
"""Sizes, and how many products of a size are timed together."""


@dataclass(frozen=True)
class Arguments:
    modes: tuple[Literal["eager", "compiled"], ...] = ("eager",)
    precision: str = "float32"
    batch: int = 128
    rounds: int = 8


def products() -> dict[str, tuple[Callable[[], None], float]]:
    turns: dict[str, tuple[Callable[[], None], float]] = {}
    for size, times in PRODUCTS.items():
        left, right = torch.randn(size, size), torch.randn(size, size)
        libraries: dict[str, Callable[..., object]] = {"mm": torch.mm}
        if ONEDNN:
            libraries["oneDNN"] = lambda a, b: torch.ops.simplax.linear(a, b, None)
        for name, multiply in libraries.items():

            def run(
                multiply: Callable[..., object] = multiply,
                left: torch.Tensor = left,
                right: torch.Tensor = right,
                times: int = times,
            ) -> None:
                for _ in range(times):
                    multiply(left, right)

            turns[f"{name} {size}"] = run, 2.0 * size**3 * times
    return turns


def steps(arguments: Arguments, mode: str, old: bool, world: World) -> tuple[Callable[[], None], float]:
    """A step of training, and its FLOP."""
    config = configuration("simplax", Options(precision=arguments.precision, batch=arguments.batch))
    denoiser = build(config)
    if old:
        use_old_blocks(denoiser)
    apply(choose(arguments.precision, denoiser, world.device), denoiser)
    run = replace(config.run, compile=mode == "compiled")
    stepper = Stepper(config.method, denoiser, config.task.train(), run, world)
    numbers = iter(range(arguments.rounds + 2))

    def step() -> None:
        stepper(next(numbers), False)

    for _ in range(2):  # compilation and first allocations
        step()
    return step, training_flop(denoiser, config.run.batch_size, config.task.length)


def main(arguments: Arguments) -> None:
    torch.set_num_threads(1)
    turns = products()
    with connect("cpu") as world:
        for mode in arguments.modes:
            turns |= {
                f"{mode} before": steps(arguments, mode, True, world),
                f"{mode} now": steps(arguments, mode, False, world),
            }
        seconds: dict[str, list[float]] = {name: [] for name in turns}
        for _ in range(arguments.rounds):
            for name, (action, _) in turns.items():
                start = time.thread_time()
                action()
                seconds[name].append(time.thread_time() - start)
    medians = {name: statistics.median(found) for name, found in seconds.items()}
    rates = {name: turns[name][1] / medians[name] / 1e9 for name in turns}
    best = max(rate for name, rate in rates.items() if name.split()[0] in ("mm", "oneDNN"))
    for name, rate in rates.items():
        print(
            f"{name:18}{medians[name]:8.3f} s{rate:8.1f} GFLOP/s{100 * rate / best:7.1f} % of the best product"
        )
    for mode in arguments.modes:
        ratios = [now / old for now, old in zip(seconds[f"{mode} now"], seconds[f"{mode} before"])]
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(f"{mode}: now over before {middle:.2f} (quartiles {low:.2f} to {high:.2f})")


if __name__ == "__main__":
    main(tyro.cli(Arguments))
