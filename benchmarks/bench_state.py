"""The simplex state at the vocabulary of GPT-2: what drawing (w_t, z_t) costs in each form, and what the loss costs.

All forms run interleaved in one process, so that the ratios survive a busy machine. The dense form is timed on fewer
positions and counted per position.

    python benchmarks/bench_state.py            table
    python benchmarks/bench_state.py --json     the same as JSON
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import tyro
from torch import Tensor

from simplax.objectives.bridge import rate_density
from simplax.processes.prior import Prior
from simplax.processes.simplex import Marginal, SimplexState, form
from simplax.processes.uniform import corrupt
from simplax.random import Keys
from simplax.schedules import LogLinear


@dataclass(frozen=True)
class Options:
    vocab_size: int = 50_257
    eta: float = 0.01
    draw_positions: int = 8192
    """positions of one timed draw; the dense form draws `dense_positions`"""
    dense_positions: int = 16
    loss_positions: int = 32
    repeats: int = 9
    json: bool = False


@dataclass(frozen=True)
class Problem:
    """Clean ids and times for `positions` tokens in rows of 16."""

    prior: Prior
    x: Tensor
    alpha: Tensor
    rate: Tensor
    eta: Tensor
    keys: Keys

    @staticmethod
    def of(positions: int, options: Options) -> Problem:
        batch = positions // 16
        keys = Keys.from_seeds(range(batch))
        t = torch.linspace(0.05, 0.95, batch, dtype=torch.float64).unsqueeze(-1)
        x = keys.fold_in(0).randint(options.vocab_size, 16)
        eta = torch.full_like(t, options.eta)
        schedule = LogLinear()
        return Problem(
            Prior(options.vocab_size), x, schedule.alpha(t), schedule.rate(t), eta, keys.fold_in(1)
        )

    def draw(self, name: str) -> SimplexState:
        if name == "udlm":
            z = corrupt(self.x, self.alpha, self.prior, self.keys.fold_in(0))
            return Marginal(z, self.x, self.alpha, torch.zeros_like(self.eta), self.prior)
        arguments = (self.x, self.alpha, self.eta, float(self.eta.max()), self.prior, self.keys)
        return form(name).draw(*arguments)[0]


FORMS = ("dense", "atoms", "marginal", "udlm")


def time_draws(options: Options) -> dict[str, float]:
    """Microseconds per position, median over interleaved rounds."""
    sizes = {name: options.dense_positions if name == "dense" else options.draw_positions for name in FORMS}
    problems = {name: Problem.of(size, options) for name, size in sizes.items()}
    return interleaved({name: partial(problems[name].draw, name) for name in FORMS}, sizes, options.repeats)


def time_losses(options: Options) -> dict[str, float]:
    """Microseconds per position of the loss and its gradient in the logits, on states drawn beforehand."""
    problem = Problem.of(options.loss_positions, options)
    states = {name: problem.draw(name) for name in FORMS}
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(*problem.x.shape, options.vocab_size, generator=generator, requires_grad=True)

    def evaluate(name: str) -> None:
        loss = rate_density(logits, problem.x, states[name], problem.alpha, problem.rate, problem.prior)
        torch.autograd.grad(loss.sum(), logits)

    sizes = dict.fromkeys(FORMS, options.loss_positions)
    return interleaved({name: partial(evaluate, name) for name in FORMS}, sizes, options.repeats)


def interleaved(
    tasks: dict[str, Callable[[], object]], sizes: dict[str, int], repeats: int
) -> dict[str, float]:
    seconds: dict[str, list[float]] = {name: [] for name in tasks}
    for task in tasks.values():
        task()
    for _ in range(repeats):
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            seconds[name].append(time.perf_counter() - start)
    return {name: 1e6 * statistics.median(values) / sizes[name] for name, values in seconds.items()}


def main(options: Options) -> None:
    torch.set_num_threads(1)
    draws, losses = time_draws(options), time_losses(options)
    report = {
        "vocab_size": options.vocab_size,
        "eta": options.eta,
        "draw_us_per_position": draws,
        "loss_us_per_position": losses,
        "draw_dense_over": {name: draws["dense"] / draws[name] for name in FORMS},
        "loss_over_udlm": {name: losses[name] / losses["udlm"] for name in FORMS},
    }
    if options.json:
        print(json.dumps(report, indent=2))
        return
    print(f"K = {options.vocab_size:,}, eta = {options.eta:g}, microseconds per position (medians)")
    print(f"{'':10}{'draw (w, z)':>14}{'faster than dense':>20}{'loss + gradient':>18}{'over UDLM':>12}")
    for name in FORMS:
        faster, over = report["draw_dense_over"][name], report["loss_over_udlm"][name]  # type: ignore[index]
        print(f"{name:10}{draws[name]:>14.3f}{faster:>19,.0f}x{losses[name]:>18.1f}{over:>11.2f}x")


if __name__ == "__main__":
    main(tyro.cli(Options))
