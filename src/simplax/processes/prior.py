"""The prior pi that tokens are noised towards."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Prior:
    """pi over `size` categories; `probs=None` is the uniform one."""

    size: int
    probs: Tensor | None = None

    def __post_init__(self) -> None:
        if self.probs is not None and not _is_positive_law(self.probs, self.size):
            raise ValueError(
                f"pi must hold one positive probability for each of {self.size} categories and sum to one"
            )

    def at(self, ids: Tensor) -> Tensor | float:
        return 1.0 / self.size if self.probs is None else self.probs.to(ids.device)[ids]

    def dense(self, like: Tensor) -> Tensor:
        if self.probs is None:
            return torch.full((self.size,), 1.0 / self.size, dtype=like.dtype, device=like.device)
        return self.probs.to(like)

    def draw(self, u: Tensor) -> Tensor:
        """Ids from pi by inverse CDF at the uniforms `u`."""
        if self.probs is None:
            return (u * self.size).long().clamp(max=self.size - 1)
        cumulative = self.probs.double().cumsum(0).to(u.device)
        return torch.searchsorted(cumulative, u.double() * cumulative[-1], right=True).clamp(
            max=self.size - 1
        )


def _is_positive_law(probs: Tensor, size: int) -> bool:
    if probs.shape != (size,):
        return False
    if (
        probs.device.type != "cpu"
    ):  # looking would wait for the device; what is stored there was looked at before
        return True
    return bool((probs > 0).all()) and abs(float(probs.double().sum()) - 1) < 1e-4
