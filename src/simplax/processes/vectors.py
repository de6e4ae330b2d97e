"""What processes on vectors share: one vector per category, which the network owns."""

from __future__ import annotations

import abc
import functools
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from simplax.processes.base import Process
from simplax.processes.prior import Prior
from simplax.random import Keys
from simplax.schedules import Schedule

Own = TypeVar("Own", bound="VectorProcess")


@dataclass(frozen=True, eq=False)
class VectorProcess(Process, abc.ABC):
    """States are vectors (batch, length, width). The table of categories and the noise levels live in the network.

    A process is made anew for every loss and every chain: it reads the table once.
    """

    network: Any

    @property
    def size(self) -> int:
        return int(self.network.output_size)

    @classmethod
    def around(cls: type[Own], denoiser: Any, schedule: Schedule | None, prior: Prior) -> Own:
        if not hasattr(denoiser, "rows"):
            raise ValueError(
                "this sampler needs a denoiser with one vector per category: build it with the method it belongs to"
            )
        return cls(denoiser)

    @functools.cached_property
    def rows(self) -> Tensor:
        """(K, width), in the network's precision."""
        rows: Tensor = self.network.rows()
        return rows

    def clean(self, tokens: Tensor) -> Tensor:
        """The vectors of tokens (batch, length)."""
        return torch.nn.functional.embedding(tokens, self.rows)

    def clamp(self, vectors: Tensor, tokens: Tensor, given: Tensor) -> Tensor:
        """`vectors` with given positions on their token's own vector, whatever the noise elsewhere."""
        own = self.clean(tokens.clamp(min=0)).to(vectors.dtype)
        return torch.where(given.unsqueeze(-1), own, vectors)

    @abc.abstractmethod
    def start(self, batch: int, length: int, keys: Keys) -> Tensor:
        """Noise, float64."""

    @abc.abstractmethod
    def corrupt(self, x: Tensor, t: Tensor, keys: Keys) -> Tensor:
        """The noisy vectors of ids `x` at times `t` (batch,), differentiable in the table."""

    @abc.abstractmethod
    def towards(self, y: Tensor, mean: Tensor, t: Tensor, s: Tensor) -> Tensor:
        """The state at s < t on the way from `y` to the predicted `mean`, float64."""


def unit(vectors: Tensor) -> Tensor:
    """Rows of norm one."""
    return torch.nn.functional.normalize(vectors, dim=-1)
