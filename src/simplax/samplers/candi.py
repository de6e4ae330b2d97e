"""CANDI's cached sampler: tokens are drawn and revealed, while noisy vectors of the others move in embedding space."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import cast

import torch
from torch import Tensor

from simplax.nn.onehot import Hybrid, HybridDenoiser
from simplax.processes.hybrid import cached_step, newly_revealed
from simplax.processes.onehot import projected_noise
from simplax.random import Keys
from simplax.samplers.base import Predict, Sampler, Setting
from simplax.samplers.vectors import table_of
from simplax.times import Grid


@dataclass(frozen=True)
class HybridState:
    """`z` are the tokens, of which `revealed` ones stay; `cache` (batch, length, width) is drawn at the first call."""

    z: Tensor
    revealed: Tensor
    keys: Keys
    cache: Tensor | None = None


@dataclass(frozen=True)
class CachedHybrid(Sampler[HybridState]):
    """Draws all hidden tokens, moves their vectors towards the draws, and reveals each with chance dt / t.

    N network calls for N steps. Tokens are draws from x_hat, so temperature divides the logits they are drawn from and
    is the only control over how sharp samples are. As published, the input is scaled for the noise after the step and
    the network told the time before it; the noise starts at the published, moderate level of t = 0.999.
    """

    times: Grid = field(default_factory=lambda: Grid(0.999, 1e-5), kw_only=True)

    def __post_init__(self) -> None:
        if self.times.power != 1:
            raise ValueError("CANDI reveals tokens as often as an even grid asks for: its time power is 1")

    def noise_kind(self) -> str:
        return "vectors"

    def grid(self, num_steps: int) -> Tensor:
        return self.times(num_steps)

    def init(self, setting: Setting, keys: Keys) -> HybridState:
        z = setting.prior.draw(keys.fold_in(0).uniform(setting.length))
        return HybridState(z, torch.zeros_like(z, dtype=torch.bool), keys.fold_in(1))

    def step(
        self, state: HybridState, predict: Predict, t: Tensor, s: Tensor, setting: Setting, keys: Keys
    ) -> HybridState:
        denoiser = cast(HybridDenoiser, table_of(predict))
        rows = denoiser.rows().double()
        sigma_t, sigma_s = denoiser.sigma(t), denoiser.sigma(s)
        cache = state.cache
        if cache is None:
            cache = sigma_t * projected_noise(rows, setting.length, state.keys)
        vectors = torch.where(state.revealed.unsqueeze(-1), rows[state.z], cache)
        prediction = predict(Hybrid(vectors, state.revealed, sigma_s), t)
        hidden = ~state.revealed
        z = state.z.clone()
        z[hidden] = prediction.draw(hidden, keys.fold_in(0).uniform(setting.length))
        return replace(
            state,
            z=z,
            cache=cached_step(cache, rows[z], sigma_t, sigma_s),
            revealed=state.revealed | newly_revealed(setting.length, t, setting.num_steps, keys.fold_in(1)),
        )

    def pin(self, state: HybridState, tokens: Tensor, given: Tensor) -> HybridState:
        return replace(state, z=torch.where(given, tokens, state.z), revealed=state.revealed | given)

    def finish(
        self, state: HybridState, predict: Predict, t: Tensor, setting: Setting, keys: Keys
    ) -> HybridState:
        return state

    def tokens(self, state: HybridState) -> Tensor:
        return state.z
