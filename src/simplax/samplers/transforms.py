"""Transforms of a network's logits before any bridge sees them: temperature, nucleus."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from simplax.errors import UserError
from simplax.functional.sampling import outside_nucleus
from simplax.nn.network import LogitTransform

_COLDEST = 1e-20  # below it logits overflow


def check_temperature(value: float) -> None:
    if not _COLDEST <= value < math.inf:
        raise UserError(f"the temperature must be positive (at least {_COLDEST:g}) and finite, got {value}.")


def temperature(value: float) -> LogitTransform:
    """Divide logits by `value`; it enters x_hat, hence p_hat_t and p_hat_s alike, on every step."""
    check_temperature(value)
    return lambda logits: logits / value


def nucleus(top_p: float) -> LogitTransform:
    """`functional.nucleus` on logits: what it leaves out becomes impossible."""
    if not 0 < top_p <= 1:
        raise ValueError(f"top_p must lie in (0, 1], got {top_p}")
    return lambda logits: logits.masked_fill(
        outside_nucleus(torch.softmax(logits, dim=-1), top_p), -torch.inf
    )


def compose(*transforms: LogitTransform) -> LogitTransform:
    def transform(logits: Tensor) -> Tensor:
        for each in transforms:
            logits = each(logits)
        return logits

    return transform
