"""Train Simplax and UDLM on pairs of letters whose law is known, and print that law beside the sampled ones.

Two letters out of A, B, C: nine pairs, so everything a sampler should produce fits in one table. Run it with
`python examples/demo_toy.py`, with `--help` to change the numbers.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
import tyro
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor, nn

import simplax
from simplax import methods, samplers, schedules
from simplax.random import Keys
from simplax.times import stratified
from simplax.typing import Batch, StepContext

LETTERS = "ABC"
LAW = torch.tensor([[0.30, 0.02, 0.05], [0.04, 0.20, 0.06], [0.03, 0.08, 0.22]], dtype=torch.float64)


@dataclass(frozen=True)
class Options:
    """Numbers of the demo."""

    steps: int = 500
    """optimiser steps per method"""
    batch: int = 1024
    num_steps: int = 64
    """network calls per sample"""
    samples: int = 20_000
    eta: float = 0.01
    """concentration of the simplex state Simplax is trained and sampled with"""
    seed: int = 1


class PairNetwork(nn.Module):
    """The smallest denoiser: both noisy letters and the time in, logits of both clean letters out."""

    vocab_size = len(LETTERS)

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        inputs = 2 * self.vocab_size
        self.layers = nn.Sequential(
            nn.Linear(inputs + 2, width),
            nn.GELU(),
            nn.Linear(width, width),
            nn.GELU(),
            nn.Linear(width, inputs),
        )

    def forward(self, z: Tensor, t: Tensor) -> Tensor:
        letters = nn.functional.one_hot(z, self.vocab_size).float().flatten(1)
        logits = self.layers(torch.cat([letters, t[:, None], t[:, None] ** 2], dim=-1))
        return logits.unflatten(-1, (2, self.vocab_size))


def train(method: methods.Method, options: Options, console: Console) -> PairNetwork:
    """A plain training loop: a method is a loss, everything else is up to you."""
    torch.manual_seed(options.seed)
    network = PairNetwork()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps)
    name = f"training {type(method).__name__}"
    for step in track(range(options.steps), name, console=console, transient=True):
        indices = torch.arange(options.batch) + step * options.batch
        keys = Keys.from_seeds(indices).fold_in(options.seed)
        context = StepContext(keys.fold_in(1), stratified(options.batch, options.seed, step), step)
        loss = method.loss(network, Batch.of(draw_pairs(keys.fold_in(0))), context).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
    return network


def draw_pairs(keys: Keys) -> Tensor:
    index = torch.searchsorted(LAW.flatten().cumsum(0), keys.uniform(1)[:, 0]).clamp(max=LAW.numel() - 1)
    return torch.stack([index // 3, index % 3], dim=-1)


def sampled_law(network: PairNetwork, sampler: samplers.Sampler, options: Options) -> Tensor:
    samples = simplax.sample(
        network,
        (options.samples, 2),
        sampler=sampler,
        schedule=schedules.LogLinear(),
        num_steps=options.num_steps,
        vocab_size=3,
        seeds=range(options.samples),
    )
    index = samples.tokens[:, 0] * 3 + samples.tokens[:, 1]
    return torch.bincount(index, minlength=9).double().reshape(3, 3) / options.samples


def show(laws: dict[str, Tensor], console: Console) -> None:
    table = Table(title="How often each pair comes out")
    table.add_column("pair")
    for name in ("exact", *laws):
        table.add_column(name, justify="right")
    for i, first in enumerate(LETTERS):
        for j, second in enumerate(LETTERS):
            row = [f"{law[i, j]:.3f}" for law in (LAW, *laws.values())]
            table.add_row(first + second, *row)
    table.add_section()
    distances = [f"{0.5 * (law - LAW).abs().sum():.3f}" for law in laws.values()]
    table.add_row("total variation", "0", *distances)
    console.print(table)


def main(options: Options) -> None:
    console, start = Console(), time.perf_counter()
    torch.set_num_threads(1)  # tensors this small are slower on several
    udlm = train(methods.UDLM(), options, console)
    relaxed = train(methods.Simplax(concentration=options.eta), options, console)
    laws = {
        "UDLM": sampled_law(udlm, samplers.Ancestral(), options),
        f"Simplax, eta {options.eta:g}": sampled_law(relaxed, samplers.Simplax(options.eta), options),
        "the same at eta 1": sampled_law(relaxed, samplers.Simplax(1.0), options),
    }
    show(laws, console)
    noise = (LAW * (1 - LAW) / options.samples * 2 / torch.pi).sqrt().sum() / 2
    console.print(
        f"{options.samples:,} samples of {options.num_steps} network calls each. Sampling noise alone is about "
        f"{noise:.3f} in total variation. A large eta re-anchors often, which helps where one answer is right, but it "
        f"moves the law. All of this took {time.perf_counter() - start:.0f} s."
    )


if __name__ == "__main__":
    main(tyro.cli(Options))
