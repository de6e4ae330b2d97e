"""What deterministic flows of vectors share: N network calls, N - 1 moves, and the likeliest token of the last call."""

from __future__ import annotations

import abc
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor

from simplax.nn.vectors import VectorDenoiser
from simplax.processes.uniform import Prediction
from simplax.random import Keys
from simplax.samplers.base import Predict, Sampler, Setting


@dataclass(frozen=True)
class VectorState:
    """`tokens` are the likeliest ones of the last call, random before the first.

    `y` (batch, length, width) is drawn from `keys` at the first call, because its law depends on the network's table.
    `carry` is the last predicted mean, for networks that read it.
    """

    tokens: Tensor
    keys: Keys
    y: Tensor | None = None
    given: Tensor | None = None
    carry: Tensor | None = None


class VectorSampler(Sampler[VectorState], abc.ABC):
    """A chain on vectors. Given positions sit on their token's own vector, whatever the noise elsewhere."""

    def noise_kind(self) -> str:
        return "vectors"

    @abc.abstractmethod
    def start(self, denoiser: Any, length: int, keys: Keys) -> Tensor:
        """Noise (batch, length, width), float64."""

    @abc.abstractmethod
    def move(
        self, y: Tensor, prediction: Prediction, t: Tensor, s: Tensor, denoiser: Any, keys: Keys
    ) -> tuple[Tensor, Tensor | None]:
        """The vectors at s < t, and what to carry to the next call."""

    def context(self, state: VectorState) -> dict[str, Any]:
        """What a call is told besides vectors and time."""
        return {}

    def init(self, setting: Setting, keys: Keys) -> VectorState:
        return VectorState(setting.prior.draw(keys.fold_in(0).uniform(setting.length)), keys.fold_in(1))

    def step(
        self, state: VectorState, predict: Predict, t: Tensor, s: Tensor, setting: Setting, keys: Keys
    ) -> VectorState:
        y, prediction = self._call(state, predict, t, setting)
        y, carry = self.move(y, prediction, t, s, predict.denoiser, keys)
        return replace(state, y=y, carry=carry, tokens=prediction.logits.argmax(-1))

    def pin(self, state: VectorState, tokens: Tensor, given: Tensor) -> VectorState:
        return replace(state, tokens=torch.where(given, tokens, state.tokens), given=given)

    def finish(
        self, state: VectorState, predict: Predict, t: Tensor, setting: Setting, keys: Keys
    ) -> VectorState:
        _, prediction = self._call(state, predict, t, setting)
        return replace(state, tokens=prediction.logits.argmax(-1))

    def tokens(self, state: VectorState) -> Tensor:
        return state.tokens

    def _call(
        self, state: VectorState, predict: Predict, t: Tensor, setting: Setting
    ) -> tuple[Tensor, Prediction]:
        denoiser = table_of(predict)
        y = self.start(denoiser, setting.length, state.keys) if state.y is None else state.y
        if state.given is not None:
            own = denoiser.rows().double()[state.tokens.clamp(min=0)]
            y = torch.where(state.given.unsqueeze(-1), own, y)
        return y, predict(y, t, **self.context(state))


def table_of(predict: Predict) -> VectorDenoiser:
    """The network behind a call, which must have vectors of its own for the categories."""
    if not hasattr(predict.denoiser, "rows"):
        raise ValueError(
            "this sampler needs a denoiser with one vector per category: build it with the method it belongs to"
        )
    return cast(VectorDenoiser, predict.denoiser)
