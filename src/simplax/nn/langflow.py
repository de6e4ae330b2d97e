"""LangFlow's denoiser: noisy embeddings in, with a learned law of noise levels and a skip from input to logits."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from simplax.functional.continuous import langflow_gamma, langflow_skip
from simplax.nn.architecture import Architecture
from simplax.nn.cost import linear_weights
from simplax.nn.transformer import zero_linear
from simplax.nn.vectors import VectorDenoiser
from simplax.processes.vectors import unit

RELEASED = (4.723, 0.852)
"""Location and scale of the Gumbel law in the released network."""

RELEASED_SIZE = (50257, 768)
SMALLEST_SCALE = 0.05


class GumbelSchedule(nn.Module):
    """gamma has a Gumbel law whose CDF, times `entropy`, is fitted to the cross-entropy at gamma.

    It starts from the released values, moved to the signal-to-noise ratio that carries the same information in another
    number of dimensions: an optimiser moves these numbers by no more than its learning rate per step.
    """

    def __init__(self, vocab_size: int, width: int) -> None:
        super().__init__()
        (loc, scale), (size, dimensions) = RELEASED, RELEASED_SIZE
        loc += math.log(width / dimensions) - math.log(math.log(vocab_size) / math.log(size))
        self.loc, self.scale, self.entropy = (
            nn.Parameter(torch.tensor(value)) for value in (loc, scale, math.log(vocab_size))
        )

    def forward(self, t: Tensor) -> Tensor:
        """gamma at the quantile t, float64, without a gradient: only `expected` moves the law."""
        return langflow_gamma(t, self.loc.detach(), self.scale.detach().clamp(min=SMALLEST_SCALE))

    def expected(self, gamma: Tensor) -> Tensor:
        """The cross-entropy the law expects at gamma."""
        scale = self.scale.double().clamp(min=SMALLEST_SCALE)
        return self.entropy.double() * torch.exp(-torch.exp(-(gamma - self.loc.double()) / scale))


class EmbeddingDenoiser(VectorDenoiser):
    """Reads z + W [z; previous prediction] and adds to the logits what z itself says about each category.

    `self_condition` is the last prediction as a vector (batch, length, width): the sampler has it at hand, and feeds it
    at its temperature, so the loop need not. `skip` scales the direct path, which training fades in.
    """

    def __init__(self, vocab_size: int, length: int, architecture: Architecture) -> None:
        super().__init__(vocab_size, length, replace(architecture, carry="none"))
        self.noise = GumbelSchedule(vocab_size, architecture.width)
        self.mixer = zero_linear(2 * architecture.width, architecture.width, bias=False)

    @property
    def carry(self) -> str:
        """LangFlow's networks always have a path for the mean of the last prediction."""
        return "mean"

    def rows(self) -> Tensor:
        return unit(self.table) * math.sqrt(self.table.shape[-1])

    def gamma(self, t: Tensor) -> Tensor:
        gamma: Tensor = self.noise(t)
        return gamma

    def level(self, t: Tensor) -> Tensor:
        return self.gamma(t)

    def multiply_adds(self, z: Tensor, **keywords: Any) -> int:
        """Those of the trunk, the mixer, and the direct path to the logits."""
        rows = linear_weights(self.mixer) + self.table.numel()
        return self.trunk.multiply_adds(z, loops=keywords.get("loops")) + z.shape[0] * z.shape[1] * rows

    def forward(  # type: ignore[override]  # it carries nothing hidden, and its logits have a path of their own
        self,
        z: Tensor,
        t: Tensor,
        *,
        given: Tensor | None = None,
        attend: Tensor | None = None,
        self_condition: Tensor | None = None,
        labels: Tensor | None = None,
        skip: float = 1.0,
        loops: int | None = None,
        every_loop: bool = False,
    ) -> Tensor:
        z = z.to(self.table.dtype)
        previous = torch.zeros_like(z) if self_condition is None else self_condition.to(z.dtype)
        mixed = z + self.mixer(torch.cat([z, previous], -1))
        options = {"given": given, "attend": attend, "labels": labels}
        logits = self.trunk(mixed, self.level(t), loops=loops, every_loop=every_loop, **options)
        factor = (skip * langflow_skip(self.gamma(t))).to(z.dtype)
        return logits + factor.reshape(-1, 1, 1) * (z @ self.rows().T)
