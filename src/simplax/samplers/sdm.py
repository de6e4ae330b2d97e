"""SDM's sampler: a chain of simplex states that keep a part of themselves from step to step."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor

from simplax.nn.network import Chain
from simplax.processes.base import Process
from simplax.processes.dirichlet import LogDense, Point, SimplexProcess, clamped, likeliest
from simplax.random import Keys
from simplax.samplers.base import Sampler, Setting
from simplax.times import Grid


@dataclass(frozen=True)
class PointState:
    """`w` is the simplex state, None once the chain has ended; `x` the tokens last drawn, which are the answer."""

    w: Point | None
    x: Tensor


@dataclass(frozen=True)
class SimplexChurn(Sampler[PointState]):
    """Draws clean tokens from the prediction and moves the state towards them, with churn `kappa`; N calls for N steps.

    The network predicts the posterior given the whole state. `kappa` = 1 forgets the old state and draws a new one
    around the tokens, as sticks where that is cheaper; at 0 as much of it is kept as the law allows. Draws from each
    step's law are exact, and given the clean tokens every kappa keeps the law of the state. With the exact posterior
    the chain tends to the data's law as N grows, the faster the smaller kappa is (measured on an enumerable problem).
    The tokens drawn last are the answer.
    """

    undoes: ClassVar[tuple[type[Process], ...]] = (SimplexProcess,)
    exactness: ClassVar[str] = "exact draws; tends to the data's law, more slowly the larger kappa is"

    kappa: float = 1.0
    """share of the state that a step forgets: 1 draws a new one around the predicted tokens"""
    times: Grid = field(default_factory=Grid, kw_only=True)

    def __post_init__(self) -> None:
        if not 0 <= self.kappa <= 1:
            raise ValueError(f"the churn kappa must lie in [0, 1], got {self.kappa}")

    def grid(self, num_steps: int) -> Tensor:
        return self.times(num_steps)

    def init(self, setting: Setting, keys: Keys) -> PointState:
        process: SimplexProcess = setting.process
        w = process.start(setting.batch, setting.length, keys.stream("start"))
        return PointState(w, likeliest(w))

    def step(
        self, state: PointState, network: Chain, t: Tensor, s: Tensor, setting: Setting, keys: Keys
    ) -> PointState:
        process: SimplexProcess = setting.process
        assert state.w is not None
        prediction = network.read(process.shown(state.w), t)
        x = prediction.draw_all(keys.stream("clean").uniform(setting.length))
        noise = keys.stream("state")
        w: Point
        if isinstance(state.w, LogDense) and self.kappa < 1:
            w = process.churn(state.w, x, t, s, self.kappa, noise)
        else:
            w = process.corrupt(x, s, noise)
        return PointState(w, x)

    def pin(self, state: PointState, tokens: Tensor, given: Tensor) -> PointState:
        w = None if state.w is None else clamped(state.w, tokens, given)
        return PointState(w, torch.where(given, tokens, state.x))

    def finish(
        self, state: PointState, network: Chain, t: Tensor, setting: Setting, keys: Keys
    ) -> PointState:
        return replace(state, w=None)

    def tokens(self, state: PointState) -> Tensor:
        return state.x if state.w is None else likeliest(state.w)
