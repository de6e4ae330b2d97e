"""LangFlow (Chen et al. 2026): Gaussian diffusion of normalised embeddings at learned noise levels.

Its authors released a network and how to sample it, not how they trained it: training is reconstructed from the paper's
text and from public accounts of it. Decided here: schedule parameters start near the released ones and take part in the
common optimiser, and a coin for self-conditioning is tossed for each sample.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

from torch import nn

from simplax.methods.base import Facts, HasLikelihood, Method, no_boundary_terms
from simplax.nn import Architecture, Network, inner
from simplax.nn.langflow import EmbeddingDenoiser
from simplax.objectives.flow import flow_nll
from simplax.objectives.fused import cross_entropy
from simplax.processes.base import Process
from simplax.processes.embedding import EmbeddingProcess
from simplax.samplers.base import Sampler
from simplax.samplers.langflow import EmbeddingDDIM
from simplax.times import TimeLaw
from simplax.typing import Batch, Loss, StepContext


@dataclass(frozen=True)
class LangFlow(Method, HasLikelihood):
    """Unweighted cross-entropy, time being the quantile of the law of noise levels.

    A share `self_conditioning` of samples reads a first prediction; the path from input to logits is faded in over
    `skip_warmup` optimiser steps. The likelihood bound integrates the flow in `likelihood_steps` steps of two network
    calls and gradients each.
    """

    facts: ClassVar[Facts] = Facts(
        "LangFlow",
        "embeddings",
        "DDIM-like",
        "Chen et al. 2026, LangFlow: Continuous Diffusion Rivals Discrete in Language Modeling",
    )
    process_type: ClassVar[type[Process]] = EmbeddingProcess
    carried_likelihood: ClassVar[bool] = False

    times: TimeLaw = field(default_factory=lambda: TimeLaw(0.0, 1.0))
    self_conditioning: float = 0.25
    skip_warmup: int = 5000
    likelihood_steps: int = 128

    def __post_init__(self) -> None:
        if not 0 <= self.self_conditioning <= 1:
            raise ValueError(
                f"self_conditioning is a share of samples in [0, 1], got {self.self_conditioning}"
            )
        if self.likelihood_steps < 1 or self.skip_warmup < 0:
            raise ValueError("likelihood_steps must be at least 1 and skip_warmup not negative")

    def process(self, denoiser: Any) -> EmbeddingProcess:
        return EmbeddingProcess(inner(denoiser))

    def build(self, vocab_size: int, length: int, architecture: Architecture) -> nn.Module:
        return EmbeddingDenoiser(vocab_size, length, architecture)

    def sampler(self, **options: Any) -> Sampler[Any]:
        return EmbeddingDDIM(**options)

    def loss(self, denoiser: nn.Module | Network, batch: Batch, context: StepContext) -> Loss:
        """The cross-entropy; the fit of the schedule to it is the auxiliary part."""
        network = Network.of(denoiser)
        own = cast(EmbeddingDenoiser, network.inner)
        process, t = self.process(network.denoiser), self.times(context.u)
        z = process.corrupt(batch.tokens, t, context.keys.stream("corrupt"))
        z = process.clamp(z, batch.tokens, batch.given)
        skip = 1.0
        if context.training and self.skip_warmup:
            skip = min(1.0, context.step / self.skip_warmup)
        # nobody measures with another network than the sampler's, which has a mean from its second call on
        prediction = network(z, t, batch, context, share=self.self_conditioning, skip=skip)
        loss = Loss(cross_entropy(prediction, batch.tokens, batch.scored), batch.scored)
        misfit = (loss.per_sequence() - own.noise.expected(own.gamma(t))) ** 2
        return Loss(loss.per_token, loss.scored, auxiliary=(misfit * loss.scored.sum(-1)).sum().float())

    def nll(
        self, denoiser: nn.Module | Network, batch: Batch, context: StepContext, *, carry: bool = True
    ) -> Loss:
        """The whole bound, from one draw of noise and one random probe; the network reads no earlier prediction."""
        return flow_nll(Network.of(denoiser), batch, context.keys.stream("nll"), self.likelihood_steps)

    def boundary_terms(
        self, denoiser: nn.Module | Network, batch: Batch, context: StepContext, *, carry: bool = True
    ) -> Loss:
        return no_boundary_terms(batch)
