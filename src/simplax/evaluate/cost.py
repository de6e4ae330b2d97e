"""What sampling or scoring will cost, said before it starts: network calls, tokens, memory, and time.

The time is that of one call of the real network at the real batch size, made and timed beforehand, after another that
warms it up. Work that is over sooner than it could be measured is only counted.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from simplax.io.memory import peak_memory
from simplax.io.progress import duration
from simplax.methods import HasLikelihood
from simplax.methods.likelihood import has_two_bounds
from simplax.pretrained.model import Model
from simplax.pretrained.numerics import BatchSize, batch_size_for
from simplax.random import Keys
from simplax.samplers import Sampler
from simplax.samplers.guidance import as_guide
from simplax.samplers.loop import sample
from simplax.typing import Batch, StepContext

MEASURED_FROM = 50
"""Calls on a batch from which the first ones are timed: the measurement makes three."""
SAID_FROM = 10.0
"""Seconds from which a person is told."""


@dataclass(frozen=True)
class Cost:
    """`calls` of the network, each on at most `batch` sequences; `tokens` go through it in all of them.

    `seconds` and `bytes` (the most memory in use at once, so far) are None where nothing was measured. Samplers that
    skip sequences whose answer they know may need fewer.
    """

    calls: int
    batch: int
    tokens: int
    seconds: float | None = None
    bytes: int | None = None

    def __add__(self, other: Cost) -> Cost:
        """Both, one after the other; what was not measured is short and adds no time."""
        seconds = [value for value in (self.seconds, other.seconds) if value is not None]
        return Cost(
            self.calls + other.calls,
            max(self.batch, other.batch),
            self.tokens + other.tokens,
            sum(seconds) if seconds else None,
            max(self.bytes or 0, other.bytes or 0) or None,
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def sentence(self) -> str:
        """For people; empty for what is over soon."""
        if self.seconds is None or self.seconds < SAID_FROM:
            return ""
        rate = self.calls / self.seconds
        memory = "" if self.bytes is None else f"; {self.bytes / 1e9:.2g} GB of memory"
        return (
            f"this will take about {duration(self.seconds)}: {self.calls:,} network calls on up to {self.batch:,} "
            f"sequences each, {self.tokens:,} tokens, at {rate:.3g} calls per second as just measured{memory}"
        )


NOTHING = Cost(0, 0, 0)


def sampling_cost(
    model: Model,
    num: int,
    *,
    sampler: Sampler[Any] | None = None,
    num_steps: int | None = None,
    batch_size: BatchSize = 256,
    held: tuple[Tensor, Tensor] | None = None,
    repeats: Sequence[int] = (),
    guidance: float | None = None,
    loops: int | None = None,
) -> Cost:
    """The cost of `num` samples; `repeats` are numbers of steps that all of them are drawn with, one after the other.

    `held` are tokens and the positions where they are given, clamped in the timed calls as well. Guidance that compares
    reads every sequence twice in one call, and a call goes through the network's blocks as often as `loops` says.
    """
    if num < 1 or (batch_size != "auto" and batch_size < 1):  # whoever draws complains
        return NOTHING
    conditional = held is not None and bool(held[1].any())
    chosen = sampler or model.sampler(conditional=conditional)
    default = model.defaults(conditional=conditional).num_steps if num_steps is None else num_steps
    length = model.config.task.length
    per_sequence = sum(calls_for(chosen, length, steps) for steps in repeats or (default,))
    batch = min(num, batch_size_for(model, batch_size, num))
    guide = as_guide(guidance)
    copies = 1 if guide is None or guide.compares is None else 2
    counted = _shared(num, batch, per_sequence, length)
    counted = replace(counted, batch=copies * batch, tokens=copies * counted.tokens)
    if counted.calls < MEASURED_FROM:
        return counted
    rows = None if held is None else (held[0][:batch], held[1][:batch])
    steps = max(repeats, default=default)
    seconds, memory = _timed(model, lambda: _draw(model, chosen, batch, steps, rows, loops), batch)
    return replace(counted, seconds=seconds * counted.tokens / length, bytes=memory)


def calls_for(sampler: Sampler[Any], length: int, num_steps: int) -> int:
    """Network calls that a sampler makes for a sequence, at most."""
    steps = sampler.steps_for(length) or num_steps
    gibbs = getattr(sampler, "gibbs", None)
    # after every step but one that arrives at time zero
    sweeps = 0 if gibbs is None else gibbs.sweeps * int((sampler.grid(steps)[1:] > 0).sum())
    return steps + sweeps + (getattr(sampler, "last", None) is not None)


def likelihood_cost(
    model: Model, batch: Batch, draws: int, batch_size: BatchSize, *, carry: bool = True
) -> Cost:
    """The cost of scoring the sequences of `batch` in `draws` draws of time and noise.

    A network that carries something from call to call is also called first on every state, unless not to `carry`.
    """
    method, num = model.method, len(batch.tokens)
    if not isinstance(method, HasLikelihood):
        return NOTHING
    draws = 1 if method.exact_likelihood else draws
    first = batch.rows(torch.arange(min(num, batch_size_for(model, batch_size, num)))).to(model.device)
    numbers = torch.arange(len(first.tokens), device=model.device)
    u = (numbers.double() + 0.5) / len(numbers)
    context = StepContext(Keys.from_seeds(numbers), u, training=False)
    rounds = draws * math.ceil(num / len(numbers))

    def score() -> None:
        method.nll(model.denoiser, first, context, carry=carry)
        method.boundary_terms(model.denoiser, first, context, carry=carry)

    # an inner and two boundary calls, as most methods make
    usual = 6 if carry and has_two_bounds(method, model.denoiser) else 3
    if rounds * usual < MEASURED_FROM:
        return _shared(num, len(numbers), usual * draws, model.config.task.length)
    with torch.no_grad(), _watching(model.denoiser.eval(), model.device) as starts:
        score()
        began = _now(model.device)
        calls = len(starts)
        score()
        seconds = _now(model.device) - began
    counted = _shared(num, len(numbers), calls * draws, model.config.task.length)
    return replace(counted, seconds=seconds * rounds / _processes(), bytes=peak_memory(model.device))


def _processes() -> int:
    """Those that torchrun started share the sequences."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def _shared(num: int, batch: int, per_sequence: int, length: int) -> Cost:
    own = math.ceil(num / _processes())
    batches = math.ceil(own / batch) if batch else 0
    return Cost(batches * per_sequence, batch, own * per_sequence * length)


