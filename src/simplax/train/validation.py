"""Held-out loss with the averaged weights, a user's metric, and which checkpoint is best."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from simplax.random import Keys
from simplax.times import stratified
from simplax.train.distributed import World
from simplax.train.run import Run
from simplax.typing import Source, StepContext

Metric = Callable[[nn.Module], dict[str, float]]


@torch.no_grad()
def held_out_loss(
    method: Any, denoiser: nn.Module, source: Source, run: Run, world: World, step: int
) -> float:
    """Mean loss per scored token; times and noise are the same at every call, so that values can be compared."""
    totals = torch.zeros(2, dtype=torch.float64, device=world.device)
    size = run.micro_batch(world.size)
    count = run.validation_batches * run.batch_size
    u = stratified(count, run.seed, 0)
    for start in range(world.rank * size, count, world.size * size):
        counters = torch.arange(start, start + size)
        keys = Keys.from_seeds(counters).stream("validation", run.seed).to(world.device)
        context = StepContext(keys, u[start : start + size].to(world.device), step, training=False)
        loss = method.loss(denoiser, source.batch(counters).to(world.device), context)
        totals += torch.stack([loss.per_token.sum(dtype=torch.float64), loss.scored.sum().double()])
    loss_sum, scored = world.sum(totals).tolist()
    return loss_sum / max(scored, 1.0)


@torch.no_grad()
def validate(
    method: Any,
    denoiser: nn.Module,
    source: Source | None,
    metric: Metric | None,
    run: Run,
    world: World,
    step: int,
) -> dict[str, float]:
    """Called with the averaged weights in place; all processes call the metric, the first one's values count."""
    denoiser.eval()
    values: dict[str, float] = {}
    if source is not None:
        values["validation_loss"] = held_out_loss(method, denoiser, source, run, world, step)
    if metric is not None:
        values.update({name: float(value) for name, value in metric(denoiser).items()})
    return values


def score(values: dict[str, float]) -> float | None:
    """Higher is better: the metric's own `score` if it has one, else minus the validation loss."""
    if "score" in values:
        return values["score"]
    return -values["validation_loss"] if "validation_loss" in values else None
