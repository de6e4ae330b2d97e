"""Training steps: what each loss costs beside its network, and how much of the machine a Sudoku run uses.

    python benchmarks/bench_train.py            tables
    python benchmarks/bench_train.py --json     the same as JSON
    python benchmarks/bench_train.py --quick    a tiny network: does it run, not how fast

A step against its floor is one forward and backward pass of the same network on the same tokens with plain
cross-entropy in place of the method's noise and loss. Contestants take turns, and ratios are taken within a round. The
share of the machine is that of whole optimiser steps (data, noise, loss, gradients, clipping, Muon, averaging).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
import tyro
from torch import nn

from simplax import recipes
from simplax.bench.measure import Race, Spread, race
from simplax.config.run import RunConfig
from simplax.nn import Denoiser
from simplax.random import Keys
from simplax.recipes.launch import build
from simplax.times import stratified
from simplax.train.distributed import connect
from simplax.train.precision import apply, choose, matmul_rate
from simplax.train.step import Stepper
from simplax.typing import Batch, StepContext

TARGET = 0.40


@dataclass(frozen=True)
class Options:
    methods: tuple[str, ...] = ("simplax", "udlm", "mdlm", "duo", "ar")
    """members of the sudoku-cpu recipes"""
    batch: int = 128
    budget: float = 30.0
    """seconds for each race"""
    compiled: bool = True
    """also with torch.compile, which takes about a minute per method to prepare"""
    precision: str = "auto"
    quick: bool = False
    json: bool = False


def configuration(method: str, options: Options) -> RunConfig:
    config = recipes.get(f"sudoku-cpu-{method}")
    config = recipes.smoke(config) if options.quick else replace(config, task=config.task.small())
    batch = config.run.batch_size if options.quick else options.batch
    run = replace(config.run, batch_size=batch, precision=options.precision)
    return replace(config, run=run)


class Contest:
    """One network, with a method's loss and with plain cross-entropy."""

    def __init__(self, config: RunConfig, compiled: bool) -> None:
        self.method = config.method
        self.denoiser = build(config)
        apply(choose(config.run.precision, self.denoiser, torch.device("cpu")), self.denoiser)
        self.called: Any = torch.compile(self.denoiser) if compiled else self.denoiser
        count = config.run.batch_size
        self.batch: Batch = config.task.train().batch(torch.arange(count))
        self.context = StepContext(Keys.from_seeds(torch.arange(count)), stratified(count, 0, 0))

    def step(self) -> None:
        self._backward(self.method.loss(self.called, self.batch, self.context).mean())

    def floor(self) -> None:
        time = None if self.denoiser.causal else self.context.u.float()
        logits = self.called(self.batch.tokens, time, given=self.batch.given)
        self._backward(F.cross_entropy(logits.flatten(0, 1), self.batch.tokens.flatten()))

    def _backward(self, loss: torch.Tensor) -> None:
        self.denoiser.zero_grad(set_to_none=True)
        loss.backward()


def losses(options: Options, compiled: bool) -> dict[str, Any]:
    contests = {name: Contest(configuration(name, options), compiled) for name in options.methods}
    turns: dict[str, Callable[[], object]] = {}
    for name, contest in contests.items():
        turns |= {name: contest.step, f"{name} floor": contest.floor}
    result = race(turns, options.budget)
    return {name: _row(result, name, contest.batch.tokens.numel()) for name, contest in contests.items()}


def _row(result: Race, name: str, tokens: int) -> dict[str, Any]:
    seconds = result.time(name)
    return {
        "seconds": asdict(seconds),
        "floor_seconds": asdict(result.time(f"{name} floor")),
        "over_floor": asdict(result.ratio(name, f"{name} floor")),
        "tokens_per_second": tokens / seconds.median,
    }


def training_flop(denoiser: nn.Module, batch: int, length: int) -> float:
    """6 per matrix parameter and token (2 forward, 4 backward), and the two products of attention, thrice as well.

    Matrices are those that tokens pass through: blocks and head; not embeddings (a lookup) nor the modulation (once
    per sequence). The optimiser's own products are not counted.
    """
    assert isinstance(denoiser, Denoiser)
    matrices = [
        p.numel() for name, p in denoiser.blocks.named_parameters() if p.ndim == 2 and "adaLN" not in name
    ]
    weights = sum(matrices) + denoiser.head.weight.numel()
    a = denoiser.architecture
    attention = 3 * 4 * length**2 * a.width * a.depth * batch
    return 6.0 * weights * batch * length + attention


