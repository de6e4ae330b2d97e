"""Samples on their way between devices and processes."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from simplax.samplers.loop import Samples


def moved(samples: Samples, device: torch.device | str) -> Samples:
    """The same samples with their tensors on another device."""
    values: dict[str, Any] = {field.name: getattr(samples, field.name) for field in fields(samples)}
    moving = {name: value.to(device) for name, value in values.items() if isinstance(value, Tensor)}
    return Samples(**{**values, **moving})
