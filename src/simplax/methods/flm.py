"""FLM (Lee et al. 2026): a flow of one-hot vectors in Euclidean space, on the clock of decoding accuracy.

FLM counts time from noise to data; here, as everywhere, t = 0 is clean: its time is 1 - t.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import torch
from torch import nn

from simplax.methods.base import Method
from simplax.methods.uniform import predict, scored
from simplax.nn import Architecture
from simplax.nn.onehot import OneHotDenoiser
from simplax.processes.onehot import noised, projected_noise
from simplax.processes.uniform import Prediction
from simplax.samplers.base import Sampler
from simplax.samplers.flm import OneHotEuler
from simplax.schedules import Linear, Schedule
from simplax.times import TimeLaw
from simplax.typing import Batch, Loss, StepContext


@dataclass(frozen=True)
class FLM(Method):
    """Unweighted cross-entropy at times even in decoding accuracy; the network is told the time itself.

    Training and sampling live in the image of the embedding, which is exact: see `processes.onehot`. FLM's own networks
    cap attention scores (`architecture.attention_cap=50`), those of later comparisons do not.
    """

    noise: ClassVar[str] = "vectors"

    times: TimeLaw = field(default_factory=lambda: TimeLaw(0.0, 1.0))
    # the loop asks every method for a schedule; this one's lives in its denoiser
    schedule: Schedule = field(default_factory=Linear, init=False, repr=False)

    def build(self, vocab_size: int, length: int, architecture: Architecture) -> nn.Module:
        return OneHotDenoiser(vocab_size, length, architecture)

    def sampler(self, **options: Any) -> Sampler[Any]:
        return OneHotEuler(**options)

    def loss(self, denoiser: nn.Module, batch: Batch, context: StepContext) -> Loss:
        network = cast(OneHotDenoiser, denoiser)
        t, rows = self.times(context.u), network.rows()
        clean = torch.nn.functional.embedding(batch.tokens, rows)
        noise = projected_noise(rows, batch.tokens.shape[1], context.keys.fold_in(0))
        y = torch.where(batch.given.unsqueeze(-1), clean, noised(clean, noise, network.gamma(t)))
        return scored(-Prediction(predict(denoiser, y, t, batch, context)).log_at(batch.tokens), batch)
