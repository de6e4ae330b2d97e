"""Simplax's stochastic sampler, which re-anchors tokens on fresh evidence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from simplax.concentration import Concentration, as_concentration
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
from simplax.processes.uniform import draw_marginal
from simplax.random import Keys
from simplax.samplers.base import Setting
from simplax.samplers.udlm import AnchoredChain, UniformState


@dataclass(frozen=True)
class Simplax(AnchoredChain):
    """The paper's stochastic sampler (eqs. 19 to 21); N network calls for N steps.

    The three forms draw z_0 from the same law. `marginal` never builds w: with probability eta/(1 + eta) the anchor is
    redrawn from p_hat at the previous prediction. At a fixed eta the chain is not consistent: its law keeps a distance
    from the data's however many steps it makes.
    """

    exactness: ClassVar[str] = "exact draws; keeps a distance from the data's law at a fixed eta"

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
        t = torch.tensor([[time]], dtype=torch.float64)
        value = float(as_concentration(self.eta)(t, setting.num_steps))
        if time <= 0 or value <= 0:
            w = vertex(z)
            return UniformState(z, z, w.dense(setting.size) if self.form == "dense" else w)
        alpha = setting.process.schedule.alpha(t).to(z.device)
        law = _Marginal(prediction, alpha, setting.process.prior, setting.length)
        eta = torch.full(z.shape, value, dtype=torch.float64, device=z.device)
        return ANCHORS[self.form](z, law, eta, value, keys)

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
        fresh = torch.where(where, self.prior.draw(u[:, 1]), z)
        if self.prediction is None:
            return fresh
        return self.prediction.draw(where & (u[:, 0] < self.alpha), u[:, 1], otherwise=fresh)

    def dense(self, like: Tensor) -> Tensor:
        if self.prediction is None:
            return self.prior.dense(like).expand(*like.shape[:-1], self.prior.size)
        alpha = self.alpha.unsqueeze(-1)
        probs = self.prediction.probs().double()
        return alpha * probs + (1 - alpha) * self.prior.dense(probs)


def _marginal_form(z: Tensor, law: _Marginal, eta: Tensor, largest: float, keys: Keys) -> UniformState:
    refresh = keys.stream("refresh").uniform(z.shape[1]) < eta / (1 + eta)
    return UniformState(z, law.draw_where(refresh, z, keys.stream("redraw")))


def _atoms_form(z: Tensor, law: _Marginal, eta: Tensor, largest: float, keys: Keys) -> UniformState:
    count = num_atoms(largest)
    if count > law.prior.size:
        return _dense_form(z, law, eta, largest, keys)
    w = draw_atoms(z, law.draw, eta, count, keys.stream("simplex"))
    return UniformState(z, decode(w, keys.stream("decode")), w)


def _dense_form(z: Tensor, law: _Marginal, eta: Tensor, largest: float, keys: Keys) -> UniformState:
    w = draw_dense(z, law.dense(eta.unsqueeze(-1)), eta, keys.stream("simplex"))
    return UniformState(z, decode(w, keys.stream("decode")), w)


ANCHORS = {"dense": _dense_form, "atoms": _atoms_form, "marginal": _marginal_form}
