"""Psi samplers: predictor-corrector chains for uniform and for masked states (remasking), in one step rule.

A step draws from kappa q_s + (1 - kappa) (alpha_s q_0 + (1 - alpha_s) pi), where q_s and q_0 are the reverse posteriors
to s and to time zero. It is drawn as that mixture, with a coin per token, so no K-vector is built.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from torch import Tensor

from simplax.concentration import Concentration
from simplax.nn.network import Chain
from simplax.processes.base import Process
from simplax.processes.masked import MaskedProcess
from simplax.processes.uniform import UniformProcess
from simplax.random import Keys
from simplax.samplers.base import Sampler, Setting
from simplax.samplers.endings import ENDINGS, check_ending
from simplax.samplers.kappa import Fixed, FromEta, Kappa, Plateau
from simplax.times import Grid


@dataclass(frozen=True)
class PsiState:
    """`kappas` are those of the steps still to come."""

    z: Tensor
    kappas: Tensor


@dataclass(frozen=True)
class Psi(Sampler[PsiState]):
    """Predictor-corrector sampling with weights `kappa` on the grid `times`, for uniform and for masked noise.

    Draws from its own step law are exact. N network calls for N steps, one more with `last`. Were x_hat the clean
    token, every kappa would keep the marginals. With the exact predictor (leave-one-out for uniform noise) the chain
    tends to the data's law as N grows: as 1/N if a token is redrawn a fixed number of times in all (1 - kappa of order
    1/N, as `FromEta(PerToken(...))` arranges), and about as 1/sqrt(N) at a fixed kappa, because tokens redrawn in one
    step are drawn independently (orders measured on an enumerable problem).
    """

    undoes: ClassVar[tuple[type[Process], ...]] = (UniformProcess, MaskedProcess)
    bridges: ClassVar[bool] = True
    exactness: ClassVar[str] = (
        "exact draws; tends to the data's law, as 1/N for a fixed number of redraws in all"
    )

    kappa: Kappa = field(default_factory=Fixed)
    """how much of a step is the reverse posterior, the rest being redrawn: a number, or a rule"""
    times: Grid | Plateau = field(default_factory=Grid)
    last: str | None = None

    @staticmethod
    def modernised(stored: Mapping[str, Any]) -> dict[str, Any]:
        """Older versions stored the kind of noise, which is the model's."""
        return {name: value for name, value in stored.items() if name != "noise"}

    def __post_init__(self) -> None:
        check_ending(self.last)

    def grid(self, num_steps: int) -> Tensor:
        return self.times(num_steps)

    def init(self, setting: Setting, keys: Keys) -> PsiState:
        kappas = self.kappa(self.grid(setting.num_steps), setting.process.schedule, setting.num_steps)
        return PsiState(setting.process.start(setting.batch, setting.length, keys.stream("start")), kappas)

    def step(
        self, state: PsiState, network: Chain, t: Tensor, s: Tensor, setting: Setting, keys: Keys
    ) -> PsiState:
        process, z, kappa = setting.process, state.z, float(state.kappas[0])
        prediction = network.read(z, t)
        reverse = setting.bridge(z, prediction, t, s, keys.stream("bridge")) if kappa > 0 else z
        if kappa < 1:
            clean = setting.bridge(z, prediction, t, None, keys.stream("redraw"))
            again = process.corrupt(clean, s, keys.stream("corrupt"))
            reverse = torch.where(keys.stream("refresh").uniform(setting.length) < kappa, reverse, again)
        return PsiState(reverse, state.kappas[1:])

    def pin(self, state: PsiState, tokens: Tensor, given: Tensor) -> PsiState:
        return replace(state, z=torch.where(given, tokens, state.z))

    def finish(self, state: PsiState, network: Chain, t: Tensor, setting: Setting, keys: Keys) -> PsiState:
        if self.last is None:
            return state
        prediction = network.read(state.z, t)
        ending = ENDINGS[self.last](setting.process, state.z, prediction, t, keys.stream("ending"))
        return replace(state, z=ending)

    def tokens(self, state: PsiState) -> Tensor:
        return state.z


def marginal_reanchor(eta: float | Concentration = 0.01, **options: Any) -> Psi:
    """Re-anchoring that keeps marginals, our own alternative to Simplax's sampler on uniform-state models.

    As often as Simplax (with chance eta / (1 + eta) per step) a token starts afresh, but from the posterior of its
    clean value given the current state, noised to the new time, rather than from the previous step's prediction. So it
    corrects earlier mistakes at any eta and still tends to the data's law, where Simplax's sampler keeps a distance.
    N network calls for N steps.
    """
    return Psi(kappa=FromEta(eta), **options)
