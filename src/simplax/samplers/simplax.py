"""Simplax's stochastic sampler, which re-anchors tokens on fresh evidence."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from torch import Tensor

from simplax.concentration import Concentration, as_concentration
from simplax.nn.network import Chain
from simplax.processes.base import Process
from simplax.processes.prediction import Prediction
from simplax.processes.prior import Prior
from simplax.processes.simplex import (
    decode,
    draw_atoms,
    draw_dense,
    form,
    num_atoms,
    pinned,
    readable,
    vertex,
)
from simplax.processes.uniform import UniformProcess, draw_afresh, draw_marginal
from simplax.random import Keys
from simplax.samplers.base import Setting
from simplax.samplers.chains import TokenChain, TokenState
from simplax.samplers.endings import check_ending
from simplax.times import Grid


@dataclass(frozen=True)
class Simplax(TokenChain):
    """The paper's stochastic sampler (eqs. 19 to 21); N network calls for N steps.

    The three forms draw z_0 from the same law. `marginal` never builds w: with probability eta/(1 + eta) the anchor is
    redrawn from p_hat at the previous prediction (Simplex Diffusion Models, 2026, appendix H.2, states the form in
    which w is integrated out, with the current prediction). At a fixed eta the chain is not consistent: its law keeps
    a distance from the data's however many steps it makes.
    """

    undoes: ClassVar[tuple[type[Process], ...]] = (UniformProcess,)
    exactness: ClassVar[str] = "exact draws; keeps a distance from the data's law at a fixed eta"

    times: Grid = field(default_factory=Grid, kw_only=True)
    last: str | None = field(default=None, kw_only=True)
    eta: float | Concentration = 0.01
    form: str = "marginal"
    reads_w: bool = False

    def __post_init__(self) -> None:
        check_ending(self.last)
        as_concentration(self.eta)
        form(self.form, self.reads_w)

    def init(self, setting: Setting, keys: Keys) -> TokenState:
        z = setting.process.start(setting.batch, setting.length, keys.stream("start"))
        return self._anchored(z, None, self.times.start, setting, keys.stream("anchor"))

    def step(
        self, state: TokenState, network: Chain, t: Tensor, s: Tensor, setting: Setting, keys: Keys
    ) -> TokenState:
        prediction = self.predict(state, network, t, setting)
        z = setting.bridge(state.anchor, prediction, t, s, keys.stream("bridge"))
        after = self._anchored(z, prediction, float(s), setting, keys.stream("anchor"))
        return replace(after, number=state.number + 1)

    def _anchored(
        self, z: Tensor, prediction: Prediction | None, time: float, setting: Setting, keys: Keys
    ) -> TokenState:
        t = torch.tensor([[time]], dtype=torch.float64)
        value = float(as_concentration(self.eta)(t, setting.num_steps))
        if time <= 0 or value <= 0:
            w = vertex(z)
            return TokenState(z, z, w.dense(setting.size) if self.form == "dense" else w)
        alpha = setting.process.schedule.alpha(t).to(z.device)
        law = _Marginal(prediction, alpha, setting.process.prior, setting.length)
        eta = torch.full(z.shape, value, dtype=torch.float64, device=z.device)
        return ANCHORS[self.form](z, law, eta, value, keys)

    def reads(self, state: TokenState) -> object:
        return readable(state.w) if self.reads_w else state.z

    def pin(self, state: TokenState, tokens: Tensor, given: Tensor) -> TokenState:
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

    def dense(self, like: Tensor) -> Tensor:
        if self.prediction is None:
            return self.prior.dense(like).expand(*like.shape[:-1], self.prior.size)
        alpha = self.alpha.unsqueeze(-1)
        probs = self.prediction.probs().double()
        return alpha * probs + (1 - alpha) * self.prior.dense(probs)


def _marginal_form(z: Tensor, law: _Marginal, eta: Tensor, largest: float, keys: Keys) -> TokenState:
    refresh = keys.stream("refresh").uniform(z.shape[1]) < eta / (1 + eta)
    anchor = draw_afresh(z, refresh, law.prediction, law.alpha, law.prior, keys.stream("redraw"))
    return TokenState(z, anchor)


def _atoms_form(z: Tensor, law: _Marginal, eta: Tensor, largest: float, keys: Keys) -> TokenState:
    count = num_atoms(largest)
    if count > law.prior.size:
        return _dense_form(z, law, eta, largest, keys)
    w = draw_atoms(z, law.draw, eta, count, keys.stream("simplex"))
    return TokenState(z, decode(w, keys.stream("decode")), w)


def _dense_form(z: Tensor, law: _Marginal, eta: Tensor, largest: float, keys: Keys) -> TokenState:
    w = draw_dense(z, law.dense(eta.unsqueeze(-1)), eta, keys.stream("simplex"))
    return TokenState(z, decode(w, keys.stream("decode")), w)


ANCHORS = {"dense": _dense_form, "atoms": _atoms_form, "marginal": _marginal_form}
