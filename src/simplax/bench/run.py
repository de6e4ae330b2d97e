"""What `simplax bench` measures, and the numbers it reports."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch

from simplax.bench.measure import Race, Spread, peak_bytes, race
from simplax.bench.steps import SIZES, Bench, Size

RATIOS = {
    "train_vs_floor": "a Simplax training step over the same network with plain cross-entropy",
    "train_vs_udlm": "a Simplax training step over a UDLM training step",
    "memory_vs_plain": "peak bytes of projection and loss, Simplax fused over plain cross-entropy",
    "sample_vs_floor": "a Simplax sampling step over the bare network to float32 logits",
    "sample_udlm_vs_floor": "a UDLM sampling step over the bare network to float32 logits",
    "dense_vs_ours": "a training step as the paper writes it over ours",
    "sample_literal_vs_ours": "a sampling step by float64 posterior and race over ours",
    "draw_dense_vs_atoms": "drawing the state as a Dirichlet vector over drawing atoms, per position",
}
GOALS = {
    "train_vs_floor": "<= 1.10",
    "train_vs_udlm": "<= 1.05",
    "memory_vs_plain": "<= 0.35",
    "sample_vs_floor": "<= 1.10",
    "sample_udlm_vs_floor": "<= 1.10",
    "dense_vs_ours": ">= 2",
}


@dataclass(frozen=True)
class Plan:
    """Sizes, and seconds for the races at each: training, sampling, and the other forms in either.

    Close contestants get the most rounds; the literal forms are several times slower, which one round shows.
    A race also has a warm-up and a least number of rounds, so that it may take longer on a slow machine.
    """

    sizes: tuple[str, ...] = ("small", "mini")
    training: tuple[float, ...] = (120.0, 12.0)
    sampling: tuple[float, ...] = (60.0, 6.0)
    literal: tuple[float, ...] = (30.0, 5.0)


FULL = Plan()
QUICK = Plan(("quick",), (2.0,), (2.0,), (1.0,))


def run(plan: Plan, precision: str = "auto", say: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """The report as plain data; its `ratios` are those of the first size."""
    start = time.perf_counter()
    parts = []
    for number, name in enumerate(plan.sizes):
        seconds = (plan.training[number], plan.sampling[number], plan.literal[number])
        parts.append(_one_size(SIZES[name], seconds, precision, say))
    first = parts[0]
    return {
        "ratios": {name: spread["median"] for name, spread in first["ratios"].items()},
        "spread": first["ratios"],
        "sizes": parts,
        "precision": first["precision"],
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "platform": platform.platform(),
        "seconds": time.perf_counter() - start,
    }


def _one_size(
    size: Size, budget: tuple[float, float, float], precision: str, say: Callable[[str], None]
) -> dict[str, Any]:
    say(f"{size}: building the network")
    bench = Bench(size, precision)
    say(f"{size}: training steps, {bench.precision}")
    training = race(bench.trainers(), budget[0])
    say(f"{size}: sampling steps")
    sampling = race(bench.samplers(), budget[1])
    say(f"{size}: the other forms")
    one_round = {"warm_up": False, "at_least": 1}
    ours = {"ours": bench.trainers()["Simplax"]}
    dense = race(ours | bench.other_trainers(), budget[2] / 2, **one_round)  # type: ignore[arg-type]
    ours = {"ours": bench.samplers()["Simplax"]}
    literal = race(ours | bench.other_samplers(), budget[2] / 2, **one_round)  # type: ignore[arg-type]
    say(f"{size}: memory and state")
    parameters = {p.numel() * p.element_size() for p in bench.denoiser.head.parameters()}
    memory = {name: peak_bytes(step, parameters) for name, step in bench.heads().items()}
    draws = _draws(bench)
    ratios = {
        "train_vs_floor": training.ratio("Simplax", "floor"),
        "train_vs_udlm": training.ratio("Simplax", "UDLM"),
        "memory_vs_plain": Spread.of([memory["Simplax"] / memory["plain cross-entropy"]]),
        "sample_vs_floor": sampling.ratio("Simplax", "floor"),
        "sample_udlm_vs_floor": sampling.ratio("UDLM", "floor"),
        "dense_vs_ours": dense.ratio("dense", "ours"),
        "sample_literal_vs_ours": literal.ratio("dense", "ours"),
        "draw_dense_vs_atoms": draws.ratio("dense", "atoms"),
    }
    return {
        "size": asdict(size),
        "precision": bench.precision,
        "ratios": {name: asdict(spread) for name, spread in ratios.items()},
        "training_seconds": _times(training) | _times(dense),
        "sampling_seconds": _times(sampling, 0.5) | _times(literal, 0.5),
        "peak_bytes": memory,
    }


def _draws(bench: Bench, dense_positions: int = 8, positions: int = 1024) -> Race:
    """Seconds per position of one draw of the state."""
    contestants = {
        "dense": lambda: bench.draw("dense", dense_positions),
        "atoms": lambda: bench.draw("atoms", positions),
    }
    seconds = race(contestants, 1.0, at_least=5).seconds
    return Race(
        {
            "dense": [s / dense_positions for s in seconds["dense"]],
            "atoms": [s / positions for s in seconds["atoms"]],
        }
    )


def _times(result: Race, factor: float = 1.0) -> dict[str, dict[str, float]]:
    """Seconds per contestant; in the races with a literal form ours runs cold and is not reported again."""
    return {
        name: asdict(Spread.of([factor * s for s in seconds]))
        for name, seconds in result.seconds.items()
        if name != "ours"
    }
