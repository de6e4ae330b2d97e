"""A bound on the likelihood of tokens by the deterministic flow of their noisy embeddings.

With s = alpha / sigma and y = z / sigma, the flow is dy / ds = x_hat. From a draw y = s e_x + eps at the cleanest
level, -log p(x) <= -log p(x | y) + log q(y | x) - log p(y), where p(y) is the flow's density: N(0, I) at the noisiest
level, changed by the divergence of x_hat on the way. That is estimated with one random sign per coordinate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor

from simplax.functional.continuous import LANGFLOW_TAIL
from simplax.nn import Network
from simplax.nn.langflow import EmbeddingDenoiser
from simplax.processes.gaussian import signal_and_noise
from simplax.processes.prediction import Prediction
from simplax.random import Keys
from simplax.typing import Batch, Loss


@dataclass(frozen=True)
class _Field:
    """x_hat and its divergence along the flow, for free positions; `clamped` ones stay on their clean vectors."""

    network: Network
    rows: Tensor
    clean: Tensor
    clamped: Tensor
    probe: Tensor
    arguments: dict[str, Any]

    def logits(self, y: Tensor, t: Tensor, sigma: Tensor) -> Tensor:
        z = torch.where(self.clamped, self.clean, sigma * y)
        return self.network.predict(z, t.expand(len(y)), raw_only=True, **self.arguments)[0].logits

    def __call__(self, y: Tensor, t: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            y = y.detach().requires_grad_()
            probs = torch.softmax(self.logits(y, t, sigma), dim=-1)
            mean = probs.to(self.rows.dtype) @ self.rows
            (pulled,) = torch.autograd.grad((mean * self.probe).sum(), y)
        return mean.detach(), (pulled * self.probe).sum(-1)


def flow_nll(network: Network, batch: Batch, keys: Keys, num_steps: int) -> Loss:
    """Nats per token (their split among the tokens of a sequence is arbitrary) by Heun's method in `num_steps` steps.

    Even in quantiles of the network's own noise levels. log q(y | x) is taken at the draw rather than in the mean as is
    published: the same expectation, with less noise, for an exact network with none but the probe's.
    """
    denoiser = cast(EmbeddingDenoiser, network.inner)
    rows = denoiser.rows().detach()
    clean = torch.nn.functional.embedding(batch.tokens, rows)
    clamped = (batch.given if batch.attend is None else batch.given | ~batch.attend).unsqueeze(-1)
    shape = clean.shape[1:]
    eps = keys.stream("noise").normal(*shape, dtype=clean.dtype)
    signs = (2 * keys.stream("probe").randint(2, *shape) - 1).to(clean.dtype)
    field = _Field(
        network,
        rows,
        clean,
        clamped,
        torch.where(clamped, 0.0, signs),
        {"given": batch.given, "attend": batch.attend, "labels": batch.labels},
    )
    times = torch.linspace(
        LANGFLOW_TAIL, 1 - LANGFLOW_TAIL, num_steps + 1, dtype=torch.float64, device=clean.device
    )
    signal, noise = signal_and_noise(denoiser.gamma(times))
    place, noise = (signal / noise).to(clean.dtype), noise.to(clean.dtype)

    y = place[0] * clean + eps
    with torch.no_grad():
        reconstruction = -Prediction(field.logits(y, times[0], noise[0])).log_at(batch.tokens)
    spread = torch.zeros_like(reconstruction, dtype=torch.float64)
    for n in range(num_steps):
        ds = place[n + 1] - place[n]
        mean, divergence = field(y, times[n], noise[n])
        ahead, divergence_ahead = field(y + ds * mean, times[n + 1], noise[n + 1])
        y = y + 0.5 * ds * (mean + ahead)
        spread += 0.5 * ds * (divergence + divergence_ahead)
    prior = 0.5 * (y.double().square() - eps.double().square()).sum(-1)
    return Loss(torch.where(batch.scored, reconstruction + prior - spread, 0.0), batch.scored)