class _Enough(Exception):
    """The calls that were to be timed have been made."""


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


@contextmanager
def _watching(
    denoiser: nn.Module, device: torch.device, most: int | None = None
) -> Iterator[list[tuple[float, int]]]:
    """When calls of the network began and on how many sequences; the one after `most` of them is not made."""
    starts: list[tuple[float, int]] = []

    def watch(module: nn.Module, arguments: tuple[Any, ...]) -> None:
        state = arguments[0]
        starts.append((_now(device), len(state) if isinstance(state, Tensor) else 0))
        if most is not None and len(starts) > most:
            raise _Enough

    handle = denoiser.register_forward_pre_hook(watch)
    try:
        yield starts
    except _Enough:
        pass
    finally:
        handle.remove()


def _timed(model: Model, draw: Callable[[], object], batch: int) -> tuple[float, int]:
    """Seconds per network call and sequence, drawing and all, and the memory this took."""
    device = model.device
    began = _now(device)
    with _watching(model.denoiser.eval(), device, most=2) as starts:
        draw()
    ended = _now(device)
    rows = [number or batch for _, number in starts]
    if len(starts) < 3:  # the chain is shorter than that
        return (ended - began) / max(sum(rows), 1), peak_memory(device)
    return (starts[2][0] - starts[1][0]) / max(rows[1], 1), peak_memory(device)


def _draw(
    model: Model,
    sampler: Sampler[Any],
    batch: int,
    num_steps: int,
    rows: tuple[Tensor, Tensor] | None,
    loops: int | None,
) -> None:
    """Begin a chain by the loop itself, in this process alone."""
    task = model.config.task
    fixed = sampler.steps_for(task.length)
    held = {} if rows is None else {"tokens": rows[0].to(model.device), "given": rows[1].to(model.device)}
    sample(
        model.denoiser,
        (batch, task.length),
        sampler=sampler,
        process=model.method.process(model.denoiser),
        num_steps=num_steps if fixed is None else None,
        vocab_size=task.vocab_size,
        seeds=torch.arange(batch),
        loops=model.config.sampling.loops if loops is None else loops,
        **held,  # type: ignore[arg-type]
    )
