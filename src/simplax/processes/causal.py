"""No noise at all: sequences written from left to right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from simplax.processes.base import Process
from simplax.processes.prior import Prior
from simplax.schedules import Schedule


@dataclass(frozen=True)
class CausalProcess(Process):
    """One token after another; a network that never sees a time."""

    name: ClassVar[str] = "nothing: it writes from left to right"

    categories: int

    @property
    def size(self) -> int:
        return self.categories

    @classmethod
    def around(cls, denoiser: Any, schedule: Schedule | None, prior: Prior) -> CausalProcess:
        return cls(prior.size)
