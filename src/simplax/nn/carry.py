"""What a network hands from one call to the next, so that its work survives the call.

*Probabilities*: the last prediction, as in Analog Bits (Chen et al. 2023). *Hidden*: the state of the last block,
before the head, which needs nothing K-sized (Jo et al. 2025 call it loopholing). *Mean*: the mean vector of the
prediction, as LangFlow's networks read it. In all of them an empty carry is zero, and training reads the
carry of a first call on the same state and time, without gradient.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from simplax.processes.prediction import Prediction


@dataclass(frozen=True)
class Carry:
    """Nothing is carried. `keyword` is how the denoiser takes it, `share` how many training samples read a first call.

    `tempered`: it is made from the transformed logits. `hidden`: it is not made from logits at all. `request` are the
    keywords that make the denoiser return it.
    """

    keyword: str = ""
    share: float = 0.0
    tempered: bool = False
    hidden: bool = False
    request: dict[str, bool] = field(default_factory=dict)

    @property
    def carries(self) -> bool:
        return bool(self.keyword)

    def after(self, logits: Tensor, hidden: Tensor | None, denoiser: Any) -> Tensor | None:
        """What a call with these results leaves to the next."""
        return None

    def where(self, chosen: Tensor, carried: Tensor | None) -> Tensor | None:
        """The carry of the chosen samples, an empty one for the others."""
        return None if carried is None else carried * chosen.to(carried).view(-1, *(1,) * (carried.dim() - 1))


@dataclass(frozen=True)
class Probabilities(Carry):
    """The last prediction, raw: temperature and nucleus are the sampler's and no part of what the network said."""

    keyword: str = "self_condition"
    share: float = 0.5

    def after(self, logits: Tensor, hidden: Tensor | None, denoiser: Any) -> Tensor | None:
        return torch.softmax(logits, dim=-1)


@dataclass(frozen=True)
class Hidden(Carry):
    """The hidden state after the last block."""

    keyword: str = "carry"
    share: float = 0.9
    hidden: bool = True
    request: dict[str, bool] = field(default_factory=lambda: {"give_carry": True})

    def after(self, logits: Tensor, hidden: Tensor | None, denoiser: Any) -> Tensor | None:
        return hidden


@dataclass(frozen=True)
class Mean(Carry):
    """The mean of the network's own vectors under the last prediction, at the sampler's temperature."""

    keyword: str = "self_condition"
    share: float = 0.25
    tempered: bool = True

    def after(self, logits: Tensor, hidden: Tensor | None, denoiser: Any) -> Tensor | None:
        return Prediction(logits).mean(denoiser.rows())


CARRIES: dict[str, Carry] = {
    "none": Carry(),
    "probabilities": Probabilities(),
    "hidden": Hidden(),
    "mean": Mean(),
}


def carry_of(denoiser: Any) -> Carry:
    """What `denoiser` carries: its attribute `carry`; foreign networks may just say `self_conditioning = True`."""
    name = getattr(denoiser, "carry", None)
    if isinstance(name, str):
        return CARRIES[name]
    return CARRIES["probabilities" if getattr(denoiser, "self_conditioning", False) else "none"]
