"""UDLM's ancestral sampler, and what it shares with Simplax's: the bridge from an anchor, and the end of the chain."""

from __future__ import annotations

import abc
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor

from simplax.nn.network import Chain
from simplax.processes.base import Process
from simplax.processes.prediction import Prediction
from simplax.processes.simplex import Atoms, Dense
from simplax.processes.uniform import UniformProcess
from simplax.random import Keys
from simplax.samplers.base import Sampler, Setting
from simplax.samplers.endings import ENDINGS, check_ending
from simplax.times import Grid


@dataclass(frozen=True)
class UniformState:
    """`z` is what the network reads; `anchor` is the id the next bridge starts from; `w` the state if one is kept."""

    z: Tensor
    anchor: Tensor
    w: Atoms | Dense | None = None


@dataclass(frozen=True)
class AnchoredChain(Sampler[UniformState], abc.ABC):
    """A chain of uniform-state diffusion whose steps are bridges from an anchor."""

    undoes: ClassVar[tuple[type[Process], ...]] = (UniformProcess,)
    bridges: ClassVar[bool] = True

    times: Grid = field(default_factory=Grid, kw_only=True)
    last: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_ending(self.last)

    def grid(self, num_steps: int) -> Tensor:
        return self.times(num_steps)

    def init(self, setting: Setting, keys: Keys) -> UniformState:
        z = setting.process.start(setting.batch, setting.length, keys.stream("start"))
        return self.anchored(z, None, self.times.start, setting, keys.stream("anchor"))

    def step(
        self, state: UniformState, network: Chain, t: Tensor, s: Tensor, setting: Setting, keys: Keys
    ) -> UniformState:
        prediction = self._predict(state, network, t, setting)
        z = setting.bridge(state.anchor, prediction, t, s, keys.stream("bridge"))
        return self.anchored(z, prediction, float(s), setting, keys.stream("anchor"))

    def pin(self, state: UniformState, tokens: Tensor, given: Tensor) -> UniformState:
        return replace(
            state, z=torch.where(given, tokens, state.z), anchor=torch.where(given, tokens, state.anchor)
        )

    def finish(
        self, state: UniformState, network: Chain, t: Tensor, setting: Setting, keys: Keys
    ) -> UniformState:
        if self.last is None:
            return state
        prediction = self._predict(state, network, t, setting)
        ending = ENDINGS[self.last](setting.process, state.anchor, prediction, t, keys.stream("ending"))
        return replace(state, z=ending)

    def _predict(self, state: UniformState, network: Chain, t: Tensor, setting: Setting) -> Prediction:
        prediction = network.read(self.reads(state), t)
        if prediction.size != setting.size:
            raise ValueError(
                f"the denoiser gives {prediction.size} logits per position: vocab_size must be that, not "
                f"{setting.size}"
            )
        return prediction

    def tokens(self, state: UniformState) -> Tensor:
        return state.z

    def reads(self, state: UniformState) -> object:
        return state.z

    @abc.abstractmethod
    def anchored(
        self, z: Tensor, prediction: Prediction | None, time: float, setting: Setting, keys: Keys
    ) -> UniformState:
        """The state at `time` whose token is `z`, drawn by `prediction` (`None` at the start: the prior)."""


@dataclass(frozen=True)
class Ancestral(AnchoredChain):
    """UDLM's ancestral sampler: exact draws from the reverse posterior at x_hat; N network calls for N steps.

    With the exact leave-one-out predictor its law tends to the data's as 1/N.
    """

    exactness: ClassVar[str] = "exact draws; tends to the data's law as 1/N"

    def anchored(
        self, z: Tensor, prediction: Prediction | None, time: float, setting: Setting, keys: Keys
    ) -> UniformState:
        return UniformState(z, z)
