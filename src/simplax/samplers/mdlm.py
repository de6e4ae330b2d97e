"""Samplers of masked diffusion: ancestral by the two-stage form, and first hitting.

Which masks are lifted in a step is decided before the network is called, so it is called only on sequences in which one
is: no prediction is computed twice, or computed and not used, and this is exact whether or not the network sees the
time. Their count of network calls is the mean over sequences (`Samples.nfe`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor

from simplax.nn.network import Chain
from simplax.processes.base import Process
from simplax.processes.masked import MaskedProcess
from simplax.processes.prediction import Prediction
from simplax.random import Keys
from simplax.samplers.base import Sampler, Setting
from simplax.samplers.endings import ENDINGS, check_ending
from simplax.times import Grid

Fill = Callable[[Tensor, Tensor, Prediction, Tensor], Tensor]


@dataclass(frozen=True)
class MaskedState:
    """`clock` (batch,) is 1 - alpha at each sequence's own time, for first hitting."""

    z: Tensor
    clock: Tensor | None = None


@dataclass(frozen=True)
class MaskedAncestral(Sampler[MaskedState]):
    """Ancestral sampling of masked diffusion: exact draws from the reverse posterior at x_hat.

    A sequence costs one network call for every step that lifts at least one of its masks: at most N for N steps, and
    at most L; one more if `last` finds masks. With the exact predictor the law tends to the data's as 1/N: masks
    lifted in one step are drawn independently. The published end is `times=Grid(end=1e-5), last="greedy"`.
    """

    undoes: ClassVar[tuple[type[Process], ...]] = (MaskedProcess,)
    bridges: ClassVar[bool] = True
    exactness: ClassVar[str] = "exact draws; tends to the data's law as 1/N"

    times: Grid = field(default_factory=Grid, kw_only=True)
    last: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_ending(self.last)

    def grid(self, num_steps: int) -> Tensor:
        return self.times(num_steps)

    def init(self, setting: Setting, keys: Keys) -> MaskedState:
        return MaskedState(setting.process.start(setting.batch, setting.length, keys))

    def step(
        self, state: MaskedState, network: Chain, t: Tensor, s: Tensor, setting: Setting, keys: Keys
    ) -> MaskedState:
        process: MaskedProcess = setting.process
        if (
            setting.guide is not None and setting.guide.tilts_steps
        ):  # then it also decides which masks are lifted
            return MaskedState(setting.bridge(state.z, network.read(state.z, t), t, s, keys.stream("guided")))
        where = process.lifted(state.z, t, s, keys.stream("lift"))
        return MaskedState(refill(state.z, where, network, t, keys.stream("fill"), process.fill))

    def pin(self, state: MaskedState, tokens: Tensor, given: Tensor) -> MaskedState:
        return replace(state, z=torch.where(given, tokens, state.z))

    def finish(
        self, state: MaskedState, network: Chain, t: Tensor, setting: Setting, keys: Keys
    ) -> MaskedState:
        if self.last is None:
            return state
        process, ending, keys = setting.process, ENDINGS[self.last], keys.stream("ending")

        def decide(z: Tensor, where: Tensor, prediction: Prediction, u: Tensor) -> Tensor:
            if self.last == "posterior":
                filled: Tensor = process.fill(z, where, prediction, u)
                return filled
            return ending(process, z, prediction, t, keys)

        return MaskedState(refill(state.z, state.z == process.mask_id, network, t, keys, decide))

    def tokens(self, state: MaskedState) -> Tensor:
        return state.z


@dataclass(frozen=True)
class FirstHitting(Sampler[MaskedState]):
    """The first-hitting sampler (Zheng et al. 2025): jump to the next time at which a mask is lifted, lift that one.

    With n masks left the next time has 1 - alpha' = (1 - alpha) u^(1/n), the position is uniform among them, and the
    token is drawn from x_hat there. No time is discretised and no two tokens are drawn from one prediction: with the
    exact predictor the samples are exact, also for networks that see the time. One network call per masked position.
    """

    undoes: ClassVar[tuple[type[Process], ...]] = (MaskedProcess,)
    exactness: ClassVar[str] = "exact, without a grid of times; a perfect network gives the data's law"

    def steps_for(self, length: int) -> int:
        return length

    def grid(self, num_steps: int) -> Tensor:
        """Nominal: every sequence keeps its own clock."""
        return Grid()(num_steps)

    def init(self, setting: Setting, keys: Keys) -> MaskedState:
        z = setting.process.start(setting.batch, setting.length, keys)
        return MaskedState(
            z, 1 - setting.process.schedule.alpha(torch.ones(len(z), dtype=torch.float64, device=z.device))
        )

    def step(
        self, state: MaskedState, network: Chain, t: Tensor, s: Tensor, setting: Setting, keys: Keys
    ) -> MaskedState:
        process: MaskedProcess = setting.process
        masked = state.z == process.mask_id
        left = masked.sum(-1)
        u = keys.stream("clock").uniform(2)
        assert state.clock is not None
        clock = state.clock * torch.exp(torch.log(u[:, 0]) / left.clamp(min=1))
        rank = (u[:, 1] * left).long()
        chosen = masked & (masked.cumsum(-1) - 1 == rank.unsqueeze(-1))
        times = process.schedule.inverse(1 - clock)
        return MaskedState(refill(state.z, chosen, network, times, keys.stream("fill"), process.fill), clock)

    def pin(self, state: MaskedState, tokens: Tensor, given: Tensor) -> MaskedState:
        return replace(state, z=torch.where(given, tokens, state.z))

    def finish(
        self, state: MaskedState, network: Chain, t: Tensor, setting: Setting, keys: Keys
    ) -> MaskedState:
        return state

    def tokens(self, state: MaskedState) -> Tensor:
        return state.z


def refill(z: Tensor, where: Tensor, network: Chain, t: Tensor, keys: Keys, fill: Fill) -> Tensor:
    """`z` with the positions `where` filled in, calling the network on the sequences that have such positions.

    Other sequences neither count as called nor carry anything on: a sample never depends on its batch companions. On
    devices that would wait to count them, the whole batch is read and the same sequences change.
    """
    u, busy = keys.uniform(z.shape[1]), where.any(-1)
    if z.device.type != "cpu":
        return fill(z, where, network.read(z, t, busy=busy), u)
    rows = busy.nonzero().squeeze(-1)
    if not len(rows):
        return z
    if len(rows) == len(z):
        return fill(z, where, network.read(z, t), u)
    prediction = network.read(z[rows], t[rows] if t.dim() else t, rows=rows)
    return z.index_copy(0, rows, fill(z[rows], where[rows], prediction, u[rows]))
