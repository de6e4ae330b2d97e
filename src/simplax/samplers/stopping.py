"""Early stops: a sequence whose answer no longer changes needs no more network calls."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from simplax.processes.prediction import Prediction


@dataclass(frozen=True)
class Settled:
    """Stop a sequence once `calls` calls in a row decode to the same tokens, and the last one is sure enough of them.

    Its answer is what they decode to. The rule looks at one sequence alone, so results do not depend on the others.
    It is a shortcut: the chain that goes on may still change its mind.
    """

    calls: int = 5
    """calls in a row whose decoded predictions agree"""
    confidence: float = 0.0
    """the least probability that any decoded token may have in the last of them"""

    def __post_init__(self) -> None:
        if self.calls < 2:
            raise ValueError(f"at least 2 calls must agree before a sequence stops, got {self.calls}")
        if not 0 <= self.confidence <= 1:
            raise ValueError(f"the confidence must lie between 0 and 1, got {self.confidence}")


@dataclass(frozen=True)
class Agreement:
    """How many calls in a row decoded to the same tokens, for each sequence."""

    decoded: Tensor | None = None
    count: Tensor | None = None

    def after(self, decoded: Tensor, free: Tensor) -> Agreement:
        """With one more call; only `free` positions count."""
        if self.decoded is None or self.count is None:
            return Agreement(decoded, torch.ones(len(decoded), dtype=torch.long, device=decoded.device))
        same = ((decoded == self.decoded) | ~free).all(-1)
        return Agreement(decoded, torch.where(same, self.count + 1, 1))

    def settled(self, rule: Settled, prediction: Prediction, free: Tensor) -> Tensor:
        """(batch,) which sequences may stop."""
        assert self.decoded is not None and self.count is not None
        enough = self.count >= rule.calls
        if rule.confidence <= 0:
            return enough
        sure = (prediction.at(self.decoded) >= rule.confidence) | ~free
        return enough & sure.all(-1)

    def rows(self, rows: Tensor) -> Agreement:
        assert self.decoded is not None and self.count is not None
        return replace(self, decoded=self.decoded[rows], count=self.count[rows])
