"""Appendix A of the paper: the laws of the simplex state as distributions with `log_prob` and `sample`.

All three are mixtures of Dirichlets shifted by one count. Draws are made in log space, from gamma variates written
as G(a) = G(a + 1) U^(1/a): at the paper's eta = 0.01 and a vocabulary of 50,000 the concentrations are near 2e-7,
where an ordinary gamma draw underflows. Everything that involves a concentration is computed in float64.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import Distribution, constraints

from simplax.functional._arguments import Scalar, check_eta, check_simplex_step, check_time, space
from simplax.functional.process import lift, mix

CONCENTRATION_RANGE = (1e-10, 1e8)


def log_dirichlet_sample(concentration: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """log w for w ~ Dir(concentration), float64, finite however small the concentrations are."""
    a = concentration.double().clamp(*CONCENTRATION_RANGE)
    log_gamma = torch._standard_gamma(a + 1, generator=generator).log()
    u = torch.rand(a.shape, dtype=torch.float64, device=a.device, generator=generator).clamp_(min=1e-300)
    return torch.log_softmax(log_gamma + u.log() / a, dim=-1)


class DirichletMixture(Distribution):
    """sum_k weights_k Dir(concentration + e_k), the form of every simplex law of the paper.

    Its density is Dir(w; concentration) * c_0 * sum_k weights_k w_k / concentration_k, with c_0 the total, by the
    shift identity (eq. 22); so weights proportional to the concentration give the plain Dirichlet (eq. 23).
    """

    support = constraints.simplex
    has_rsample = False

    def __init__(self, weights: Tensor, concentration: Tensor, validate_args: bool | None = False) -> None:
        self.weights, self.concentration = torch.broadcast_tensors(weights, concentration)
        super().__init__(self.weights.shape[:-1], self.weights.shape[-1:], validate_args=validate_args)

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        positive = constraints.independent(constraints.positive, 1)
        return {"weights": constraints.simplex, "concentration": positive}

    @property
    def mean(self) -> Tensor:
        return (self.concentration + self.weights) / (self.concentration.sum(-1, keepdim=True) + 1)

    @property
    def variance(self) -> Tensor:
        a, total = self.concentration, self.concentration.sum(-1, keepdim=True)
        square = (a + 1) * (a + 2 * self.weights) / ((total + 1) * (total + 2))
        return square - self.mean**2

    def expand(
        self, batch_shape: torch.Size | list[int] | tuple[int, ...], _instance: Any = None
    ) -> DirichletMixture:
        shape = torch.Size(batch_shape) + self._event_shape
        return DirichletMixture(self.weights.expand(shape), self.concentration.expand(shape))

    def log_sample(self, generator: torch.Generator | None = None) -> Tensor:
        """One draw as log w, float64."""
        size = self._event_shape[0]
        rows = self.weights.double().reshape(self._batch_shape.numel(), size)
        shift = torch.multinomial(rows, 1, replacement=True, generator=generator).reshape(self._batch_shape)
        one_hot = torch.nn.functional.one_hot(shift, size)
        return log_dirichlet_sample(self.concentration.double() + one_hot, generator)

    def sample(
        self,
        sample_shape: torch.Size | list[int] | tuple[int, ...] = (),
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Draws whose `log_prob` is finite: coordinates too small for the dtype are its smallest normal number.

        At small concentrations that is most of them; `log_sample` and `log_density` keep them as they are.
        """
        dtype = self.concentration.dtype
        with torch.no_grad():
            expanded = self.expand(torch.Size(sample_shape) + self._batch_shape)
            return expanded.log_sample(generator).exp().to(dtype).clamp(min=torch.finfo(dtype).tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        return self.log_density(value.log()).to(self.concentration.dtype)

    def log_density(self, log_w: Tensor) -> Tensor:
        """Log density, float64, at a point given by its logarithm, so that coordinates below 1e-308 count."""
        a, log_w = self.concentration.double(), log_w.double()
        powers = torch.where(a == 1, torch.zeros_like(log_w), (a - 1) * log_w)
        base = torch.lgamma(a.sum(-1)) - torch.lgamma(a).sum(-1) + powers.sum(-1)
        shift = torch.logsumexp(self.weights.double().log() + log_w - a.log(), dim=-1)
        return base + a.sum(-1).log() + shift


def simplex_marginal(
    x: Tensor, alpha_t: Scalar, eta_t: Scalar, pi: Tensor | None = None, *, validate: bool = True
) -> DirichletMixture:
    """q(w_t | x) = Dir(eta_t p_t) (eq. 8)."""
    k = space(pi, x=x, validate=validate)
    check_time(k, alpha_t, validate=validate)
    check_eta(k, eta_t, validate=validate)
    p = mix(k, k.distribution(x), alpha_t)
    return DirichletMixture(p, k.scalar(eta_t) * p)


def simplex_conditional(
    x: Tensor, z_t: Tensor, alpha_t: Scalar, eta_t: Scalar, pi: Tensor | None = None, *, validate: bool = True
) -> DirichletMixture:
    """q(w_t | z_t, x) = Dir(eta_t p_t + z_t) (eq. 7); a `z_t` that is not one-hot gives the mixture over it."""
    k = space(pi, x=x, z_t=z_t, validate=validate)
    check_time(k, alpha_t, validate=validate)
    check_eta(k, eta_t, validate=validate)
    return DirichletMixture(k.distribution(z_t), k.scalar(eta_t) * mix(k, k.distribution(x), alpha_t))


def simplex_bridge(
    x: Tensor,
    state_t: Tensor,
    alpha_s: Scalar,
    alpha_t: Scalar,
    eta_s: Scalar,
    pi: Tensor | None = None,
    *,
    validate: bool = True,
) -> DirichletMixture:
    """q(w_s | z_t, x) for ids `state_t` (eq. 30), q(w_s | w_t, x) for a simplex state (eqs. 12 and 31)."""
    k = space(pi, x=x, state_t=state_t, validate=validate)
    check_simplex_step(k, alpha_s, alpha_t, eta_s, validate=validate)
    clean = k.distribution(x)
    law = lift(k, clean, k.distribution(state_t), alpha_s, alpha_t)  # at a vertex rho is r
    return DirichletMixture(law, k.scalar(eta_s) * mix(k, clean, alpha_s))
