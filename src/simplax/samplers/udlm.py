"""UDLM's ancestral sampler."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from simplax.nn.network import Chain
from simplax.processes.base import Process
from simplax.processes.uniform import UniformProcess
from simplax.random import Keys
from simplax.samplers.base import Setting
from simplax.samplers.chains import TokenChain, TokenState
from simplax.samplers.endings import check_ending
from simplax.times import Grid


@dataclass(frozen=True)
class Ancestral(TokenChain):
    """UDLM's ancestral sampler: exact draws from the reverse posterior at x_hat; N network calls for N steps.

    With the exact leave-one-out predictor its law tends to the data's as 1/N.
    """

    undoes: ClassVar[tuple[type[Process], ...]] = (UniformProcess,)
    exactness: ClassVar[str] = "exact draws; tends to the data's law as 1/N"

    times: Grid = field(default_factory=Grid, kw_only=True)
    last: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_ending(self.last)

    def init(self, setting: Setting, keys: Keys) -> TokenState:
        z = setting.process.start(setting.batch, setting.length, keys.stream("start"))
        return TokenState(z, z)

    def step(
        self, state: TokenState, network: Chain, t: Tensor, s: Tensor, setting: Setting, keys: Keys
    ) -> TokenState:
        prediction = self.predict(state, network, t, setting)
        z = setting.bridge(state.anchor, prediction, t, s, keys.stream("bridge"))
        return TokenState(z, z, number=state.number + 1)
