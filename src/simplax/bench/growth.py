"""How time and memory grow with the vocabulary, the length, the atoms and the batch; one of them at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from simplax.bench.measure import Contestant, clock, peak_bytes
from simplax.objectives.fused import rate_density
from simplax.processes.prediction import Prediction, Projection
from simplax.processes.prior import Prior
from simplax.processes.simplex import Atoms, Marginal, SimplexState, draw_atoms
from simplax.processes.uniform import draw_bridge
from simplax.random import Keys

WIDTH = 48  # no axis takes this value: a parameter's gradient is recognised among other tensors by its size
REPEATS = 3


@dataclass(frozen=True)
class Point:
    """Where growth is measured; every axis starts from the same point."""

    vocabulary: int = 4096
    length: int = 64
    atoms: int = 8
    batch: int = 1


AXES: Mapping[str, tuple[int, ...]] = {
    "vocabulary": (100, 1000, 10_000, 100_000, 1_000_000),
    "length": (16, 64, 256, 1024, 4096),
    "atoms": (2, 4, 8, 16, 32, 64),
    "batch": (1, 4, 16, 64),
}
QUICK_AXES: Mapping[str, tuple[int, ...]] = {
    "vocabulary": (100, 1000),
    "length": (16, 64),
    "atoms": (2, 8),
    "batch": (1, 4),
}


def growth(
    axes: Mapping[str, tuple[int, ...]] = AXES, say: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """For every axis and contestant, the values and there the best seconds and the peak bytes."""
    report: dict[str, Any] = {}
    for axis, values in axes.items():
        say(f"growth with the {axis}")
        columns: dict[str, dict[str, list[float]]] = {}
        for value in values:
            at = replace(Point(), **{axis: value})
            for name, step in contestants(at).items():
                column = columns.setdefault(name, {"seconds": [], "bytes": []})
                step()
                column["seconds"].append(min(clock(step) for _ in range(REPEATS)))
                column["bytes"].append(peak_bytes(step, ignore={4 * at.vocabulary * WIDTH}))
        report[axis] = {"values": list(values), "measured": columns}
    return report


def contestants(at: Point) -> dict[str, Contestant]:
    generator = torch.Generator().manual_seed(0)
    prior, keys = Prior(at.vocabulary), Keys.from_seeds(range(at.batch))
    x = torch.randint(at.vocabulary, (at.batch, at.length), generator=generator)
    alpha, eta = (torch.full((at.batch, 1), v, dtype=torch.float64) for v in (0.5, 0.1))
    features = torch.randn(at.batch, at.length, WIDTH, generator=generator).requires_grad_()
    weight = (torch.randn(at.vocabulary, WIDTH, generator=generator) / 8).requires_grad_()
    few = torch.randn(1, 1, at.vocabulary, generator=generator)

    def atoms() -> Atoms:
        return draw_atoms(x, lambda keys, n: prior.draw(keys.uniform(at.length, n)), eta, at.atoms, keys)

    def marginal() -> Marginal:
        return Marginal(prior.draw(keys.uniform(at.length)), x, alpha, eta, prior)

    def loss(state: SimplexState) -> None:
        prediction = Prediction(projection=Projection(features, weight, None, 30.0))
        everywhere = torch.ones_like(x, dtype=torch.bool)
        value = rate_density(prediction, x, state, alpha, 1 / alpha, prior, everywhere)
        torch.autograd.grad(value.sum(), (features, weight))

    class Normalised(Prediction):
        """Logits whose normalisers are known, as after a projection that counts them in."""

        log_normaliser = torch.full((at.batch, at.length), float(torch.logsumexp(few, -1)))

    prediction = Normalised(few.expand(at.batch, at.length, at.vocabulary))

    def branch() -> Tensor:
        one = torch.ones(1, 1, dtype=torch.float64)
        return draw_bridge(x, prediction, 0.501 * one, 0.5 * one, prior, keys)

    return {
        "draw the state, atoms": atoms,
        "draw the state, marginal": marginal,
        "projection, loss and gradient, marginal": lambda: loss(marginal()),
        "projection, loss and gradient, atoms": lambda: loss(atoms()),
        "reverse step after the normaliser": branch,
    }
