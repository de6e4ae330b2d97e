"""Appendix A: densities against torch's Dirichlet and Bayes' rule, draws against the densities."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor
from torch.distributions import Dirichlet

import definitions
from failure_budget import accept, chi_square
from simplax import functional as F
from simplax.functional.distributions import log_dirichlet_sample
from strategies import Case, cases, concentrations, probabilities, sizes, thorough

EXACT = {"rtol": 1e-10, "atol": 1e-10}


@st.composite
def points(draw: st.DrawFn) -> tuple[Case, Tensor, Tensor]:
    """A case with two points strictly inside its simplex, one for each time."""
    case = draw(cases(simplex_at_s=True))
    return case, draw(probabilities(case.size, 2.0)), draw(probabilities(case.size, 2.0))


@thorough
@given(points())
def test_marginal_is_the_dirichlet_of_the_process(drawn: tuple[Case, Tensor, Tensor]) -> None:
    case, w, _ = drawn
    p = definitions.marginal_at(case.clean, case.alpha_t, case.pi)
    value = F.simplex_marginal(case.x, case.alpha_t, case.eta, case.pi).log_prob(w)
    torch.testing.assert_close(value, Dirichlet(case.eta * p).log_prob(w), **EXACT)


@thorough
@given(points())
def test_conditional_is_the_shifted_dirichlet(drawn: tuple[Case, Tensor, Tensor]) -> None:
    case, w, _ = drawn
    anchors = torch.arange(case.size)
    law = F.simplex_conditional(case.x.expand(case.size), anchors, case.alpha_t, case.eta, case.pi)
    expected = definitions.shifted_density(case.clean, w, case.alpha_t, case.eta, case.pi)
    torch.testing.assert_close(law.log_prob(w), expected.log(), **EXACT)


@thorough
@given(points())
def test_shift_identity_and_its_collapse(drawn: tuple[Case, Tensor, Tensor]) -> None:
    """Dir(w; a + e_k) = (a_0 / a_k) w_k Dir(w; a), and the shifts weighted by p are the unshifted density."""
    case, w, _ = drawn
    anchors = torch.arange(case.size)
    p = F.marginal(case.x, case.alpha_t, case.pi)
    shifted = F.simplex_conditional(case.x, anchors, case.alpha_t, case.eta, case.pi).log_prob(w)
    plain = F.simplex_marginal(case.x, case.alpha_t, case.eta, case.pi).log_prob(w)
    torch.testing.assert_close(shifted, w.log() - p.log() + plain, **EXACT)
    torch.testing.assert_close(torch.logsumexp(p.log() + shifted, -1), plain, **EXACT)
    a = case.eta * case.x_hat + 1e-3
    component = F.DirichletMixture(torch.eye(case.size, dtype=torch.float64), a).log_prob(w)
    torch.testing.assert_close(component, (a.sum() / a * w).log() + Dirichlet(a).log_prob(w), **EXACT)


@thorough
@given(points())
def test_log_ratio_of_shifted_densities(drawn: tuple[Case, Tensor, Tensor]) -> None:
    """Shifting both densities by one count moves their log ratio by log p_hat_k - log p_k."""
    case, w, _ = drawn
    anchors = torch.arange(case.size)
    p, p_hat = (F.marginal(v, case.alpha_t, case.pi) for v in (case.x, case.x_hat))
    shifted, plain = [], []
    for clean in (case.x, case.x_hat):
        shifted.append(F.simplex_conditional(clean, anchors, case.alpha_t, case.eta, case.pi).log_prob(w))
        plain.append(F.simplex_marginal(clean, case.alpha_t, case.eta, case.pi).log_prob(w))
    beta = [torch.lgamma(case.eta * v).sum() for v in (p, p_hat)]
    expanded = beta[1] - beta[0] + case.eta * ((p - p_hat) * w.log()).sum()
    torch.testing.assert_close(plain[0] - plain[1], expanded, **EXACT)
    torch.testing.assert_close(shifted[0] - shifted[1], expanded + p_hat.log() - p.log(), **EXACT)


@thorough
@given(points())
def test_decoder_given_the_simplex_state_is_that_state_whatever_x(drawn: tuple[Case, Tensor, Tensor]) -> None:
    case, w, _ = drawn
    anchors = torch.arange(case.size)
    for clean in (case.x, (case.x + 1) % case.size):
        prior = F.marginal(clean, case.alpha_t, case.pi).log()
        likelihood = F.simplex_conditional(clean, anchors, case.alpha_t, case.eta, case.pi).log_prob(w)
        torch.testing.assert_close(torch.softmax(prior + likelihood, -1), w, **EXACT)


def _joint_with_state(case: Case, w_t: Tensor) -> Tensor:
    """q(z_s = i, z_t = j, w_t | x) up to a factor, by the factorisation of the graphical model."""
    table = definitions.joint(case.clean, *case.step)
    density = definitions.shifted_density(case.clean, w_t, case.alpha_t, case.eta, case.pi)
    return table * density / density.max()


@thorough
@given(points())
def test_lifted_posterior_is_bayes_rule_with_dirichlet_likelihoods(
    drawn: tuple[Case, Tensor, Tensor],
) -> None:
    case, w_t, _ = drawn
    table = _joint_with_state(case, w_t).sum(1)
    torch.testing.assert_close(F.lifted_posterior(case.x, w_t, *case.step), table / table.sum(), **EXACT)


@thorough
@given(points())
def test_bridges_are_bayes_rule_on_the_graphical_model(drawn: tuple[Case, Tensor, Tensor]) -> None:
    case, w_t, w_s = drawn
    arriving = definitions.shifted_density(case.clean, w_s, case.alpha_s, case.eta, case.pi)
    for j in range(case.size):
        column = definitions.joint(case.clean, *case.step)[:, j]
        law = F.simplex_bridge(case.x, torch.tensor(j), case.alpha_s, case.alpha_t, case.eta, case.pi)
        expected = (column * arriving).sum() / column.sum()
        torch.testing.assert_close(law.log_prob(w_s), expected.log(), **EXACT)
    table = _joint_with_state(case, w_t).sum(1)
    law = F.simplex_bridge(case.x, w_t, case.alpha_s, case.alpha_t, case.eta, case.pi)
    torch.testing.assert_close(law.log_prob(w_s), ((table * arriving).sum() / table.sum()).log(), **EXACT)


@pytest.mark.parametrize("eta", [0.3, 2.0, 30.0])
def test_densities_are_normalised(eta: float) -> None:
    """Two categories: integrate over the log-odds of w, where the trapezoid rule converges geometrically."""
    pi = torch.tensor([0.3, 0.7], dtype=torch.float64)
    x, state = torch.tensor(0), torch.tensor([0.6, 0.4], dtype=torch.float64)
    u = torch.linspace(-700 / min(eta, 1), 700 / min(eta, 1), 400_001, dtype=torch.float64)
    log_w = torch.stack([torch.nn.functional.logsigmoid(u), torch.nn.functional.logsigmoid(-u)], -1)
    laws = [
        F.simplex_marginal(x, 0.4, eta, pi),
        F.simplex_conditional(x, torch.tensor(1), 0.4, eta, pi),
        F.simplex_bridge(x, torch.tensor(1), 0.7, 0.4, eta, pi),
        F.simplex_bridge(x, state, 0.7, 0.4, eta, pi),
    ]
    for law in laws:
        mass = (law.log_density(log_w) + log_w.sum(-1)).exp().sum() * (u[1] - u[0])
        assert float(mass) == pytest.approx(1.0, abs=1e-9)


def _laws(eta: float) -> dict[str, F.DirichletMixture]:
    pi = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    state = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64)
    x, z = torch.tensor(2), torch.tensor(1)
    return {
        "marginal": F.simplex_marginal(x, 0.5, eta, pi),
        "conditional": F.simplex_conditional(x, z, 0.5, eta, pi),
        "bridge_z": F.simplex_bridge(x, z, 0.7, 0.4, eta, pi),
        "bridge_w": F.simplex_bridge(x, state, 0.7, 0.4, eta, pi),
    }


@pytest.mark.parametrize("eta", [0.5, 2.0, 20.0])
@pytest.mark.parametrize("name", ["marginal", "conditional", "bridge_z", "bridge_w"])
def test_samples_have_the_law_of_the_density(name: str, eta: float) -> None:
    law, n = _laws(eta)[name], 20_000
    w = law.sample((n,), generator=torch.Generator().manual_seed(11))
    torch.testing.assert_close(w.sum(-1), torch.ones(n, dtype=torch.float64))
    error = (w.mean(0) - law.mean) / (law.variance / n).sqrt()
    p_values = {f"mean of {k}": float(2 * stats.norm.sf(abs(float(error[k])))) for k in range(4)}
    total = float(law.concentration.sum())
    for k in range(4):
        weight, a = float(law.weights[k]), float(law.concentration[k])

        def cdf(v: np.ndarray, weight: float = weight, a: float = a) -> np.ndarray:
            own, other = stats.beta.cdf(v, a + 1, total - a), stats.beta.cdf(v, a, total - a + 1)
            return weight * own + (1 - weight) * other

        p_values[f"law of {k}"] = float(stats.kstest(w[:, k].numpy(), cdf).pvalue)
    accept(p_values)


def test_variance_is_the_second_moment() -> None:
    law = _laws(1.0)["bridge_w"]
    a = law.concentration + torch.eye(4, dtype=torch.float64)
    components = Dirichlet(a)
    second = (law.weights[:, None] * (components.variance + components.mean**2)).sum(0)
    torch.testing.assert_close(law.variance, second - (law.weights[:, None] * components.mean).sum(0) ** 2)


@pytest.mark.parametrize("eta", [0.01, 1.0])
def test_a_decode_of_the_simplex_state_has_the_marginal_law_of_the_process(eta: float) -> None:
    pi = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    x, n = torch.tensor(2), 20_000
    generator = torch.Generator().manual_seed(5)
    w = F.simplex_marginal(x, 0.5, eta, pi).sample((n,), generator=generator)
    z = torch.multinomial(w, 1, generator=generator).squeeze(-1)
    accept([chi_square(torch.bincount(z, minlength=4).numpy(), F.marginal(x, 0.5, pi).numpy())])


def test_tiny_concentrations_of_a_large_vocabulary_give_finite_log_samples() -> None:
    size, eta = 50_257, 0.01
    law = F.simplex_marginal(torch.arange(8), 0.5, eta, torch.full((size,), 1 / size, dtype=torch.float64))
    generator = torch.Generator().manual_seed(3)
    for log_w in (law.log_sample(generator), log_dirichlet_sample(law.concentration, generator)):
        assert bool(log_w.isfinite().all())
        torch.testing.assert_close(torch.logsumexp(log_w, -1), torch.zeros(8, dtype=torch.float64))
        assert float(log_w.max(-1).values.exp().median()) > 0.9
        assert bool(law.log_density(log_w).isfinite().all())
    w = law.sample(generator=generator)
    assert bool(w.isfinite().all()) and bool((w.sum(-1) - 1).abs().max() < 1e-12)
    assert bool(law.log_prob(w).isfinite().all())


def test_tiny_concentrations_keep_the_law_of_logarithms() -> None:
    """Two categories with a = (1e-3, 2e-3): P(log w_1 < c) from the Beta law, far below what a float could hold."""
    n = 20_000
    log_w = log_dirichlet_sample(
        torch.tensor([1e-3, 2e-3], dtype=torch.float64).expand(n, 2), torch.Generator().manual_seed(9)
    )
    # for c far below zero, P(w_1 < e^c) = e^(c a) / (a B(a, b))
    a, b = 1e-3, 2e-3
    p_values = {}
    for c in (-2000.0, -800.0, -100.0):
        chance = math.exp(c * a - math.log(a) - (math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)))
        hits = int((log_w[:, 0] < c).sum())
        p_values[f"below {c}"] = float(stats.binomtest(hits, n, chance).pvalue)
    accept(p_values)


def test_shapes_expansion_and_reproducibility() -> None:
    law = F.simplex_marginal(
        torch.zeros(2, 3, dtype=torch.long), torch.tensor([[0.1], [0.6]]), 0.5, torch.ones(5) / 5
    )
    assert law.batch_shape == (2, 3) and law.event_shape == (5,)
    draws = [law.sample((7,), generator=torch.Generator().manual_seed(1)) for _ in range(2)]
    assert draws[0].shape == (7, 2, 3, 5) and draws[0].dtype == torch.float32
    assert torch.equal(draws[0], draws[1])
    assert law.log_prob(draws[0]).shape == (7, 2, 3) and bool(law.log_prob(draws[0]).isfinite().all())
    assert law.expand((4, 2, 3)).sample().shape == (4, 2, 3, 5)
    assert law.sample((0,)).shape == (0, 2, 3, 5)
    assert F.simplex_marginal(torch.tensor(1), 0.3, 0.5, torch.ones(5) / 5).sample().shape == (5,)


@thorough
@given(sizes, concentrations)
def test_log_prob_at_a_face_where_the_power_vanishes(size: int, eta: float) -> None:
    """A concentration of exactly one has density w^0: finite on its face, not 0 * infinity."""
    a = torch.full((size,), eta, dtype=torch.float64)
    a[0] = 1.0
    w = torch.full((size,), 1 / (size - 1), dtype=torch.float64)
    w[0] = 0.0
    law = F.DirichletMixture(a / a.sum(), a)
    torch.testing.assert_close(law.log_prob(w), Dirichlet(a).log_prob(w), **EXACT)
