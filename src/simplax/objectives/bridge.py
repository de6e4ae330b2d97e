"""Reverse-bridge losses as training calls them: from logits and clean ids, on any form of the simplex state.

Values are in nats per token and equal the functions of `simplax.functional`, but no one-hot row is built: with clean
ids p_t takes two values per position.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from simplax import functional
from simplax.functional._stable import divergence, expm1_minus, kl, log_over_prior, scale
from simplax.processes.prior import Prior
from simplax.processes.simplex import Marginal, SimplexState


def rate_density(
    logits: Tensor, x: Tensor, state: SimplexState, alpha: Tensor, rate: Tensor, prior: Prior
) -> Tensor:
    """l_ct with its constants restored (eq. 17), shape (batch, length); `alpha`, `rate` broadcast as (batch, 1).

    At a vertex this is the UDLM density, so UDLM is this function on `Marginal` with eta = 0.
    """
    log_hat, log_p, pi = _log_ratios(logits, x, alpha, prior)
    delta = log_hat - log_p
    divergence = (pi * log_p.exp() * expm1_minus(delta)).sum(-1)
    weight = (-log_p).exp()
    density = state.expect(weight * expm1_minus(-delta)) + state.expect(weight) * divergence
    return scale(rate.to(logits.dtype), density)


def bridge_kl(
    logits: Tensor, x: Tensor, state: SimplexState, alpha_s: Tensor, alpha_t: Tensor, prior: Prior
) -> Tensor:
    """The relaxed bridge over a finite step (eq. 15), which is linear in w like its density.

    A sum of non-negative terms, as in `functional.relaxed_bridge`: over a short step the two sides of eq. 15 nearly
    cancel, and in float32 their difference would keep few digits.
    """
    hat_t, p_t, pi = _log_ratios(logits, x, alpha_t, prior)
    hat_s, p_s, _ = _log_ratios(logits, x, alpha_s, prior)
    # at s = 0 exactly nothing is added to x_hat, whose small entries only their logarithm knows
    clean = (alpha_s >= 1).unsqueeze(-1)
    hat_s = torch.where(clean, torch.log_softmax(logits, dim=-1) - pi.log(), hat_s)
    keep, fresh = ((a / alpha_s).to(logits.dtype) for a in (alpha_t, alpha_s - alpha_t))
    at_s, at_t, weight = hat_s - p_s, hat_t - p_t, (-p_t).exp()
    stay = state.expect(divergence((p_s - p_t).exp(), (hat_s - hat_t).exp(), at_s - at_t))
    leave = state.expect(weight * expm1_minus(-at_t)) + state.expect(weight) * kl(
        pi * p_s.exp(), pi * hat_s.exp(), at_s
    )
    return keep * stay + fresh * leave


def _log_ratios(logits: Tensor, x: Tensor, alpha: Tensor, prior: Prior) -> tuple[Tensor, Tensor, Tensor]:
    """log(p_hat / pi), log(p / pi) and pi itself."""
    pi = prior.dense(logits)
    # what is left of 1 is taken in the precision of alpha: in that of the logits it may vanish near t = 0
    a, rest, log_rest = (v.to(logits.dtype).unsqueeze(-1) for v in (alpha, 1 - alpha, torch.log1p(-alpha)))
    log_hat = log_over_prior(torch.softmax(logits, dim=-1), a, pi, rest)
    ids = x.unsqueeze(-1)
    at_x = torch.log1p(a * (1 / pi[ids] - 1))
    log_p = log_rest.expand(log_hat.shape).scatter(-1, ids, at_x.expand(ids.shape))
    return log_hat, log_p, pi


Objective = Callable[[Tensor, Tensor, SimplexState, Tensor, Tensor, Tensor, Prior], Tensor]


@dataclass(frozen=True)
class FiniteStep:
    """A surrogate of appendix E over steps of length 1/num_steps, times num_steps: the sum over a chain.

    Its times are those of the chain, t = (floor(u N) + 1) / N: with any others the steps would not add up to it.

    `bridge` is the paper's objective before its limit. `tight_discrete` and `tight_joint` are not linear in w, so they
    want a drawn state; `tight_joint` and `loose_joint` have a simplex state as their target and need eta at s.
    """

    surrogate: str = "bridge"
    num_steps: int = 1000

    def __post_init__(self) -> None:
        if self.surrogate not in SURROGATES:
            raise ValueError(f"unknown surrogate {self.surrogate!r}: choose one of {', '.join(SURROGATES)}")
        if self.num_steps < 1:
            raise ValueError(f"num_steps must be at least 1, got {self.num_steps}")

    def times(self, u: Tensor) -> Tensor:
        """The time at which the step of stratified number `u` starts."""
        number = (u * self.num_steps).floor().clamp(max=self.num_steps - 1)
        return (number + 1) / self.num_steps

    @property
    def earliest(self) -> float:
        """The earliest time a step may end at: there is no simplex state at time zero."""
        return 0.5 / self.num_steps if self.has_simplex_target else 0.0

    @property
    def has_simplex_target(self) -> bool:
        return SURROGATES[self.surrogate].has_simplex_target

    @property
    def linear(self) -> bool:
        """Whether the value is linear in w, so that the mean of w will do for w."""
        return SURROGATES[self.surrogate].linear

    def __call__(
        self,
        logits: Tensor,
        x: Tensor,
        state: SimplexState,
        alpha_s: Tensor,
        alpha_t: Tensor,
        eta_s: Tensor,
        prior: Prior,
    ) -> Tensor:
        if isinstance(state, Marginal) and not self.linear:
            raise ValueError(f"{self.surrogate} is not linear in w: use form='atoms' or form='dense'")
        return self.num_steps * SURROGATES[self.surrogate].value(
            logits, x, state, alpha_s, alpha_t, eta_s, prior
        )


@dataclass(frozen=True)
class _Surrogate:
    value: Objective
    has_simplex_target: bool
    linear: bool


def _bridge(
    logits: Tensor,
    x: Tensor,
    state: SimplexState,
    alpha_s: Tensor,
    alpha_t: Tensor,
    eta_s: Tensor,
    prior: Prior,
) -> Tensor:
    return bridge_kl(logits, x, state, alpha_s, alpha_t, prior)


def _dense_surrogate(function: Callable[..., Tensor], takes_eta: bool) -> Objective:
    def value(
        logits: Tensor,
        x: Tensor,
        state: SimplexState,
        alpha_s: Tensor,
        alpha_t: Tensor,
        eta_s: Tensor,
        prior: Prior,
    ) -> Tensor:
        # in float64: 1 - alpha_s may be too small for float32 to distinguish from zero
        x_hat, w = torch.softmax(logits.double(), dim=-1), state.dense(prior.size).w
        scalars = (alpha_s, alpha_t, eta_s) if takes_eta else (alpha_s, alpha_t)
        return function(x, x_hat, w, *scalars, prior.dense(x_hat), validate=False).to(logits.dtype)

    return value


SURROGATES = {
    "bridge": _Surrogate(_bridge, has_simplex_target=False, linear=True),
    "tight_discrete": _Surrogate(
        _dense_surrogate(functional.tight_discrete, False), has_simplex_target=False, linear=False
    ),
    "tight_joint": _Surrogate(
        _dense_surrogate(functional.tight_joint, True), has_simplex_target=True, linear=False
    ),
    "loose_joint": _Surrogate(
        _dense_surrogate(functional.loose_joint, True), has_simplex_target=True, linear=True
    ),
}
