"""Autoregression: the baseline with an exact likelihood, through the same trainer and the same sampling loop."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from simplax.methods.base import HasLikelihood, Method, num_categories
from simplax.nn import Architecture, Denoiser
from simplax.objectives.fused import output, surprise
from simplax.samplers import LeftToRight
from simplax.samplers.base import Sampler
from simplax.schedules import Linear, Schedule
from simplax.typing import Batch, Loss, StepContext


@dataclass(frozen=True)
class AR(Method, HasLikelihood):
    """Every token from those before it, by a causal network without time.

    The network reads the sequence shifted right, behind a start symbol of its own (id K), so that the first token is
    predicted too and the likelihood is that of whole sequences. `bos_in_data=True` is the published convention for data
    that begin with a start symbol: nothing is put before it and it is not scored.
    """

    noise: ClassVar[str] = "none"

    bos_in_data: bool = False
    # the loop asks every method for a schedule; a causal network never sees a time
    schedule: Schedule = field(default_factory=Linear, init=False, repr=False)
    exact_likelihood = True

    def build(self, vocab_size: int, length: int, architecture: Architecture) -> nn.Module:
        plain = replace(architecture, given_embedding=False, self_conditioning=False)
        rows = vocab_size + (not self.bos_in_data)
        return Denoiser(rows, length, plain, output_size=vocab_size, adaln=False, causal=True)

    def sampler(self, **options: Any) -> Sampler[Any]:
        return LeftToRight(**{"bos_in_data": self.bos_in_data, **options})

    def loss(self, denoiser: nn.Module, batch: Batch, context: StepContext) -> Loss:
        """The negative log-likelihood itself; given tokens are context, and only for what follows them."""
        size = num_categories(denoiser)
        first = int(self.bos_in_data)
        attend = None if batch.attend is None else batch.attend[:, : batch.tokens.shape[1] - first]
        given = output(denoiser, self._read(batch.tokens, size), None, attend=attend)
        if isinstance(given, Tensor):
            given = given[..., :size]
        value = surprise(given, batch.tokens[:, first:], batch.scored[:, first:])
        if not first:
            return Loss(value, batch.scored)
        scored = batch.scored & (torch.arange(batch.scored.shape[1], device=value.device) > 0)
        return Loss(torch.nn.functional.pad(value, (1, 0)), scored)

    def nll(self, denoiser: nn.Module, batch: Batch, context: StepContext) -> Loss:
        return self.loss(denoiser, batch, context)

    def ends(self, denoiser: nn.Module, batch: Batch, context: StepContext) -> Loss:
        return Loss(torch.zeros(batch.tokens.shape, device=batch.tokens.device), batch.scored)

    def _read(self, tokens: Tensor, size: int) -> Tensor:
        before = tokens[:, :-1]
        return before if self.bos_in_data else torch.nn.functional.pad(before, (1, 0), value=size)
