"""The few types every part of the library shares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from simplax.random import Keys

WHERE_SAID: Mapping[str, Any] = {"where_said": True}
"""Metadata of a field that is stored only where it differs from its default: a setting that came later leaves the
stored form of configurations without it, and so their digests, as they were."""


@dataclass(frozen=True)
class Batch:
    """A batch of token sequences.

    `tokens` (batch, length) ids. `given` marks clamped positions, which are never noised and never scored: prompts,
    clues, the known part of an infilling problem are all the same thing. `scored` marks positions whose loss counts.
    `attend` is False on padding, or `None` when there is none. `labels` (batch, labels) describe whole sequences: the
    place of a class, or a standardised number, and not a number where there is none.
    """

    tokens: Tensor
    given: Tensor
    scored: Tensor
    attend: Tensor | None = None
    labels: Tensor | None = None

    @staticmethod
    def of(
        tokens: Tensor,
        given: Tensor | None = None,
        attend: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> Batch:
        """All positions scored but the given and the padded ones."""
        given = torch.zeros_like(tokens, dtype=torch.bool) if given is None else given
        scored = ~given if attend is None else ~given & attend
        return Batch(tokens, given, scored, attend, labels)

    def to(self, device: torch.device | str) -> Batch:
        return self._each(lambda tensor: tensor.to(device))

    def rows(self, rows: Tensor) -> Batch:
        """Some of the sequences."""
        return self._each(lambda tensor: tensor[rows])

    def _each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        attend, labels = (None if part is None else change(part) for part in (self.attend, self.labels))
        return Batch(change(self.tokens), change(self.given), change(self.scored), attend, labels)


@dataclass(frozen=True)
class StepContext:
    """What a loss may depend on besides weights and data, all of it explicit.

    `keys` one key per sample, `u` one stratified number in [0, 1) per sample (the method maps it to a time),
    `step` the optimizer step (curricula read it). `training` is the only switch between training and measuring: with
    `training=False` the loss is the one training ends with, so that values of different steps compare.
    """

    keys: Keys
    u: Tensor
    step: int = 0
    training: bool = True


@dataclass(frozen=True)
class Loss:
    """`per_token` (batch, length) in nats, zero where `scored` is False; the trainer sums and divides.

    `auxiliary` is a scalar added to the sum of `per_token` when it is differentiated, and to nothing that is reported.
    `observations` are tensors with the samples of the batch as their last axis, from which a method may learn after the
    step (`Method.after_step`); a loss itself changes nothing.
    """

    per_token: Tensor
    scored: Tensor
    auxiliary: Tensor | None = None
    observations: Mapping[str, Tensor] = field(default_factory=dict)

    @staticmethod
    def of(per_token: Tensor, batch: Batch) -> Loss:
        """A value for every position, of which the scored ones count."""
        return Loss(torch.where(batch.scored, per_token, 0.0), batch.scored)

    def mean(self) -> Tensor:
        return self.per_token.sum() / self.scored.sum().clamp(min=1)

    def per_sequence(self) -> Tensor:
        """(batch,) means over scored tokens, without a gradient."""
        return self.per_token.detach().sum(-1) / self.scored.sum(-1).clamp(min=1)


def per_sample(values: Tensor) -> Tensor:
    """(batch,) numbers as (batch, 1), to broadcast against (batch, length); a single number stays one."""
    return values.unsqueeze(-1) if values.dim() == 1 else values


class Source(Protocol):
    """Data as a function of global sample counters: what a counter means never depends on batch size or process."""

    @property
    def length(self) -> int: ...

    @property
    def vocab_size(self) -> int: ...

    def batch(self, indices: Tensor) -> Batch: ...
