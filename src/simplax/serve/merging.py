"""Network calls of several requests as one call on a larger batch."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class Call:
    """One call of `denoiser` that somebody waits for: its state and time and the keywords that go with them."""

    denoiser: nn.Module
    state: Any
    t: Tensor | None
    keywords: dict[str, Any]

    def batch(self) -> int:
        return len(self.state) if isinstance(self.state, Tensor) else 1

    def key(self) -> Hashable:
        """Calls with the same key may be made as one; what is not a tensor over the batch travels alone."""
        rows = self.batch()
        parts: list[Hashable] = [id(self.denoiser)]
        for name, value in [("state", self.state), ("t", self.t), *sorted(self.keywords.items())]:
            if isinstance(value, Tensor) and value.dim() and len(value) == rows:
                parts.append((name, value.shape[1:], value.dtype))
            elif value is None or isinstance(value, bool):
                parts.append((name, value))
            else:
                return id(self)
        return tuple(parts)


def call_together(calls: Sequence[Call]) -> list[Any]:
    """The result of each call, made as one; all have the same key."""
    first = calls[0]
    if len(calls) == 1:
        return [first.denoiser(first.state, first.t, **first.keywords)]
    keywords = {name: _joined([call.keywords[name] for call in calls]) for name in first.keywords}
    result = first.denoiser(
        _joined([call.state for call in calls]), _joined([call.t for call in calls]), **keywords
    )
    return _split(result, [call.batch() for call in calls])


def _joined(values: Sequence[Any]) -> Any:
    return torch.cat(list(values)) if isinstance(values[0], Tensor) else values[0]


def _split(result: Any, sizes: list[int]) -> list[Any]:
    if isinstance(result, tuple):
        return list(zip(*(_split(part, sizes) for part in result)))
    return list(result.split(sizes))
