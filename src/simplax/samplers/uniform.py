"""Samplers of uniform-state diffusion: UDLM's ancestral chain and Simplax's, which re-anchors on fresh evidence."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from simplax.concentration import Concentration, as_concentration
from simplax.processes.simplex import (
    Atoms,
    Dense,
    decode,
    draw_atoms,
    draw_dense,
    form,
    num_atoms,
    pinned,
    readable,
    vertex,
)
from simplax.processes.uniform import Prediction, Prior, draw_bridge, draw_marginal
from simplax.random import Keys
from simplax.samplers.base import Predict, Sampler, Setting
from simplax.times import Grid

Finish = Callable[[Tensor, Prediction, Tensor, Prior, Keys], Tensor]


def _greedy(z: Tensor, prediction: Prediction, alpha: Tensor, prior: Prior, keys: Keys) -> Tensor:
    """Arg-max of x_hat at every position, the published greedy tail; it ignores the token's own evidence."""
    return prediction.logits.argmax(-1)


def _posterior(z: Tensor, prediction: Prediction, alpha: Tensor, prior: Prior, keys: Keys) -> Tensor:
    """A draw from the posterior of the clean token given z and x_hat."""
    return draw_bridge(z, prediction, torch.ones_like(alpha), alpha, prior, keys)


FINISHES: dict[str, Finish] = {"greedy": _greedy, "posterior": _posterior}


@dataclass(frozen=True)
class UniformState:
    """`z` is what the network reads; `anchor` is the id the next bridge starts from; `w` the state if one is kept."""

    z: Tensor
    anchor: Tensor
    w: Atoms | Dense | None = None


