"""Train CANDI, FLM, LangFlow and both S-FLMs by their recipes and print how good they became, one JSON line each.

    python benchmarks/continuous_methods.py --families toy sudoku4 --runs runs/continuous

On the Markov chain the measure is the surprise of samples under the true chain (its entropy is the best that is honest:
lower means that rare sequences are missing) and the distance of their pair frequencies; on 4x4 Sudoku the share of
held-out puzzles solved. Runs are kept and continued: killing the script loses nothing.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch

from simplax import hub, recipes
from simplax.launch import launch
from simplax.tasks import ToyTask

METHODS = ("candi", "flm", "langflow", "sflm", "sflm_adaptive")


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--families", nargs="+", choices=MEASURES, default=[*MEASURES])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--runs", type=Path, default=Path("runs/continuous"))
    arguments = parser.parse_args()
    for family in arguments.families:
        for method in arguments.methods:
            config = recipes.get(f"{family}-{method}")
            folder, began = arguments.runs / config.name, time.perf_counter()
            launch(config, folder, device="cpu", quiet=True)
            seconds = time.perf_counter() - began
            found = MEASURES[family](hub.from_pretrained(folder, device="cpu"))
            steps = {"steps": config.run.steps, "num_steps": config.sampling.num_steps}
            print(
                json.dumps({"recipe": config.name, **steps, "seconds": round(seconds, 1), **found}),
                flush=True,
            )


if __name__ == "__main__":
    main()
