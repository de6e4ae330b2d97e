"""The simplex state w_t in three interchangeable forms (section 3 and appendix A of the paper).

`Dense` is the paper's literal text, a K-vector per position. `Atoms` is the same law by stick breaking: a handful of
weighted ids, because Dir(eta p) at small eta is almost a vertex. `Marginal` is E[w_t | z_t, x], all that matters to a
denoiser which does not read w: loss and reverse posterior are linear in w.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from simplax.functional.distributions import CONCENTRATION_RANGE
from simplax.processes.prior import Prior
from simplax.processes.uniform import corrupt
from simplax.random import Keys, categorical

ATOM_TOLERANCE = 1e-16


class SimplexState(abc.ABC):
    """A state that enters losses through inner products <w, values> only."""

    @abc.abstractmethod
    def expect(self, values: Tensor) -> Tensor:
        """<w, values> over the last axis of `values` (batch, length, K)."""

    @abc.abstractmethod
    def dense(self, size: int) -> Dense:
        """The same state as a K-vector per position."""


@dataclass(frozen=True)
class Dense(SimplexState):
    w: Tensor

    def rows(self, rows: Tensor) -> Dense:
        """The states of some of the sequences."""
        return Dense(self.w[rows])

    def expect(self, values: Tensor) -> Tensor:
        return (self.w.to(values.dtype) * values).sum(-1)

    def dense(self, size: int) -> Dense:
        return self


@dataclass(frozen=True)
class Atoms(SimplexState):
    """w = sum_j weights_j e_{ids_j}; ids may repeat."""

    ids: Tensor
    weights: Tensor

    def rows(self, rows: Tensor) -> Atoms:
        """The states of some of the sequences."""
        return Atoms(self.ids[rows], self.weights[rows])

    def expect(self, values: Tensor) -> Tensor:
        return (self.weights.to(values.dtype) * values.gather(-1, self.ids)).sum(-1)

    def dense(self, size: int) -> Dense:
        w = torch.zeros(*self.ids.shape[:-1], size, dtype=self.weights.dtype, device=self.ids.device)
        return Dense(w.scatter_add(-1, self.ids, self.weights))


@dataclass(frozen=True)
class Marginal(SimplexState):
    """E[w_t | z_t, x] = (eta p_t + e_{z_t}) / (1 + eta), with p_t = alpha x + (1 - alpha) pi for ids `x`.

    `eta=None` is the limit eta = 0, the vertex e_{z_t}.
    """

    z: Tensor
    x: Tensor
    alpha: Tensor
    eta: Tensor | None
    prior: Prior

    def expect(self, values: Tensor) -> Tensor:
        def at(ids: Tensor) -> Tensor:
            return values.gather(-1, ids.unsqueeze(-1)).squeeze(-1)

        if self.eta is None:
            return at(self.z)
        # 1 - alpha before the cast: near t = 0 it is small, and meets values of the size of its inverse
        alpha, rest, eta = (v.to(values.dtype) for v in (self.alpha, 1 - self.alpha, self.eta))
        base = values.mean(-1) if self.prior.probs is None else values @ self.prior.dense(values)
        p_t = alpha * at(self.x) + rest * base
        return (at(self.z) + eta * p_t) / (1 + eta)

    def dense(self, size: int) -> Dense:
        x, z = (torch.nn.functional.one_hot(ids, size).double() for ids in (self.x, self.z))
        if self.eta is None:
            return Dense(z)
        alpha, eta = self.alpha.unsqueeze(-1), self.eta.unsqueeze(-1)
        p_t = alpha * x + (1 - alpha) * self.prior.dense(x)
        return Dense((eta * p_t + z) / (1 + eta))


def num_atoms(eta: float, tolerance: float = ATOM_TOLERANCE) -> int:
    """Sticks needed so that the mass left, (eta / (1 + eta))^J in the mean, is below `tolerance`."""
    if eta <= 0:
        return 1
    return max(2, math.ceil(math.log(tolerance) / math.log(eta / (1 + eta))))


def stick_weights(eta: Tensor, count: int, keys: Keys, length: int) -> Tensor:
    """Weights (batch, length, count) of a stick-breaking draw; the last stick takes the remainder."""
    u = keys.uniform(length, count - 1)
    exponent = eta.double().unsqueeze(-1).clamp(min=1e-12)
    log_rest = torch.log(u) / exponent  # 1 - beta = U^(1/eta) for beta ~ Beta(1, eta)
    left = torch.cumsum(log_rest, dim=-1).exp()
    before = torch.nn.functional.pad(left[..., :-1], (1, 0), value=1.0)
    return torch.cat([before * -torch.expm1(log_rest), left[..., -1:]], dim=-1)


def vertex(z: Tensor) -> Atoms:
    """The state that sits on the token itself: w = e_z."""
    return Atoms(z.unsqueeze(-1), torch.ones(*z.shape, 1, dtype=torch.float64, device=z.device))


def draw_atoms(z: Tensor, more: Callable[[Keys, int], Tensor], eta: Tensor, count: int, keys: Keys) -> Atoms:
    """w ~ Dir(eta p + e_z) as atoms: the first sits on z, the others on draws from p made by `more(keys, n)`."""
    if count < 2:
        return vertex(z)
    weights = stick_weights(eta.expand(z.shape), count, keys.stream("sticks"), z.shape[1])
    return Atoms(torch.cat([z.unsqueeze(-1), more(keys.stream("atoms"), count - 1)], dim=-1), weights)


def draw_dense(z: Tensor, p: Tensor, eta: Tensor, keys: Keys) -> Dense:
    """w ~ Dir(eta p + e_z) as the paper draws it: float64, concentrations kept in [1e-10, 1e8]."""
    shift = torch.nn.functional.one_hot(z, p.shape[-1])
    concentration = eta.double().unsqueeze(-1) * p.double() + shift
    log_gamma = keys.log_gamma(concentration.clamp(*CONCENTRATION_RANGE))
    return Dense(torch.softmax(log_gamma, dim=-1))


def decode(w: Dense | Atoms, keys: Keys) -> Tensor:
    """z ~ Cat(w), the exact decoder (eq. 9)."""
    weights = w.w if isinstance(w, Dense) else w.weights
    index = categorical(weights, keys.uniform(*weights.shape[1:-1]))
    return index if isinstance(w, Dense) else w.ids.gather(-1, index.unsqueeze(-1)).squeeze(-1)


def pinned(w: Dense | Atoms, tokens: Tensor, given: Tensor) -> Dense | Atoms:
    """The same state with given positions on the vertex of their token."""
    given, tokens = given.unsqueeze(-1), tokens.clamp(min=0)
    if isinstance(w, Dense):
        corner = torch.nn.functional.one_hot(tokens, w.w.shape[-1])
        return Dense(torch.where(given, corner.to(w.w.dtype), w.w))
    first = torch.zeros_like(w.weights)
    first[..., 0] = 1.0
    return Atoms(torch.where(given, tokens.unsqueeze(-1), w.ids), torch.where(given, first, w.weights))


_UNREADABLE = "a network that reads w needs form='atoms' or form='dense': the marginal form draws no w"


def readable(w: SimplexState | None) -> Tensor | Atoms:
    """What a network that reads w is shown, in its own precision: atoms, or a K-vector per position."""
    if isinstance(w, Dense):
        return w.w.float()
    if not isinstance(w, Atoms):
        raise ValueError(_UNREADABLE)
    return Atoms(w.ids, w.weights.float())


@dataclass(frozen=True)
class Form:
    """How a draw of (w_t, z_t) from clean ids is represented; `readable` states can be a network's input."""

    name: str
    readable: bool
    draw: Callable[[Tensor, Tensor, Tensor, float, Prior, Keys], tuple[SimplexState, Tensor]]


