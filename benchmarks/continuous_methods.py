"""Train CANDI, FLM, LangFlow and both S-FLMs by their recipes and print how good they became, one JSON line each.

    python benchmarks/continuous_methods.py --runs runs/continuous --out results/continuous/results.json

On the Markov chain the measures are the negative log-likelihood of samples under the true chain ("surprise" in the
file; the chain's entropy is the honest optimum, less means that rare sequences are missing) and the
distance of their pair frequencies; on 4x4 Sudoku the share of held-out puzzles solved. Runs are kept and continued:
killing the script loses nothing.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from simplax import recipes
from simplax.io.manifest import environment, write
from simplax.pretrained import model as hub
from simplax.recipes.launch import launch
from simplax.tasks import ToyTask

METHODS = ("candi", "flm", "langflow", "sflm", "sflm_adaptive")
# what a run must reach: at most so far from the true pair frequencies, at least so many of the puzzles solved
FARTHEST = {"candi": 0.22, "flm": 0.07, "langflow": 0.05, "sflm": 0.11, "sflm_adaptive": 0.08}
LEAST_SOLVED = {"candi": 0.75, "flm": 0.85, "langflow": 0.95, "sflm": 0.75, "sflm_adaptive": 0.82}


def toy(model: hub.Model, count: int = 4000) -> dict[str, Any]:
    task = model.config.task
    assert isinstance(task, ToyTask)
    tokens = model.sample(count, seeds=0).tokens
    pairs = torch.zeros(task.vocab_size, task.vocab_size, dtype=torch.float64)
    ones = torch.ones(tokens[:, 1:].numel(), dtype=torch.float64)
    pairs.index_put_((tokens[:, :-1].flatten(), tokens[:, 1:].flatten()), ones, accumulate=True)
    true = task.chain.initial[:, None] * task.chain.transition
    result = {
        "surprise": float(-task.chain.log_prob(tokens).mean()) / task.length,
        "entropy": task.entropy(),
        "pair_distance": float((pairs / pairs.sum() - true).abs().sum()) / 2,
    }
    if model.config.method.__class__.__name__ == "LangFlow":
        held_out = task.validation().batch(torch.arange(128)).tokens
        result["bound"] = model.nll(held_out, draws=4).nats_per_token
    return result


def sudoku4(model: hub.Model, count: int = 256) -> dict[str, Any]:
    batch = model.config.task.validation().batch(torch.arange(count))
    out = model.sample(count, seeds=0, tokens=batch.tokens, given=batch.given)
    return {"solved": float((out.tokens == batch.tokens).all(-1).double().mean()), "puzzles": count}


MEASURES = {"toy": toy, "sudoku4": sudoku4}


def learn(family: str, method: str, runs: Path) -> dict[str, Any]:
    """Train by the recipe, or continue, and measure; seconds are those of training, whenever it happened."""
    config = recipes.get(f"{family}-{method}")
    folder = runs / config.name
    launch(config, folder, device="cpu", quiet=True)
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    seconds = max(row.get("time", 0.0) for row in rows)
    model = hub.from_pretrained(folder, device="cpu")
    return {
        "recipe": config.name,
        "steps": config.run.steps,
        "num_steps": config.sampling.num_steps,
        "seconds": round(seconds, 1),
        "weights": model.origin["sha256"],
        **MEASURES[family](model),
    }


def reached(result: dict[str, Any]) -> bool:
    """Whether a result is as good as is promised."""
    family, method = result["recipe"].split("-")
    if family == "toy":
        return bool(result["pair_distance"] <= FARTHEST[method])
    return bool(result["solved"] >= LEAST_SOLVED[method])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--families", nargs="+", choices=MEASURES, default=[*MEASURES])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--runs", type=Path, default=Path("runs/continuous"))
    parser.add_argument("--out", type=Path, help="write all results and what made them to this file")
    arguments = parser.parse_args()
    results = []
    for family in arguments.families:
        for method in arguments.methods:
            results.append(learn(family, method, arguments.runs))
            print(json.dumps(results[-1]), flush=True)
    if arguments.out is not None:
        write(arguments.out, {**environment(), "results": results})


if __name__ == "__main__":
    main()
