"""FLM (Lee et al. 2026): a flow of one-hot vectors in Euclidean space, on the clock of decoding accuracy.

FLM counts time from noise to data; here, as everywhere, t = 0 is clean: its time is 1 - t.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from torch import nn

from simplax.methods.base import Facts, Method
from simplax.nn import Architecture, Network, inner
from simplax.nn.flm import OneHotDenoiser
from simplax.objectives.fused import cross_entropy
from simplax.processes.base import Process
from simplax.processes.onehot import OneHotProcess
from simplax.samplers.base import Sampler
from simplax.samplers.flm import OneHotEuler
from simplax.times import TimeLaw
from simplax.typing import Batch, Loss, StepContext


@dataclass(frozen=True)
class FLM(Method):
    """Unweighted cross-entropy at times even in decoding accuracy; the network is conditioned on the time itself.

    Training and sampling live in the image of the embedding, which is exact: see `processes.onehot`. FLM's own networks
    cap attention scores (`architecture.attention_cap=50`), those of later comparisons do not.
    """

    facts: ClassVar[Facts] = Facts(
        "FLM",
        "one-hot vectors",
        "Euler",
        "Lee et al. 2026, One-step Language Modeling via Continuous Denoising",
    )
    process_type: ClassVar[type[Process]] = OneHotProcess

    times: TimeLaw = field(default_factory=lambda: TimeLaw(0.0, 1.0))

    def process(self, denoiser: Any) -> OneHotProcess:
        return OneHotProcess(inner(denoiser))

    def build(self, vocab_size: int, length: int, architecture: Architecture) -> nn.Module:
        return OneHotDenoiser(vocab_size, length, architecture)

    def sampler(self, **options: Any) -> Sampler[Any]:
        return OneHotEuler(**options)

    def loss(self, denoiser: nn.Module | Network, batch: Batch, context: StepContext) -> Loss:
        network = Network.of(denoiser)
        process, t = self.process(network.denoiser), self.times(context.u)
        y = process.corrupt(batch.tokens, t, context.keys.stream("corrupt"))
        prediction = network(process.clamp(y, batch.tokens, batch.given), t, batch, context)
        return Loss(cross_entropy(prediction, batch.tokens, batch.scored), batch.scored)
