"""Samplers of masked diffusion: ancestral by the two-stage form, and first hitting.

Which masks are lifted in a step is decided before the network is asked, so it is asked only about sequences in which
one is: no prediction is computed twice, or computed and not used, and this is exact whether or not the network sees
the time. Their count of network calls is the mean over sequences (`Samples.nfe`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from simplax.processes.masked import fill, fill_greedily, lifted
from simplax.processes.uniform import Prediction
from simplax.random import Keys
from simplax.samplers.base import Predict, Sampler, Setting
from simplax.times import Grid


@dataclass(frozen=True)
class MaskedState:
    """`clock` (batch,) is 1 - alpha at each sequence's own time, for first hitting."""

    z: Tensor
    clock: Tensor | None = None


Fill = Callable[[Tensor, Tensor, Prediction, int, Tensor], Tensor]
FINISHES: dict[str, Fill] = {"greedy": fill_greedily, "posterior": fill}
"""What becomes of masks left at the end: the likeliest token, or a draw from x_hat (the ancestral end)."""


@dataclass(frozen=True)
class MaskedAncestral(Sampler[MaskedState]):
    """Ancestral sampling of masked diffusion: exact draws from the reverse posterior at x_hat.

    A sequence costs one network call for every step that lifts at least one of its masks: at most N for N steps, and
    at most L; one more if `last` finds masks. With the exact predictor the law tends to the data's as 1/N: masks
    lifted in one step are drawn independently. The published end is `times=Grid(end=1e-5), last="greedy"`.
    """

    times: Grid = field(default_factory=Grid, kw_only=True)
    last: str | None = field(default=None, kw_only=True)

    def noise_kind(self) -> str:
        return "masked"

    def __post_init__(self) -> None:
        if self.last is not None and self.last not in FINISHES:
            raise ValueError(
                f"unknown end of the chain {self.last!r}: choose one of {', '.join(FINISHES)}, or None"
            )

    def grid(self, num_steps: int) -> Tensor:
        return self.times(num_steps)

    def init(self, setting: Setting, keys: Keys) -> MaskedState:
        return MaskedState(all_masks(setting, keys))

    def step(
        self, state: MaskedState, predict: Predict, t: Tensor, s: Tensor, setting: Setting, keys: Keys
    ) -> MaskedState:
        mask_id = setting.prior.size
        where = lifted(state.z, setting.alpha(s), setting.alpha(t), mask_id, keys.fold_in(0))
        return MaskedState(refill(state.z, where, predict, t, mask_id, keys.fold_in(1)))

    def pin(self, state: MaskedState, tokens: Tensor, given: Tensor) -> MaskedState:
        return replace(state, z=torch.where(given, tokens, state.z))

    def finish(
        self, state: MaskedState, predict: Predict, t: Tensor, setting: Setting, keys: Keys
    ) -> MaskedState:
        if self.last is None:
            return state
        mask_id = setting.prior.size
        fill_in = FINISHES[self.last]
        return MaskedState(refill(state.z, state.z == mask_id, predict, t, mask_id, keys, fill_in))

    def tokens(self, state: MaskedState) -> Tensor:
        return state.z


@dataclass(frozen=True)
class FirstHitting(Sampler[MaskedState]):
    """The first-hitting sampler (Zheng et al. 2025): jump to the next time at which a mask is lifted, lift that one.

    With n masks left the next time has 1 - alpha' = (1 - alpha) u^(1/n), the position is uniform among them, and the
    token is drawn from x_hat there. No time is discretised and no two tokens are drawn from one prediction: with the
    exact predictor the samples are exact, also for networks that see the time. One network call per masked position.
    """

    def noise_kind(self) -> str:
        return "masked"

    def steps_for(self, length: int) -> int:
        return length

    def grid(self, num_steps: int) -> Tensor:
        """Nominal: every sequence keeps its own clock."""
        return Grid()(num_steps)

    def init(self, setting: Setting, keys: Keys) -> MaskedState:
        z = all_masks(setting, keys)
        return MaskedState(z, 1 - setting.alpha(torch.ones(len(z), dtype=torch.float64, device=z.device)))

    def step(
        self, state: MaskedState, predict: Predict, t: Tensor, s: Tensor, setting: Setting, keys: Keys
    ) -> MaskedState:
        mask_id = setting.prior.size
        masked = state.z == mask_id
        left = masked.sum(-1)
        u = keys.fold_in(0).uniform(2)
        assert state.clock is not None
        clock = state.clock * torch.exp(torch.log(u[:, 0]) / left.clamp(min=1))
        rank = (u[:, 1] * left).long()
        chosen = masked & (masked.cumsum(-1) - 1 == rank.unsqueeze(-1))
        times = setting.schedule.inverse(1 - clock)
        return MaskedState(refill(state.z, chosen, predict, times, mask_id, keys.fold_in(1)), clock)

    def pin(self, state: MaskedState, tokens: Tensor, given: Tensor) -> MaskedState:
        return replace(state, z=torch.where(given, tokens, state.z))

    def finish(
        self, state: MaskedState, predict: Predict, t: Tensor, setting: Setting, keys: Keys
    ) -> MaskedState:
        return state

    def tokens(self, state: MaskedState) -> Tensor:
        return state.z


def all_masks(setting: Setting, keys: Keys) -> Tensor:
    """The start of every masked chain."""
    return torch.full((setting.batch, setting.length), setting.prior.size, device=keys.state.device)


def refill(
    z: Tensor, where: Tensor, predict: Predict, t: Tensor, mask_id: int, keys: Keys, fill_in: Fill = fill
) -> Tensor:
    """`z` with the positions `where` filled in, asking the network about the sequences that have such positions."""
    rows = where.any(-1).nonzero().squeeze(-1)
    u = keys.uniform(z.shape[1])
    if not len(rows):
        return z
    if len(rows) == len(z) or predict.self_conditioning:
        return fill_in(z, where, predict(z, t), mask_id, u)
    prediction = predict(z[rows], t[rows] if t.dim() else t, rows=rows)
    return z.index_copy(0, rows, fill_in(z[rows], where[rows], prediction, mask_id, u[rows]))
