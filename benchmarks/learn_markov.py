"""Each discrete method learns a Markov chain whose entropy is known, and is measured against it.

    python benchmarks/learn_markov.py                       all methods, minutes each on a CPU
    python benchmarks/learn_markov.py --methods mdlm ar     some of them
    python benchmarks/learn_markov.py --out results/markov/results.json

K = 8 categories, L = 32 tokens. The truth is the mean of -log p of the 2,000 held-out sequences that models are scored
on, so that the noise of the set is in both numbers.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import tyro

from simplax.data.markov import MarkovChain, MarkovSource
from simplax.io.manifest import environment
from simplax.methods import AR, MDLM, UDLM, Curriculum, Duo, Method
from simplax.methods.likelihood import nll
from simplax.nn import Architecture
from simplax.random import Keys
from simplax.times import stratified
from simplax.typing import StepContext

CHAIN = MarkovChain(8, sharpness=1.5, seed=3)
LENGTH, SEQUENCES, DRAWS, WIDTH = 32, 2000, 16, 64
METHODS: dict[str, tuple[Method, int]] = {
    "ar": (AR(), 1200),
    "mdlm": (MDLM(), 1500),
    "udlm": (UDLM(), 1500),
    "duo": (Duo(curriculum=Curriculum(end=500, top_k=3)), 1500),
}
TOLERANCE = {"ar": 0.01, "mdlm": 0.05, "udlm": 0.05, "duo": 0.05}


def train(method: Method, source: MarkovSource, steps: int, width: int, batch: int = 64) -> torch.nn.Module:
    """AdamW with one cycle of the learning rate, without the trainer: the method alone is on trial."""
    torch.manual_seed(0)
    denoiser = method.build(source.vocab_size, source.length, Architecture(width=width, depth=2, heads=2))
    optimizer = torch.optim.AdamW(denoiser.parameters(), lr=3e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, steps, pct_start=0.1)
    for step in range(steps):
        counters = torch.arange(step * batch, (step + 1) * batch)
        context = StepContext(Keys.from_seeds(counters).fold_in(9), stratified(batch, 1, step), step)
        loss = method.loss(denoiser, source.batch(counters), context).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(denoiser.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return denoiser.eval()


def learn(name: str) -> dict[str, Any]:
    """Train the method and score it: nats per token, the error of that, and the truth."""
    method, steps = METHODS[name]
    start = time.perf_counter()
    denoiser = train(method, MarkovSource(CHAIN, LENGTH), steps, WIDTH)
    seconds = time.perf_counter() - start
    tokens = MarkovSource(CHAIN, LENGTH, stream=1).batch(torch.arange(SEQUENCES)).tokens
    found = nll(method, denoiser, tokens, draws=DRAWS)
    return {
        "nats_per_token": found.nats_per_token,
        "monte_carlo_error": found.monte_carlo_error,
        "kind": "exact" if found.exact else "upper bound",
        "truth": -float(CHAIN.log_prob(tokens).mean()) / LENGTH,
        "steps": steps,
        "training_seconds": seconds,
    }


@dataclass(frozen=True)
class Options:
    methods: tuple[str, ...] = tuple(METHODS)
    out: Path | None = None
    """write the numbers and the machine they come from to this file"""
    json: bool = False


def main(options: Options) -> dict[str, Any]:
    report = {"results": {name: learn(name) for name in options.methods}, **environment()}
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(report, indent=2) + "\n")
    return report


if __name__ == "__main__":
    chosen = tyro.cli(Options)
    report = main(chosen)
    if chosen.json:
        print(json.dumps(report, indent=2))
    else:
        for name, row in report["results"].items():
            gap = 100 * (row["nats_per_token"] / row["truth"] - 1)
            print(
                f"{name:6}{row['nats_per_token']:.4f} +- {row['monte_carlo_error']:.4f} ({row['kind']}) against "
                f"{row['truth']:.4f}: {gap:+.2f} % after {row['steps']} steps in {row['training_seconds']:.0f} s"
            )
