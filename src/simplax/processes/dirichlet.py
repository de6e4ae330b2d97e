"""The process of SDM (arXiv 2609.35553): one point of the simplex per position, Dirichlet around the noised token.

Its law is that of Simplax's w_t. Here the state itself is what is noised and what a reverse step carries on, so it is
kept as logarithms where a step needs the smallest of its coordinates.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from simplax.concentration import Concentration, Normalised, as_concentration
from simplax.functional.distributions import CONCENTRATION_RANGE
from simplax.functional.sdm import ChurnStep, churn_step
from simplax.processes.base import Process
from simplax.processes.prior import Prior
from simplax.processes.simplex import Atoms, Dense, form, pinned, readable
from simplax.random import Keys
from simplax.schedules import Schedule
from simplax.typing import per_sample


@dataclass(frozen=True)
class LogDense:
    """A point of the simplex per position by its logarithms (batch, length, K), float64; -inf if impossible."""

    log_w: Tensor


Point = LogDense | Dense | Atoms


@dataclass(frozen=True)
class SimplexProcess(Process):
    """P_t ~ Dir(c_t (alpha_t x + (1 - alpha_t) pi)), independently at every position.

    `input` is what a network reads of it: the `expectation` of its embedding, or that of the `argmax`.
    """

    name: ClassVar[str] = "points of the simplex"

    schedule: Schedule
    prior: Prior
    concentration: float | Concentration = field(default_factory=Normalised)
    input: str = "expectation"

    def __post_init__(self) -> None:
        if self.input not in INPUTS:
            raise ValueError(f"unknown input {self.input!r}: choose {' or '.join(INPUTS)}")

    @property
    def size(self) -> int:
        return self.prior.size

    @classmethod
    def around(cls, denoiser: Any, schedule: Schedule | None, prior: Prior) -> SimplexProcess:
        raise ValueError(
            "a network does not say around which concentration it was trained: pass process=SimplexProcess(schedule, "
            "prior, concentration)"
        )

    def c(self, t: Tensor) -> Tensor:
        """The concentration at one time, or one per sample as (batch, 1)."""
        return per_sample(as_concentration(self.concentration)(t.double()))

    def alpha(self, t: Tensor) -> Tensor:
        return per_sample(self.schedule.alpha(t.double()))

    def start(self, batch: int, length: int, keys: Keys) -> LogDense:
        """Noise: Dir(c_1 pi)."""
        total = self.c(torch.ones((), dtype=torch.float64)).to(keys.state.device)
        pi = self.prior.dense(torch.empty(0, dtype=torch.float64, device=keys.state.device))
        return LogDense(_log_dirichlet((total * pi).expand(batch, length, self.size), keys))

    def corrupt(self, x: Tensor, t: Tensor, keys: Keys) -> Dense | Atoms:
        """P_t given the clean ids: sticks where they are fewer than categories, else the whole vector.

        The token that the draw begins with is a decode of the state and plays no part in it.
        """
        largest = as_concentration(self.concentration).largest
        alpha, c = (value.to(x.device) for value in (self.alpha(t), self.c(t)))
        w, _ = form("atoms").draw(x, alpha, c, largest, self.prior, keys)
        assert isinstance(w, Dense | Atoms)
        return w

    def churn(self, state: LogDense, x: Tensor, t: Tensor, s: Tensor, kappa: float, keys: Keys) -> LogDense:
        """P_s from P_t and the clean ids, of which a share decided by `kappa` is forgotten."""
        pi, device = self.prior.dense(state.log_w), x.device
        alpha_s, alpha_t = self.alpha(s).to(device), self.alpha(t).to(device)
        c_s, c_t = self.c(s).to(device), self.c(t).to(device)
        step = churn_step(x, alpha_s, alpha_t, c_s, c_t, kappa, pi, validate=False)
        return LogDense(draw_churn(state.log_w, step, keys))

    def shown(self, state: Point) -> Tensor | Atoms:
        """What a network reads of a state."""
        w = Dense(state.log_w.exp()) if isinstance(state, LogDense) else state
        return INPUTS[self.input](w)


def clamped(state: Point, tokens: Tensor, given: Tensor) -> Point:
    """The same state with given positions on the vertex of their token."""
    if not isinstance(state, LogDense):
        return pinned(state, tokens, given)
    log_w = state.log_w
    corner = torch.nn.functional.one_hot(tokens.clamp(min=0), log_w.shape[-1]).to(log_w.dtype).log()
    return LogDense(torch.where(given.unsqueeze(-1), corner, log_w))


def likeliest(state: Point) -> Tensor:
    """The category of the largest coordinate; ids of several atoms count together."""
    if isinstance(state, LogDense):
        return state.log_w.argmax(-1)
    if isinstance(state, Dense):
        return state.w.argmax(-1)
    ids, order = state.ids.sort(dim=-1)
    group = torch.nn.functional.pad((ids.diff(dim=-1) != 0).long(), (1, 0)).cumsum(-1)
    weights = state.weights.gather(-1, order)
    best = torch.zeros_like(weights).scatter_add(-1, group, weights).argmax(-1, keepdim=True)
    return ids.gather(-1, torch.searchsorted(group, best)).squeeze(-1)


INPUTS: dict[str, Callable[[Dense | Atoms], Tensor | Atoms]] = {
    "expectation": readable,
    "argmax": likeliest,
}


def draw_churn(log_w: Tensor, step: ChurnStep, keys: Keys) -> Tensor:
    """log P_s of a step from log P_t, both (batch, length, K)."""
    fresh = _log_dirichlet(step.fresh, keys.stream("fresh"))
    log_kept, log_added = _log_beta(step.kept.expand(log_w.shape[:-1]), step.added, keys.stream("share"))
    whole = step.rho >= 1  # nothing is thinned, and the second parameter of the beta law would be zero
    log_b, _ = _log_beta(step.rho * step.old, (1 - step.rho) * step.old, keys.stream("thin"))
    thinned = torch.log_softmax(torch.where(whole, log_w, log_w + log_b), dim=-1)
    return torch.logaddexp(log_kept.unsqueeze(-1) + thinned, log_added.unsqueeze(-1) + fresh)


def _log_dirichlet(concentration: Tensor, keys: Keys) -> Tensor:
    """log of a draw; concentrations of zero leave out their categories."""
    log_gamma = keys.log_gamma(concentration.clamp(*CONCENTRATION_RANGE))
    return torch.log_softmax(torch.where(concentration > 0, log_gamma, -torch.inf), dim=-1)


def _log_beta(first: Tensor, second: Tensor, keys: Keys) -> tuple[Tensor, Tensor]:
    """log B and log(1 - B) for B ~ Beta(first, second), float64."""
    ours, theirs = (
        keys.stream(name).log_gamma(a.expand(first.shape).clamp(*CONCENTRATION_RANGE))
        for name, a in (("first", first), ("second", second))
    )
    total = torch.logaddexp(ours, theirs)
    return ours - total, theirs - total
