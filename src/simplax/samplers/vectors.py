"""What deterministic flows of vectors share: N network calls, N - 1 moves, and the likeliest token of the last call."""

from __future__ import annotations

import abc
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from simplax.nn.network import Chain
from simplax.processes.prediction import Prediction
from simplax.processes.prior import Prior
from simplax.processes.vectors import VectorProcess
from simplax.random import Keys
from simplax.samplers.base import Sampler, Setting


@dataclass(frozen=True)
class VectorState:
    """`y` (batch, length, width) and the prediction of the last call, None before the first.

    `tokens` are random ones, and those of the given positions once some are. The likeliest tokens of a prediction are
    looked for when somebody reads them: along a chain nobody does, and over a large vocabulary it takes a while.
    """

    tokens: Tensor
    y: Tensor
    given: Tensor | None = None
    prediction: Prediction | None = None

    def rows(self, rows: Tensor) -> VectorState:
        """The states of some of the sequences."""
        given = None if self.given is None else self.given[rows]
        said = None if self.prediction is None else Prediction(self.prediction.logits[rows])
        return VectorState(self.tokens[rows], self.y[rows], given, said)


class VectorSampler(Sampler[VectorState], abc.ABC):
    """A chain on vectors. Given positions sit on their token's own vector, whatever the noise elsewhere."""

    decodes: ClassVar[bool] = True

    def target(self, y: Tensor, prediction: Prediction, process: VectorProcess, keys: Keys) -> Tensor:
        """What a step moves to: the mean of the categories' vectors under x_hat."""
        return prediction.mean(process.rows)

    def init(self, setting: Setting, keys: Keys) -> VectorState:
        tokens = Prior(setting.size).draw(keys.stream("tokens").uniform(setting.length))
        return VectorState(tokens, setting.process.start(setting.batch, setting.length, keys.stream("start")))

    def step(
        self, state: VectorState, network: Chain, t: Tensor, s: Tensor, setting: Setting, keys: Keys
    ) -> VectorState:
        y, prediction = self._call(state, network, t, setting)
        target = self.target(y, prediction, setting.process, keys.stream("target"))
        y = setting.process.towards(y, target, t, s)
        return replace(state, y=y, prediction=prediction)

    def pin(self, state: VectorState, tokens: Tensor, given: Tensor) -> VectorState:
        return replace(state, tokens=torch.where(given, tokens, state.tokens), given=given)

    def finish(
        self, state: VectorState, network: Chain, t: Tensor, setting: Setting, keys: Keys
    ) -> VectorState:
        _, prediction = self._call(state, network, t, setting)
        return replace(state, prediction=prediction)

    def tokens(self, state: VectorState) -> Tensor:
        if state.prediction is None:
            return state.tokens
        likeliest = state.prediction.logits.argmax(-1)
        return likeliest if state.given is None else torch.where(state.given, state.tokens, likeliest)

    def decoded(self, state: VectorState, prediction: Prediction, t: Tensor, setting: Setting) -> Tensor:
        return prediction.logits.argmax(-1)

    def _call(
        self, state: VectorState, network: Chain, t: Tensor, setting: Setting
    ) -> tuple[Tensor, Prediction]:
        y = state.y
        if state.given is not None:
            y = setting.process.clamp(y, state.tokens, state.given)
        return y, network.read(y, t)
