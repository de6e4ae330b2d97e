"""One optimiser step: micro-batches, gradients, normalisation, update. All randomness is keyed by (seed, counter)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule

from simplax.methods.loops import training_loss
from simplax.nn import attribute
from simplax.nn.compiling import check_compiler
from simplax.nn.labels import drop_labels
from simplax.random import Keys, mix64
from simplax.times import stratified
from simplax.train.distributed import World, replicate, shard
from simplax.train.ema import EMA
from simplax.train.optimizer import normalise_and_clip
from simplax.train.prefetch import Prefetch
from simplax.train.run import Run
from simplax.typing import Batch, Source, StepContext


class NonFinite(Exception):
    """A loss or gradient that is not a number at `step`; the weights are still those before it."""

    def __init__(self, step: int) -> None:
        super().__init__(step)
        self.step = step


@dataclass(frozen=True)
class Outcome:
    """Sums (loss, scored tokens) over the global batch, the gradient norm before clipping, the learning rate.

    Tensors stay on the device: reading one waits for it. `stop` if any process requested it.
    """

    sums: Tensor
    grad_norm: Tensor
    learning_rate: float
    stop: bool


class Objective(nn.Module):
    """A method's loss as a module: wrappers see one forward pass, whatever calls the method makes inside."""

    def __init__(self, method: Any, denoiser: nn.Module) -> None:
        super().__init__()
        self.method, self.denoiser = method, denoiser

    def forward(
        self, batch: Batch, context: StepContext
    ) -> tuple[Tensor, Tensor, Tensor, Mapping[str, Tensor]]:
        """What is reported, what is differentiated, the number of scored tokens, and observations."""
        share = attribute(self.denoiser, "label_dropout", 0.0)
        if batch.labels is not None and share > 0:
            batch = replace(batch, labels=drop_labels(batch.labels, share, context.keys.stream("labels")))
        loss = training_loss(self.method, self.denoiser, batch, context)
        value = loss.per_token.detach().sum(dtype=torch.float64)
        total = (
            loss.per_token.sum()
        )  # not from float64: the cast of its gradient would hide that it is one number
        objective = total if loss.auxiliary is None else total + loss.auxiliary
        return value, objective, loss.scored.sum(), loss.observations


def micro_batches(
    source: Source, run: Run, world: World, step: int
) -> Iterator[tuple[Batch, StepContext, Tensor]]:
    """This process's share of global step `step` on the CPU, with the sample counters."""
    size = run.micro_batch(world.size)
    for micro in range(run.accumulate):
        start = (world.rank * run.accumulate + micro) * size
        counters = torch.arange(start, start + size) + step * run.batch_size
        u = stratified(run.batch_size, run.seed, step, start, start + size)
        keys = Keys.from_seeds(counters).stream("training", run.seed)
        yield source.batch(counters), StepContext(keys, u, step), counters


def dropout_seed(seed: int, step: int, rank: int, micro: int) -> int:
    """Seed of torch's own generator, a function of where we are and not of how we came there."""
    state = torch.tensor(seed, dtype=torch.int64)
    for number in (step, rank, micro):
        state = mix64(state * 31 + number + 1)
    return int(state) & (2**63 - 1)


class Stepper:
    """Network, optimizer and average of one run, on this process."""

    def __init__(self, method: Any, denoiser: nn.Module, source: Source, run: Run, world: World) -> None:
        self.method, self.denoiser = method, denoiser
        self.source, self.run, self.world = source, run, world
        self.batches = Prefetch(self._parts, run.steps, world.device)
        world.broadcast(denoiser)
        self.sharded = run.sharding == "fsdp" and world.size > 1
        if self.sharded:
            shard(denoiser, world)
        if run.compile:
            check_compiler(world.device)
        called: Any = torch.compile(denoiser) if run.compile else denoiser
        self.objective: nn.Module = Objective(method, called)
        if world.size > 1 and not self.sharded:
            has_unused = self._has_unused(Objective(method, denoiser))
            self.objective = replicate(self.objective, world, has_unused)
        self.optimizers = run.optimizer.build(denoiser)
        self.ema = EMA(denoiser, run.ema)
        # reading a number of a GPU makes the step wait for it; there `check` reads it when another value is read anyway
        self.asks_at_once = world.device.type == "cpu"
        self._broken = torch.full((), -1, dtype=torch.int64, device=world.device)

    def _parts(self, step: int) -> list[tuple[Batch, StepContext, Tensor]]:
        return list(micro_batches(self.source, self.run, self.world, step))

    def __call__(self, step: int, stop: bool) -> Outcome:
        """Advance the weights from `step` to `step + 1`."""
        self.denoiser.train()
        self.optimizers.zero_grad()
        totals = torch.zeros(2, dtype=torch.float64, device=self.world.device)
        seen: list[Mapping[str, Tensor]] = []
        for micro, (batch, context, _) in enumerate(self.batches(step)):
            torch.manual_seed(dropout_seed(self.run.seed, step, self.world.rank, micro))
            with self._synchronised(micro == self.run.accumulate - 1):
                value, objective, scored, observations = self.objective(batch, context)
                objective.backward()
            seen.append(observations)
            totals += torch.stack([value, scored.to(value.dtype)])
        totals = self.world.sum(totals)
        # wrappers average gradients over processes; we want the sum over samples divided by the global count
        scale = self.world.size / totals[1].clamp(min=1.0)
        norm = normalise_and_clip(self.optimizers.parameters.values(), scale, self.run.optimizer.clip)
        broken = ~(totals[0].isfinite() & norm.isfinite())
        self._broken = torch.where((self._broken < 0) & broken, step, self._broken)
        if self.asks_at_once:
            self.check()
        learning_rate = self.optimizers.step(
            step, self.run.steps, skip=None if self.asks_at_once else self._broken >= 0
        )
        self._learn(seen, step)
        self.ema.update()
        self.method.after_average(self.denoiser, self.ema.state_dict, step)
        return Outcome(totals, norm, learning_rate, self.world.any(stop))

    def check(self) -> None:
        """Raise `NonFinite` if a step met a number that is not finite; from that step on, weights stand still."""
        step = int(self._broken)
        if step >= 0:
            raise NonFinite(step)

    def _learn(self, seen: list[Mapping[str, Tensor]], step: int) -> None:
        """Hand the observations of all processes, in the global order of samples, to the method."""
        gathered = {
            name: self.world.gather(torch.cat([part[name].detach() for part in seen], dim=-1))
            for name in seen[0]
        }
        self.method.after_step(self.denoiser, gathered, step)

    def _synchronised(self, last: bool) -> Any:
        """Processes exchange gradients once per step, after the last micro-batch."""
        if isinstance(self.denoiser, FSDPModule):
            self.denoiser.set_requires_gradient_sync(last)
        if not last and isinstance(self.objective, nn.parallel.DistributedDataParallel):
            return self.objective.no_sync()
        return nullcontext()

    def _has_unused(self, objective: nn.Module) -> bool:
        """Whether some parameter takes no part in the loss, which DDP needs to know; one pass on a micro-batch."""
        batch, context, _ = self.batches.moved(self._parts(0)[0])
        objective(batch, context)[1].backward()
        unused = any(p.requires_grad and p.grad is None for p in self.denoiser.parameters())
        self.denoiser.zero_grad(set_to_none=True)
        flag = torch.tensor([float(unused)], device=self.world.device)
        return bool(self.world.sum(flag).item() > 0)
