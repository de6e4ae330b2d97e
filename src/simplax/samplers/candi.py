"""CANDI's cached sampler: tokens are drawn and revealed, while noisy vectors of the others move in embedding space."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor

from simplax.nn.network import Chain
from simplax.processes.base import Process
from simplax.processes.hybrid import Hybrid, HybridProcess, newly_revealed
from simplax.processes.prior import Prior
from simplax.random import Keys
from simplax.samplers.base import Sampler, Setting
from simplax.times import Grid


@dataclass(frozen=True)
class HybridState:
    """`z` are the tokens, of which `revealed` ones stay; `cache` (batch, length, width) the vectors of all."""

    z: Tensor
    revealed: Tensor
    cache: Tensor


@dataclass(frozen=True)
class CachedHybrid(Sampler[HybridState]):
    """Draws all hidden tokens, moves their vectors towards the draws, and reveals each with chance dt / t.

    N network calls for N steps. Tokens are draws from x_hat, so temperature divides the logits they are drawn from and
    is the only control over how sharp samples are. As published, the input is scaled for the noise after the step and
    the network conditioned on the time before it; the noise starts at the published, moderate level of t = 0.999.
    """

    undoes: ClassVar[tuple[type[Process], ...]] = (HybridProcess,)
    exactness: ClassVar[str] = "approximate; no law is claimed"

    times: Grid = field(default_factory=lambda: Grid(0.999, 1e-5), kw_only=True)

    def __post_init__(self) -> None:
        if self.times.power != 1:
            raise ValueError("CANDI reveals tokens as often as an even grid requires: its time power is 1")

    def grid(self, num_steps: int) -> Tensor:
        return self.times(num_steps)

    def init(self, setting: Setting, keys: Keys) -> HybridState:
        process: HybridProcess = setting.process
        z = Prior(setting.size).draw(keys.stream("tokens").uniform(setting.length))
        first = process.network.sigma(torch.tensor(self.times.start, dtype=torch.float64))
        noise = process.start(setting.batch, setting.length, keys.stream("start"))
        return HybridState(z, torch.zeros_like(z, dtype=torch.bool), first * noise)

    def step(
        self, state: HybridState, network: Chain, t: Tensor, s: Tensor, setting: Setting, keys: Keys
    ) -> HybridState:
        process: HybridProcess = setting.process
        vectors = process.clamp(state.cache, state.z, state.revealed)
        prediction = network.read(Hybrid(vectors, state.revealed, process.network.sigma(s)), t)
        u = keys.stream("draw").uniform(setting.length)
        z = prediction.draw(~state.revealed, u, otherwise=state.z)
        fresh = newly_revealed(setting.length, t, setting.num_steps, keys.stream("reveal"))
        return HybridState(z, state.revealed | fresh, process.towards(state.cache, process.clean(z), t, s))

    def pin(self, state: HybridState, tokens: Tensor, given: Tensor) -> HybridState:
        return replace(state, z=torch.where(given, tokens, state.z), revealed=state.revealed | given)

    def finish(
        self, state: HybridState, network: Chain, t: Tensor, setting: Setting, keys: Keys
    ) -> HybridState:
        return state

    def tokens(self, state: HybridState) -> Tensor:
        return state.z