def best_rate(quick: bool) -> dict[str, float]:
    """GFLOP/s of the best square product in each number format."""
    sizes, seconds = ((256,), 0.05) if quick else ((512, 1024, 2048), 1.0)
    device = torch.device("cpu")
    return {
        name: max(matmul_rate(getattr(torch, name), device, size, seconds) for size in sizes) / 1e9
        for name in ("float32", "bfloat16")
    }


def utilisation(options: Options) -> dict[str, Any]:
    """Whole steps of `sudoku-cpu-simplax` over the best matrix product, measured before and after them."""
    config = configuration("simplax", options)
    rates = best_rate(options.quick)
    with connect("cpu") as world:
        steppers = {}
        for mode in ("eager", *(["compiled"] if options.compiled else [])):
            denoiser = build(config)
            precision = choose(options.precision, denoiser, world.device)
            apply(precision, denoiser)
            run = replace(config.run, compile=mode == "compiled")
            steppers[mode] = Stepper(config.method, denoiser, config.task.train(), run, world)
        counts = dict.fromkeys(steppers, 0)

        def advance(mode: str) -> None:
            steppers[mode](counts[mode], False)
            counts[mode] += 1

        turns = {mode: (lambda mode=mode: advance(mode)) for mode in steppers}
        result = race(turns, options.budget)
    rates = {name: max(rate, rates[name]) for name, rate in best_rate(options.quick).items()}
    flop = training_flop(denoiser, config.run.batch_size, config.task.length)
    best = max(rates.values())
    modes = {}
    for mode in steppers:
        spread: Spread = result.time(mode)
        modes[mode] = {
            "seconds": asdict(spread),
            "tokens_per_second": config.run.batch_size * config.task.length / spread.median,
            "gflops": flop / spread.median / 1e9,
            "share": flop / spread.median / 1e9 / best,
            "share_of": {name: flop / spread.median / 1e9 / rate for name, rate in rates.items()},
        }
    return {"matmul_gflops": rates, "precision": precision, "flop": flop, "modes": modes, "target": TARGET}


def main(options: Options) -> dict[str, Any]:
    if options.quick:
        options = replace(options, budget=0.5, compiled=False)
    report: dict[str, Any] = {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "batch": options.batch,
        "losses": {"eager": losses(options, False)},
    }
    if options.compiled:
        report["losses"]["compiled"] = losses(options, True)
    report["utilisation"] = utilisation(options)
    return report


def shown(report: dict[str, Any]) -> None:
    print(f"torch {report['torch']}, {report['threads']} threads; medians (quartiles of the ratio)")
    print(f"{'':22}{'step, ms':>10}{'floor, ms':>11}{'ratio':>8}{'':>18}{'tokens/s':>12}")
    for mode, rows in report["losses"].items():
        for name, row in rows.items():
            ratio = row["over_floor"]
            inner = f"({ratio['low']:.2f} to {ratio['high']:.2f})"
            times = [1e3 * row[key]["median"] for key in ("seconds", "floor_seconds")]
            print(
                f"{mode + ' ' + name:22}{times[0]:>10.2f}{times[1]:>11.2f}{ratio['median']:>8.2f}{inner:>18}"
                f"{row['tokens_per_second']:>12,.0f}"
            )
    use = report["utilisation"]
    rates = ", ".join(f"{name} {rate:,.0f}" for name, rate in use["matmul_gflops"].items())
    print(f"\nwhole steps of sudoku-cpu-simplax in {use['precision']}; best square product, GFLOP/s: {rates}")
    for mode, row in use["modes"].items():
        print(
            f"{mode:22}{1e3 * row['seconds']['median']:>10.2f} ms{row['tokens_per_second']:>12,.0f} tokens/s"
            f"{row['gflops']:>9.1f} GFLOP/s{100 * row['share']:>7.1f} % (goal {100 * use['target']:.0f} %)"
        )


if __name__ == "__main__":
    chosen = tyro.cli(Options)
    result = main(chosen)
    if chosen.json:
        print(json.dumps(result, indent=2))
    else:
        shown(result)
