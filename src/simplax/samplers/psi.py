"""Psi samplers: predictor-corrector chains for uniform and for masked states (remasking), in one step rule.

A step draws from kappa q_s + (1 - kappa) (alpha_s q_0 + (1 - alpha_s) pi), where q_s and q_0 are the reverse posteriors
to s and to time zero. It is drawn as that mixture, with a coin per token, so no K-vector is built.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from simplax.concentration import Concentration
from simplax.processes import masked, uniform
from simplax.processes.uniform import Prediction
from simplax.random import Keys
from simplax.samplers.base import Predict, Sampler, Setting
from simplax.samplers.kappa import Fixed, FromEta, Kappa, Plateau
from simplax.samplers.masked import all_masks
from simplax.times import Grid


class Noise(abc.ABC):
    """What a psi step needs of a corruption process."""

    @abc.abstractmethod
    def start(self, setting: Setting, keys: Keys) -> Tensor: ...

    @abc.abstractmethod
    def corrupt(self, x: Tensor, alpha: Tensor, setting: Setting, keys: Keys) -> Tensor: ...

    @abc.abstractmethod
    def bridge(
        self,
        z: Tensor,
        prediction: Prediction,
        alpha_s: Tensor,
        alpha_t: Tensor,
        setting: Setting,
        keys: Keys,
    ) -> Tensor: ...

    @abc.abstractmethod
    def greedy(self, z: Tensor, prediction: Prediction, setting: Setting) -> Tensor: ...


class _Uniform(Noise):
    def start(self, setting: Setting, keys: Keys) -> Tensor:
        return setting.prior.draw(keys.uniform(setting.length))

    def corrupt(self, x: Tensor, alpha: Tensor, setting: Setting, keys: Keys) -> Tensor:
        return uniform.corrupt(x, alpha, setting.prior, keys)

    def bridge(
        self,
        z: Tensor,
        prediction: Prediction,
        alpha_s: Tensor,
        alpha_t: Tensor,
        setting: Setting,
        keys: Keys,
    ) -> Tensor:
        return uniform.draw_bridge(z, prediction, alpha_s, alpha_t, setting.prior, keys)

    def greedy(self, z: Tensor, prediction: Prediction, setting: Setting) -> Tensor:
        return prediction.logits.argmax(-1)


class _Masked(Noise):
    def start(self, setting: Setting, keys: Keys) -> Tensor:
        return all_masks(setting, keys)

    def corrupt(self, x: Tensor, alpha: Tensor, setting: Setting, keys: Keys) -> Tensor:
        return masked.corrupt(x, alpha, setting.prior.size, keys)

    def bridge(
        self,
        z: Tensor,
        prediction: Prediction,
        alpha_s: Tensor,
        alpha_t: Tensor,
        setting: Setting,
        keys: Keys,
    ) -> Tensor:
        return masked.draw_bridge(z, prediction, alpha_s, alpha_t, setting.prior.size, keys)

    def greedy(self, z: Tensor, prediction: Prediction, setting: Setting) -> Tensor:
        mask_id = setting.prior.size
        return masked.fill_greedily(z, z == mask_id, prediction, mask_id, torch.empty(0))


NOISES: dict[str, Noise] = {"uniform": _Uniform(), "masked": _Masked()}


@dataclass(frozen=True)
class PsiState:
    """`kappas` are those of the steps still to come."""

    z: Tensor
    kappas: Tensor


@dataclass(frozen=True)
class Psi(Sampler[PsiState]):
    """Predictor-corrector sampling with weights `kappa` on the grid `times`; `noise` is the model's kind of noise.

    Draws from its own step law are exact. N network calls for N steps, one more with `last`. Were x_hat the clean
    token, every kappa would keep the marginals. With the exact predictor (leave-one-out for uniform noise) the chain
    tends to the data's law as N grows: as 1/N if a token is redrawn a fixed number of times in all (1 - kappa of order
    1/N, as `FromEta(PerToken(...))` arranges), and about as 1/sqrt(N) at a fixed kappa, because tokens redrawn in one
    step are drawn independently (orders measured on an enumerable problem).
    """

    noise: str = "uniform"
    kappa: Kappa = field(default_factory=Fixed)
    times: Grid | Plateau = field(default_factory=Grid)
    last: str | None = None

    def noise_kind(self) -> str:
        return self.noise

    def __post_init__(self) -> None:
        if self.noise not in NOISES:
            raise ValueError(f"unknown kind of noise {self.noise!r}: choose one of {', '.join(NOISES)}")
        if self.last not in (None, "greedy", "posterior"):
            raise ValueError(f"unknown end of the chain {self.last!r}: choose greedy, posterior or None")

    def grid(self, num_steps: int) -> Tensor:
        return self.times(num_steps)

    def init(self, setting: Setting, keys: Keys) -> PsiState:
        kappas = self.kappa(self.grid(setting.num_steps), setting.schedule, setting.num_steps)
        return PsiState(NOISES[self.noise].start(setting, keys), kappas)

    def step(
        self, state: PsiState, predict: Predict, t: Tensor, s: Tensor, setting: Setting, keys: Keys
    ) -> PsiState:
        noise, z, kappa = NOISES[self.noise], state.z, float(state.kappas[0])
        prediction = predict(z, t)
        alpha_s, alpha_t = setting.alpha(s), setting.alpha(t)
        reverse = noise.bridge(z, prediction, alpha_s, alpha_t, setting, keys.fold_in(0)) if kappa > 0 else z
        if kappa < 1:
            clean = noise.bridge(z, prediction, torch.ones_like(alpha_t), alpha_t, setting, keys.fold_in(1))
            again = noise.corrupt(clean, alpha_s, setting, keys.fold_in(2))
            reverse = torch.where(keys.fold_in(3).uniform(setting.length) < kappa, reverse, again)
        return PsiState(reverse, state.kappas[1:])

    def pin(self, state: PsiState, tokens: Tensor, given: Tensor) -> PsiState:
        return replace(state, z=torch.where(given, tokens, state.z))

    def finish(self, state: PsiState, predict: Predict, t: Tensor, setting: Setting, keys: Keys) -> PsiState:
        if self.last is None:
            return state
        noise, prediction, alpha = NOISES[self.noise], predict(state.z, t), setting.alpha(t)
        if self.last == "greedy":
            return replace(state, z=noise.greedy(state.z, prediction, setting))
        return replace(
            state, z=noise.bridge(state.z, prediction, torch.ones_like(alpha), alpha, setting, keys)
        )

    def tokens(self, state: PsiState) -> Tensor:
        return state.z


def marginal_reanchor(eta: float | Concentration = 0.01, **options: Any) -> Psi:
    """Re-anchoring that keeps marginals, our own alternative to Simplax's sampler on uniform-state models.

    As often as Simplax (with chance eta / (1 + eta) per step) a token starts afresh, but from the posterior of its
    clean value given the current state, noised to the new time, rather than from the previous step's prediction. So it
    corrects earlier mistakes at any eta and still tends to the data's law, where Simplax's sampler keeps a distance.
    N network calls for N steps.
    """
    return Psi(noise="uniform", kappa=FromEta(eta), **options)
