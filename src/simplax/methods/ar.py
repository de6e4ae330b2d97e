"""Autoregression: the baseline with an exact likelihood, through the same trainer and the same sampling loop."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from simplax.methods.base import Facts, HasLikelihood, Method, no_boundary_terms
from simplax.nn import Architecture, Denoiser, Network, num_categories
from simplax.objectives.fused import cross_entropy
from simplax.processes.base import Process
from simplax.processes.causal import CausalProcess
from simplax.samplers.ar import LeftToRight
from simplax.samplers.base import Sampler
from simplax.typing import Batch, Loss, StepContext


@dataclass(frozen=True)
class AR(Method, HasLikelihood):
    """Every token from those before it, by a causal network without time.

    The network reads the sequence shifted right, behind a start symbol of its own (id K), so that the first token is
    predicted too and the likelihood is that of whole sequences. `bos_in_data=True` is the published convention for data
    that begin with a start symbol: nothing is put before it and it is not scored. Padding may lie on either side; the
    start symbol stands before the first token that is not padding.
    """

    facts: ClassVar[Facts] = Facts(
        "AR",
        "none: one token after another",
        "left to right",
        "the usual baseline",
    )
    process_type: ClassVar[type[Process]] = CausalProcess
    exact_likelihood: ClassVar[bool] = True

    bos_in_data: bool = False

    def process(self, denoiser: Any) -> CausalProcess:
        return CausalProcess(num_categories(denoiser))

    def build(self, vocab_size: int, length: int, architecture: Architecture) -> nn.Module:
        plain = replace(architecture, given_embedding=False, carry="none")
        rows = vocab_size + (not self.bos_in_data)
        return Denoiser(rows, length, plain, output_size=vocab_size, adaln=False, causal=True)

    def sampler(self, **options: Any) -> Sampler[Any]:
        return LeftToRight(**{"bos_in_data": self.bos_in_data, **options})

    def loss(self, denoiser: nn.Module | Network, batch: Batch, context: StepContext) -> Loss:
        """The negative log-likelihood itself; given tokens are context, and only for what follows them."""
        network = Network.of(denoiser)
        first = int(self.bos_in_data)
        read, attend = self._read(batch, network.categories)
        # a causal network has no use for the mask of given positions
        plain = Batch(read, torch.zeros_like(read, dtype=torch.bool), batch.scored, attend, batch.labels)
        prediction = network(read, None, plain)
        value = cross_entropy(prediction, batch.tokens[:, first:], batch.scored[:, first:])
        if not first:
            return Loss(value, batch.scored)
        scored = batch.scored & (torch.arange(batch.scored.shape[1], device=value.device) > 0)
        return Loss(torch.nn.functional.pad(value, (1, 0)), scored)

    def nll(
        self, denoiser: nn.Module | Network, batch: Batch, context: StepContext, *, carry: bool = True
    ) -> Loss:
        return self.loss(denoiser, batch, context)

    def boundary_terms(
        self, denoiser: nn.Module | Network, batch: Batch, context: StepContext, *, carry: bool = True
    ) -> Loss:
        return no_boundary_terms(batch)

    def _read(self, batch: Batch, size: int) -> tuple[Tensor, Tensor | None]:
        """What the network reads to predict each token, and which positions of that are not padding."""
        before, attend = batch.tokens[:, :-1], batch.attend
        if self.bos_in_data:
            return before, None if attend is None else attend[:, :-1]
        read = torch.nn.functional.pad(before, (1, 0), value=size)
        if attend is None:
            return read, None
        starts = attend & ~torch.nn.functional.pad(attend[:, :-1], (1, 0))
        return torch.where(starts, size, read), attend
