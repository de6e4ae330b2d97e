"""The only sampling loop: it owns seeds, pinning of given positions, network calls, trajectories and progress."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from simplax.nn.foreign import accepted_keywords, unwrapped
from simplax.nn.network import Chain, LogitTransform
from simplax.processes.base import Process
from simplax.processes.prior import Prior
from simplax.random import Keys
from simplax.samplers.base import Counted, Sampler, Setting, check_process
from simplax.samplers.guidance import ClassifierFree, Guide, as_guide
from simplax.samplers.stopping import Settled
from simplax.samplers.transforms import compose, nucleus
from simplax.samplers.transforms import temperature as divide_by
from simplax.samplers.walk import Walk
from simplax.schedules import Schedule


@dataclass(frozen=True)
class Samples(Counted):
    """`tokens` (batch, length); `trajectory` (steps + 1, batch, length) if requested.

    `nfe` counts network calls per sequence, on average over the batch: samplers that can skip sequences whose answer
    they know evaluate only the others. `calls` counts calls of the network, on however many sequences. `num_steps` is
    the requested number; some samplers spend the last of them on reading the answer off, without a time of its own.
    `block_passes` counts the transformer blocks that a sequence went through, on average, and `multiply_adds` those of
    the network's matrix products (0: not known).
    `lengths` (batch,) counts the tokens of each sequence, where padding lies behind them. `sample_calls` (batch,) are
    the network calls of each sequence. With a trajectory comes `decoded` (calls, batch, length), the likeliest clean
    tokens after each step's call, for samplers whose steps all call the network. `log_prob` (batch,), if requested,
    is the mean log-probability of the tokens that were not given under the sequence's last prediction, without
    temperature or nucleus.
    """

    tokens: Tensor
    nfe: float
    seeds: Tensor
    times: Tensor
    trajectory: Tensor | None = None
    calls: int = 0
    num_steps: int = 0
    block_passes: float = 0.0
    lengths: Tensor | None = None
    multiply_adds: float = 0.0
    sample_calls: Tensor | None = None
    decoded: Tensor | None = None
    log_prob: Tensor | None = None


@torch.no_grad()
def sample(
    denoiser: Callable[..., Tensor],
    shape: tuple[int, int],
    *,
    sampler: Sampler[Any],
    schedule: Schedule | None = None,
    process: Process | type[Process] | None = None,
    num_steps: int | None = None,
    vocab_size: int,
    pi: Tensor | None = None,
    seeds: Sequence[int] | Tensor | torch.Generator | None = None,
    tokens: Tensor | None = None,
    given: Tensor | None = None,
    attend: Tensor | None = None,
    labels: Tensor | None = None,
    guidance: float | Guide | None = None,
    temperature: float = 1.0,
    top_p: float = 1.0,
    loops: int | None = None,
    trajectory: bool = False,
    stop: Settled | None = None,
    score: bool = False,
    progress: Callable[[int, int], None] | None = None,
    watch: Callable[[int, Tensor], None] | None = None,
) -> Samples:
    """Draw `shape = (batch, length)` sequences with any callable `denoiser(z, t) -> logits`.

    `seeds` are one integer per sample (a sample's noise depends on its own seed alone), a torch generator, or `None`
    for fresh ones; the seeds used come back with the samples. Positions where `given` holds keep `tokens`.
    `num_steps` may be left out where the sampler leaves no choice. `vocab_size` counts the data's categories: a mask is
    not one of them. `process` is what the denoiser was trained to undo, or its class; if it is left out, the sampler's
    own with `schedule` and `pi` (uniform noise, for those that know several). `labels` (batch, labels) as in `Batch`
    go to the network; `guidance` pulls samples towards them, or towards what a classifier says. `watch` is called with
    the number of steps made and the tokens (batch, length) there, from 0 on. `loops` is how often each call goes
    through the network's blocks, if not as often as in training. `stop` ends sequences early that do
    not change any more: they leave the batch, and their calls are not made. `score` asks for `log_prob`.
    """
    batch, length = shape
    num_steps = _num_steps(sampler, num_steps, length)
    _check_clamped(tokens, given, vocab_size)
    _check_loops(loops, denoiser)
    device = _device(denoiser, tokens)
    seed_values = _seeds(seeds, batch).to(device)
    keys = Keys.from_seeds(seed_values)
    guide = as_guide(guidance)
    _check_guide(guide, sampler, labels, stop)
    setting = Setting(
        batch, length, num_steps, _process(process, sampler, denoiser, schedule, Prior(vocab_size, pi)), guide
    )
    if (stop is not None or score) and not sampler.decodes:
        raise ValueError(
            f"the sampler {type(sampler).__name__} does not predict every position in every step: it can neither stop "
            "early nor score its answers"
        )
    network = Chain(
        denoiser,
        vocab_size,
        _transform(temperature, top_p),
        given,
        attend,
        batch,
        None if isinstance(guide, ClassifierFree) and guide.strength == 0 else labels,
        None if guide is None else guide.compares,
        loops,
        sampler.decodes and (trajectory or score or stop is not None),
    )
    walk = Walk(sampler, network, setting, keys, tokens, given, trajectory, score)
    times = sampler.grid(num_steps)
    if watch is not None:
        watch(0, walk.now())
    for n, (t, s) in enumerate(itertools.pairwise(times)):
        walk.step(n, t, s, stop)
        if watch is not None:
            watch(n + 1, walk.now())
        if progress is not None:
            progress(n + 1, len(times) - 1)
        if not len(walk.places):
            break
    result = walk.finish(times[-1])
    frames, decoded = walk.paths(len(times) - 1)
    return Samples(
        result,
        network.sequences / max(batch, 1),
        seed_values,
        times,
        frames,
        network.calls,
        num_steps,
        network.block_passes / max(batch, 1),
        None if attend is None else attend.sum(-1),
        network.multiply_adds / max(batch, 1),
        network.spent,
        decoded,
        walk.scores,
    )


def _process(
    process: Process | type[Process] | None,
    sampler: Sampler[Any],
    denoiser: Callable[..., Tensor],
    schedule: Schedule | None,
    prior: Prior,
) -> Process:
    kind = sampler.undoes[0] if process is None else process
    check_process(sampler, kind if isinstance(kind, type) else type(kind), "this denoiser")
    if not isinstance(kind, type):
        if schedule is not None or prior.probs is not None:
            raise ValueError("a process has a schedule and a prior of its own: leave schedule and pi out")
        return kind
    inner = unwrapped(denoiser) if isinstance(denoiser, torch.nn.Module) else denoiser
    return kind.around(inner, schedule, prior)


def _num_steps(sampler: Sampler[Any], num_steps: int | None, length: int) -> int:
    fixed = sampler.steps_for(length)
    if fixed is None and num_steps is None:
        raise ValueError("num_steps is missing: say how many steps this sampler should make")
    if fixed is not None and num_steps not in (None, fixed):
        raise ValueError(
            f"this sampler makes exactly {fixed} steps here: leave num_steps out, or pass {fixed}"
        )
    return fixed if num_steps is None else num_steps  # type: ignore[return-value]


def _check_clamped(tokens: Tensor | None, given: Tensor | None, vocab_size: int) -> None:
    if (tokens is None) != (given is None):
        raise ValueError("tokens and given go together: pass both to clamp positions, or neither")
    if tokens is None or given is None:
        return
    if given.dtype != torch.bool:
        raise ValueError(f"given must be a boolean tensor, True where tokens are kept, not {given.dtype}")
    clamped = torch.where(given, tokens, 0)
    if clamped.is_floating_point() or bool(((clamped < 0) | (clamped >= vocab_size)).any()):
        raise ValueError(f"tokens must hold ids in [0, {vocab_size - 1}] where given is True")


def _check_loops(loops: int | None, denoiser: Callable[..., Tensor]) -> None:
    if loops is None:
        return
    if loops < 1:
        raise ValueError(f"loops must be at least 1, got {loops}")
    accepted = accepted_keywords(denoiser)
    if accepted is not None and "loops" not in accepted:
        raise ValueError("this network has no loops: leave loops out")


def _check_guide(
    guide: Guide | None, sampler: Sampler[Any], labels: Tensor | None, stop: Settled | None
) -> None:
    if isinstance(guide, ClassifierFree) and labels is None:
        raise ValueError("classifier-free guidance needs labels: say which")
    if guide is None or not guide.tilts_steps:
        return
    if not sampler.bridges or getattr(sampler, "last", None) is not None:
        raise ValueError(
            "a classifier guides samplers of tokens that step through a grid of times to its end, such as Ancestral, "
            "Simplax, Psi and MaskedAncestral without last: choose one of them"
        )
    if stop is not None:
        raise ValueError(
            "what a sequence stops with is the network's word alone, without the classifier: leave stop out"
        )


def _transform(temperature: float, top_p: float) -> LogitTransform:
    """Neutral settings cost nothing: no copy of the logits is made for them."""
    transforms = [divide_by(temperature)] if temperature != 1.0 else []
    return compose(*transforms, nucleus(top_p)) if top_p != 1.0 else compose(*transforms)


def _seeds(seeds: Sequence[int] | Tensor | torch.Generator | None, batch: int) -> Tensor:
    if seeds is None or isinstance(seeds, torch.Generator):
        return torch.randint(0, 2**62, (batch,), generator=seeds)
    values = torch.as_tensor(seeds, dtype=torch.int64)
    if values.shape != (batch,):
        raise ValueError(
            f"seeds must be one integer per sample: got shape {tuple(values.shape)} for {batch} samples"
        )
    return values


def _device(denoiser: Callable[..., Tensor], tokens: Tensor | None) -> torch.device:
    if isinstance(denoiser, torch.nn.Module):
        for parameter in denoiser.parameters():
            return parameter.device
    return torch.device("cpu") if tokens is None else tokens.device