@dataclass(frozen=True)
class _Uniform(Sampler[UniformState]):
    """What the two chains share: the bridge from an anchor, pinning, and the end of the chain."""

    times: Grid = field(default_factory=Grid, kw_only=True)
    last: str | None = field(default=None, kw_only=True)

    def noise_kind(self) -> str:
        return "uniform"

    def __post_init__(self) -> None:
        if self.last is not None and self.last not in FINISHES:
            raise ValueError(
                f"unknown end of the chain {self.last!r}: choose one of {', '.join(FINISHES)}, or None"
            )

    def grid(self, num_steps: int) -> Tensor:
        return self.times(num_steps)

    def init(self, setting: Setting, keys: Keys) -> UniformState:
        z = setting.prior.draw(keys.fold_in(0).uniform(setting.length))
        return self.anchored(z, None, self.times.start, setting, keys.fold_in(1))

    def step(
        self, state: UniformState, predict: Predict, t: Tensor, s: Tensor, setting: Setting, keys: Keys
    ) -> UniformState:
        prediction = self._predict(state, predict, t, setting)
        z = draw_bridge(
            state.anchor, prediction, setting.alpha(s), setting.alpha(t), setting.prior, keys.fold_in(0)
        )
        return self.anchored(z, prediction, float(s), setting, keys.fold_in(1))

    def pin(self, state: UniformState, tokens: Tensor, given: Tensor) -> UniformState:
        return replace(
            state, z=torch.where(given, tokens, state.z), anchor=torch.where(given, tokens, state.anchor)
        )

    def finish(
        self, state: UniformState, predict: Predict, t: Tensor, setting: Setting, keys: Keys
    ) -> UniformState:
        if self.last is None:
            return state
        prediction = self._predict(state, predict, t, setting)
        return replace(
            state, z=FINISHES[self.last](state.z, prediction, setting.alpha(t), setting.prior, keys)
        )

    def _predict(self, state: UniformState, predict: Predict, t: Tensor, setting: Setting) -> Prediction:
        prediction, size = predict(self.reads(state), t), setting.prior.size
        if prediction.size != size:
            raise ValueError(
                f"the denoiser gives {prediction.size} logits per position: vocab_size must be that, not {size}"
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
class Ancestral(_Uniform):
    """UDLM's ancestral sampler: exact draws from the reverse posterior at x_hat; N network calls for N steps.

    With the exact leave-one-out predictor its law tends to the data's as 1/N.
    """

    def anchored(
        self, z: Tensor, prediction: Prediction | None, time: float, setting: Setting, keys: Keys
    ) -> UniformState:
        return UniformState(z, z)


@dataclass(frozen=True)
class Simplax(_Uniform):
    """The paper's stochastic sampler (eqs. 19 to 21); N network calls for N steps.

    The three forms draw z_0 from the same law. `marginal` never builds w: with probability eta/(1 + eta) the anchor is
    redrawn from p_hat at the previous prediction. At a fixed eta the chain is not consistent: its law keeps a distance
    from the data's however many steps it makes.
    """

    eta: float | Concentration = 0.01
    form: str = "marginal"
    reads_w: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        as_concentration(self.eta)
        form(self.form, self.reads_w)

    def anchored(
        self, z: Tensor, prediction: Prediction | None, time: float, setting: Setting, keys: Keys
    ) -> UniformState:
        t = torch.tensor([[time]], dtype=torch.float64, device=z.device)
        concentration = as_concentration(self.eta)
        eta = concentration(t, setting.num_steps).expand(z.shape)
        if time <= 0 or not bool((eta > 0).any()):
            w = vertex(z)
            return UniformState(z, z, w.dense(setting.prior.size) if self.form == "dense" else w)
        law = _Marginal(prediction, setting.alpha(t), setting.prior, setting.length)
        return FORMS[self.form](z, law, eta, float(eta.max()), keys)

    def reads(self, state: UniformState) -> object:
        return readable(state.w) if self.reads_w else state.z

    def pin(self, state: UniformState, tokens: Tensor, given: Tensor) -> UniformState:
        state = super().pin(state, tokens, given)
        return state if state.w is None else replace(state, w=pinned(state.w, tokens, given))


@dataclass(frozen=True)
class _Marginal:
    """p_hat at one time: alpha x_hat + (1 - alpha) pi, or pi alone before any prediction exists."""

    prediction: Prediction | None
    alpha: Tensor
    prior: Prior
    length: int

    def draw(self, keys: Keys, count: int) -> Tensor:
        if self.prediction is None:
            return self.prior.draw(keys.uniform(self.length, count))
        return draw_marginal(self.prediction, self.alpha, self.prior, keys, count)

    def draw_where(self, where: Tensor, z: Tensor, keys: Keys) -> Tensor:
        """A fresh id where `where` holds, `z` elsewhere; only those positions pay for a draw."""
        u = keys.uniform(2, self.length)
        fresh = self.prior.draw(u[:, 1])
        if self.prediction is not None:
            predicted = where & (u[:, 0] < self.alpha)
            fresh[predicted] = self.prediction.draw(predicted, u[:, 1])
        return torch.where(where, fresh, z)

    def dense(self, shape: torch.Size) -> Tensor:
        pi = self.prior.dense(torch.empty(0, dtype=torch.float64, device=self.alpha.device))
        if self.prediction is None:
            return pi.expand(*shape, self.prior.size)
        alpha = self.alpha.unsqueeze(-1)
        return alpha * self.prediction.probs().double() + (1 - alpha) * pi


def _marginal_form(z: Tensor, law: _Marginal, eta: Tensor, largest: float, keys: Keys) -> UniformState:
    refresh = keys.fold_in(0).uniform(z.shape[1]) < eta / (1 + eta)
    return UniformState(z, law.draw_where(refresh, z, keys.fold_in(1)))


def _atoms_form(z: Tensor, law: _Marginal, eta: Tensor, largest: float, keys: Keys) -> UniformState:
    count = num_atoms(largest)
    if count > law.prior.size:
        return _dense_form(z, law, eta, largest, keys)
    w = draw_atoms(z, law.draw, eta, count, keys.fold_in(0))
    return UniformState(z, decode(w, keys.fold_in(1)), w)


def _dense_form(z: Tensor, law: _Marginal, eta: Tensor, largest: float, keys: Keys) -> UniformState:
    w = draw_dense(z, law.dense(z.shape), eta, keys.fold_in(0))
    return UniformState(z, decode(w, keys.fold_in(1)), w)


FORMS = {"dense": _dense_form, "atoms": _atoms_form, "marginal": _marginal_form}
