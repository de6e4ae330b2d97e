"""The only sampling loop: it owns seeds, pinning of given positions, network calls, trajectories and progress."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from simplax.nn import attribute, call
from simplax.processes.uniform import Prediction, Prior
from simplax.random import Keys
from simplax.samplers.base import Sampler, Setting
from simplax.samplers.transforms import LogitTransform, compose, nucleus
from simplax.samplers.transforms import temperature as divide_by
from simplax.schedules import Schedule


@dataclass(frozen=True)
class Samples:
    """`tokens` (batch, length); `trajectory` (steps + 1, batch, length) if asked for.

    `nfe` counts network calls per sequence, on average over the batch: samplers that can skip sequences whose answer
    they know evaluate only the others. `calls` counts calls of the network, on however many sequences. `num_steps` is
    what was asked for; some samplers spend the last of them on reading the answer off, without a time of its own.
    """

    tokens: Tensor
    nfe: float
    seeds: Tensor
    times: Tensor
    trajectory: Tensor | None = None
    calls: int = 0
    num_steps: int = 0


class _Network:
    """The denoiser as samplers see it: counted, with logits transformed, fed its own last prediction if it wants it."""

    def __init__(
        self, denoiser: Callable[..., Tensor], transform: LogitTransform, batch: int, context: dict[str, Any]
    ) -> None:
        self.denoiser, self.transform, self.batch, self.context = denoiser, transform, batch, context
        self.self_conditioning = bool(attribute(denoiser, "self_conditioning"))
        self.previous: Tensor | None = None
        self.calls = self.sequences = 0

    def __call__(self, z: object, t: Tensor, *, rows: Tensor | None = None, **context: Any) -> Prediction:
        if rows is not None and self.self_conditioning:
            raise ValueError(
                "a network that reads its own last prediction must see the whole batch on every call"
            )
        count = self.batch if rows is None else len(rows)
        self.calls, self.sequences = self.calls + 1, self.sequences + count
        known = {
            name: value if value is None or rows is None else value[rows]
            for name, value in self.context.items()
        }
        if self.self_conditioning:
            known["self_condition"] = self.previous
        logits = call(self.denoiser, z, t.to(torch.float32).expand(count), **{**known, **context}).float()
        if self.self_conditioning:
            self.previous = torch.softmax(logits, dim=-1)
        return Prediction(self.transform(logits))


@torch.no_grad()
def sample(
    denoiser: Callable[..., Tensor],
    shape: tuple[int, int],
    *,
    sampler: Sampler[Any],
    schedule: Schedule,
    num_steps: int | None = None,
    vocab_size: int,
    pi: Tensor | None = None,
    seeds: Sequence[int] | Tensor | torch.Generator | None = None,
    tokens: Tensor | None = None,
    given: Tensor | None = None,
    attend: Tensor | None = None,
    temperature: float = 1.0,
    top_p: float = 1.0,
    trajectory: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Samples:
    """Draw `shape = (batch, length)` sequences with any callable `denoiser(z, t) -> logits`.

    `seeds` are one integer per sample (a sample's noise depends on its own seed alone), a torch generator, or `None`
    for fresh ones; the seeds used come back with the samples. Positions where `given` holds keep `tokens`.
    `num_steps` may be left out where the sampler leaves no choice. `vocab_size` counts the data's categories: a mask is
    not one of them.
    """
    batch, length = shape
    num_steps = _num_steps(sampler, num_steps, length)
    _check_held(tokens, given, vocab_size)
    device = _device(denoiser, tokens)
    seed_values = _seeds(seeds, batch).to(device)
    keys = Keys.from_seeds(seed_values)
    setting = Setting(batch, length, Prior(vocab_size, pi), schedule, num_steps)
    network = _Network(denoiser, _transform(temperature, top_p), batch, {"given": given, "attend": attend})

    def pinned(state: Any) -> Any:
        return state if tokens is None or given is None else sampler.pin(state, tokens, given)

    times = sampler.grid(num_steps).to(device)
    state = pinned(sampler.init(setting, keys.fold_in(0)))
    path = [sampler.tokens(state)] if trajectory else []
    for n, (t, s) in enumerate(itertools.pairwise(times)):
        state = pinned(sampler.step(state, network, t, s, setting, keys.fold_in(1, n)))
        if trajectory:
            path.append(sampler.tokens(state))
        if progress is not None:
            progress(n + 1, len(times) - 1)
    state = pinned(sampler.finish(state, network, times[-1], setting, keys.fold_in(2)))
    result = sampler.tokens(state)
    nfe = network.sequences / max(batch, 1)
    full = torch.stack([*path[:-1], result]) if trajectory else None
    return Samples(result, nfe, seed_values, times, full, network.calls, num_steps)


def _num_steps(sampler: Sampler[Any], num_steps: int | None, length: int) -> int:
    fixed = sampler.steps_for(length)
    if fixed is None and num_steps is None:
        raise ValueError("num_steps is missing: say how many steps this sampler should make")
    if fixed is not None and num_steps not in (None, fixed):
        raise ValueError(
            f"this sampler makes exactly {fixed} steps here: leave num_steps out, or pass {fixed}"
        )
    return fixed if num_steps is None else num_steps  # type: ignore[return-value]


def _check_held(tokens: Tensor | None, given: Tensor | None, vocab_size: int) -> None:
    if (tokens is None) != (given is None):
        raise ValueError("tokens and given go together: pass both to hold positions fixed, or neither")
    if tokens is None or given is None:
        return
    if given.dtype != torch.bool:
        raise ValueError(f"given must be a boolean tensor, True where tokens are kept, not {given.dtype}")
    held = torch.where(given, tokens, 0)
    if held.is_floating_point() or bool(((held < 0) | (held >= vocab_size)).any()):
        raise ValueError(f"tokens must hold ids in [0, {vocab_size - 1}] where given is True")


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
