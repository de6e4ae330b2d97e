"""Transforms of a network's logits before any bridge sees them: temperature, nucleus."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

LogitTransform = Callable[[Tensor], Tensor]


def temperature(value: float) -> LogitTransform:
    """Divide logits by `value`; it enters x_hat, hence p_hat_t and p_hat_s alike, on every step."""
    if not value > 0:
        raise ValueError(f"temperature must be positive, got {value}")
    return lambda logits: logits / value


def nucleus(top_p: float) -> LogitTransform:
    """Keep the likeliest categories up to and with the one that takes their mass above `top_p`."""
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p must lie in (0, 1], got {top_p}")

    def transform(logits: Tensor) -> Tensor:
        ranked, order = torch.sort(logits, dim=-1, descending=True)
        mass = torch.softmax(ranked.double(), dim=-1)
        before = mass.cumsum(-1) - mass
        cut = torch.zeros_like(before, dtype=torch.bool).scatter(-1, order, before > top_p)
        return logits.masked_fill(cut, -torch.inf)

    return transform


def compose(*transforms: LogitTransform) -> LogitTransform:
    def transform(logits: Tensor) -> Tensor:
        for each in transforms:
            logits = each(logits)
        return logits

    return transform