def _joint_dense(
    x: Tensor, alpha: Tensor, eta: Tensor, largest: float, prior: Prior, keys: Keys
) -> tuple[SimplexState, Tensor]:
    del largest
    z = corrupt(x, alpha, prior, keys.stream("corrupt"))
    one_hot = torch.nn.functional.one_hot(x, prior.size).double()
    a = alpha.expand(x.shape).unsqueeze(-1)
    p = a * one_hot + (1 - a) * prior.dense(one_hot)
    return draw_dense(z, p, eta.expand(x.shape), keys.stream("simplex")), z


def _joint_atoms(
    x: Tensor, alpha: Tensor, eta: Tensor, largest: float, prior: Prior, keys: Keys
) -> tuple[SimplexState, Tensor]:
    count = num_atoms(largest)
    if count > prior.size:  # large eta over few categories: the K-vector is the smaller of the two
        return _joint_dense(x, alpha, eta, largest, prior, keys)
    z = corrupt(x, alpha, prior, keys.stream("corrupt"))

    def more(keys: Keys, n: int) -> Tensor:
        repeated = x.unsqueeze(-1).expand(*x.shape, n)
        return corrupt(repeated, alpha.expand(x.shape).unsqueeze(-1), prior, keys)

    return draw_atoms(z, more, eta, count, keys.stream("simplex")), z


def _joint_marginal(
    x: Tensor, alpha: Tensor, eta: Tensor, largest: float, prior: Prior, keys: Keys
) -> tuple[SimplexState, Tensor]:
    del largest
    z = corrupt(x, alpha, prior, keys.stream("corrupt"))
    return Marginal(z, x, alpha, eta, prior), z


FORMS = {
    "dense": Form("dense", True, _joint_dense),
    "atoms": Form("atoms", True, _joint_atoms),
    "marginal": Form("marginal", False, _joint_marginal),
}


def form(name: str, reads_w: bool = False) -> Form:
    """The form called `name`, provided that it suits a network that reads w, if there is one."""
    if name not in FORMS:
        raise ValueError(f"unknown form of the simplex state {name!r}: choose one of {', '.join(FORMS)}")
    if reads_w and not FORMS[name].readable:
        raise ValueError(_UNREADABLE)
    return FORMS[name]
