"""Appendix E: the surrogates against sums over anchors, targets and shifted Dirichlets, and the bounds among them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats
from torch import Tensor
from torch.distributions import Dirichlet, kl_divergence

import definitions
from failure_budget import accept
from simplax import functional as F
from simplax.functional._stable import kl as package_kl
from strategies import Case, cases, concentrations, priors, probabilities, random_batch, sizes, thorough

EXACT = {"rtol": 1e-10, "atol": 1e-10}


def _same_step(case: Case) -> dict[str, object]:
    return {
        "x": case.x,
        "x_hat": case.x_hat,
        "w_t": case.w,
        "alpha_s": case.alpha_s,
        "alpha_t": case.alpha_t,
        "pi": case.pi,
    }


@thorough
@given(cases())
def test_tight_discrete_is_the_kl_of_enumerated_lifted_posteriors(case: Case) -> None:
    rho, rho_hat = (definitions.lifted(v, case.w, *case.step) for v in (case.clean, case.x_hat))
    torch.testing.assert_close(F.tight_discrete(**_same_step(case)), definitions.kl(rho, rho_hat), **EXACT)


@thorough
@given(cases(simplex_at_s=True))
def test_simplex_matching_is_the_average_of_shifted_dirichlet_kls(case: Case) -> None:
    rho = definitions.lifted(case.clean, case.w, *case.step)
    by_target = definitions.shifted_kls(case.clean, case.x_hat, case.alpha_s, case.eta, case.pi)
    value = F.simplex_matching(**_same_step(case), eta_s=case.eta)
    torch.testing.assert_close(value, (rho * by_target).sum(), **EXACT)


@thorough
@given(cases(simplex_at_s=True))
def test_simplex_limit_is_the_matching_term_at_the_decoder(case: Case) -> None:
    by_target = definitions.shifted_kls(case.clean, case.x_hat, case.alpha_t, case.eta, case.pi)
    value = F.simplex_limit(case.x, case.x_hat, case.w, case.alpha_t, case.eta, case.pi)
    torch.testing.assert_close(value, (case.w * by_target).sum(), **EXACT)


@thorough
@given(cases(simplex_at_s=True))
def test_shifting_a_dirichlet_pair_changes_its_kl_by_the_ratio_term(case: Case) -> None:
    p, p_hat = (definitions.marginal_at(v, case.alpha_s, case.pi) for v in (case.clean, case.x_hat))
    unshifted = F.dirichlet_kl(case.eta * p, case.eta * p_hat)
    shifted = unshifted + p_hat.log() - p.log() + 1 - p_hat / p
    expected = definitions.shifted_kls(case.clean, case.x_hat, case.alpha_s, case.eta, case.pi)
    torch.testing.assert_close(shifted, expected, **EXACT)


@thorough
@given(cases(simplex_at_s=True))
def test_mean_log_ratio_of_dirichlets_under_a_shifted_one(case: Case) -> None:
    """By the log-moments of the shifted law; it differs from the unshifted KL by 1 - p_hat_k / p_k."""
    a, b = (case.eta * definitions.marginal_at(v, case.alpha_s, case.pi) for v in (case.clean, case.x_hat))
    normalisers = [torch.lgamma(v).sum() - torch.lgamma(v.sum()) for v in (a, b)]
    mean = normalisers[1] - normalisers[0] + F.shifted_log_moments(a) @ (a - b)
    torch.testing.assert_close(mean, F.dirichlet_kl(a, b) + 1 - b / a, **EXACT)


@thorough
@given(cases(simplex_at_s=True))
def test_joint_objectives_are_kls_over_pairs_of_targets(case: Case) -> None:
    """KL over (z_s, w_s) by the chain rule on every z_s, tight from rho, loose from every decoded anchor."""
    by_target = definitions.shifted_kls(case.clean, case.x_hat, case.alpha_s, case.eta, case.pi)
    rho, rho_hat = (definitions.lifted(v, case.w, *case.step) for v in (case.clean, case.x_hat))
    tight = definitions.kl(rho, rho_hat) + (rho * by_target).sum()
    loose = torch.zeros((), dtype=torch.float64)
    for j in range(case.size):
        if case.w[j] > 0:
            r, r_hat = (definitions.posterior(v, j, *case.step) for v in (case.clean, case.x_hat))
            loose += case.w[j] * (definitions.kl(r, r_hat) + (r * by_target).sum())
    torch.testing.assert_close(F.tight_joint(**_same_step(case), eta_s=case.eta), tight, **EXACT)
    torch.testing.assert_close(F.loose_joint(**_same_step(case), eta_s=case.eta), loose, **EXACT)


def _two_concentrations(size: int) -> st.SearchStrategy[tuple[Tensor, Tensor]]:
    vector = st.tuples(probabilities(size, 2.0), concentrations).map(lambda pair: pair[0] * pair[1])
    return st.tuples(vector, vector)


@thorough
@given(sizes.flatmap(_two_concentrations))
def test_dirichlet_kl_is_the_known_divergence(pair: tuple[Tensor, Tensor]) -> None:
    a, b = pair
    torch.testing.assert_close(F.dirichlet_kl(a, b), kl_divergence(Dirichlet(a), Dirichlet(b)), **EXACT)
    assert float(F.dirichlet_kl(a, a)) == 0


# The interval between two categories by its log-odds u, where the trapezoid rule converges geometrically.
LOG_ODDS = np.linspace(-3000, 3000, 60_001)
LOG_W = np.stack([-np.logaddexp(0, -LOG_ODDS), -np.logaddexp(0, LOG_ODDS)], -1)
LOG_CELL = LOG_W.sum(-1) + np.log(LOG_ODDS[1] - LOG_ODDS[0])


def _log_beta(a: np.ndarray) -> np.ndarray:
    """Log density of Dir(a), two categories, over the grid."""
    return ((a - 1) * LOG_W).sum(-1) - special.betaln(a[0], a[1])


@pytest.mark.parametrize("a, b", [((0.8, 2.5), (1.4, 0.9)), ((3.0, 1.0), (2.0, 5.0))])
def test_dirichlet_kl_is_an_integral(a: tuple[float, float], b: tuple[float, float]) -> None:
    p, q = _log_beta(np.array(a)), _log_beta(np.array(b))
    kl = F.dirichlet_kl(torch.tensor(a, dtype=torch.float64), torch.tensor(b, dtype=torch.float64))
    assert float(kl) == pytest.approx(np.sum(np.exp(p + LOG_CELL) * (p - q)), rel=1e-10)


@pytest.mark.parametrize("concentration", [[0.9, 1.7, 2.2], [1.5, 0.3, 0.7, 2.0]])
def test_shifted_log_moments_are_integrals(concentration: list[float]) -> None:
    """Every coordinate of a Dirichlet has a Beta law, so its log-moment is an integral over the interval."""
    moments = F.shifted_log_moments(torch.tensor(concentration, dtype=torch.float64))
    total = sum(concentration) + 1
    for k in range(len(concentration)):
        for j in range(len(concentration)):
            a = concentration[j] + (j == k)
            expected = np.sum(np.exp(_log_beta(np.array([a, total - a])) + LOG_CELL) * LOG_W[:, 0])
            assert float(moments[k, j]) == pytest.approx(expected, rel=1e-10)


@thorough
@given(cases(simplex_at_s=True))
def test_every_tractable_bound_holds(case: Case) -> None:
    step = _same_step(case)
    tight, loose = F.tight_discrete(**step), F.relaxed_bridge(**step)
    tight_joint, loose_joint = (f(**step, eta_s=case.eta) for f in (F.tight_joint, F.loose_joint))
    slack = 1e-12 * (1 + float(loose_joint))
    assert float(tight) <= float(tight_joint) + slack
    assert float(tight_joint) <= float(loose_joint) + slack
    assert float(tight) <= float(loose) + slack
    assert float(loose) <= float(loose_joint) + slack
    assert float(F.simplex_matching(**step, eta_s=case.eta)) >= -slack


@pytest.mark.parametrize("size, eta", [(2, 0.05), (3, 1.0), (5, 10.0)])
def test_both_intractable_bounds_hold_within_monte_carlo_error(size: int, eta: float) -> None:
    """Also at the vertices of the simplex, where the decoded objective is the one of a single anchor."""
    drawn = random_batch(size, 40, size=size)
    drawn["w_t"][:size] = torch.eye(size, dtype=torch.float64)
    arguments = {**drawn, "alpha_s": 0.8, "alpha_t": 0.4, "eta_s": eta}
    for decoded, bound in ((False, F.tight_joint), (True, F.loose_joint)):
        generator = torch.Generator().manual_seed(7)
        estimate = F.estimate_simplex_kl(**arguments, decoded=decoded, num_samples=4000, generator=generator)
        assert bool((estimate.value - 5 * estimate.standard_error <= bound(**arguments)).all())
        assert bool((estimate.value > -5 * estimate.standard_error).all())
        assert bool((estimate.standard_error > 0).all())


def _log_bridge(clean: Tensor, law: Tensor, alpha_s: float, eta: float, pi: Tensor) -> np.ndarray:
    """Log density over the grid of the mixture of shifted Dirichlets with weights `law`."""
    a = eta * definitions.marginal_at(clean, alpha_s, pi).numpy()
    return np.logaddexp(*(np.log(float(law[k])) + _log_beta(a + np.eye(2)[k]) for k in range(2)))


@pytest.mark.parametrize("seed", range(4))
def test_joint_objectives_are_integrals_over_both_targets(seed: int) -> None:
    """KL over (z_s, w_s) straight from the joint densities of two categories, with no chain rule."""
    drawn = random_batch(seed, size=2)
    clean, hat, w, pi = (
        torch.eye(2, dtype=torch.float64)[drawn["x"]],
        drawn["x_hat"],
        drawn["w_t"],
        drawn["pi"],
    )
    alpha_s, alpha_t, eta = 0.7, 0.3, 0.8

    def joint_kl(law: Tensor, law_hat: Tensor) -> float:
        total = 0.0
        for k in range(2):
            p, q = (
                np.log(float(v[k]))
                + _log_beta(eta * definitions.marginal_at(c, alpha_s, pi).numpy() + np.eye(2)[k])
                for v, c in ((law, clean), (law_hat, hat))
            )
            total += float(np.sum(np.exp(p + LOG_CELL) * (p - q)))
        return total

    step = (alpha_s, alpha_t, pi)
    tight = joint_kl(*(definitions.lifted(v, w, *step) for v in (clean, hat)))
    anchors = [joint_kl(*(definitions.posterior(v, j, *step) for v in (clean, hat))) for j in range(2)]
    loose = sum(float(w[j]) * anchors[j] for j in range(2))
    times = {"alpha_s": alpha_s, "alpha_t": alpha_t, "eta_s": eta}
    assert float(F.tight_joint(**drawn, **times)) == pytest.approx(tight, rel=1e-9)
    assert float(F.loose_joint(**drawn, **times)) == pytest.approx(loose, rel=1e-9)


@pytest.mark.parametrize("decoded", [False, True])
def test_monte_carlo_estimates_agree_with_quadrature(decoded: bool) -> None:
    """For two categories the simplex is an interval and both intractable KLs are one-dimensional integrals."""
    arguments = random_batch(3, 6, size=2)
    alpha_s, alpha_t, eta, pi = 0.7, 0.3, 2.0, arguments["pi"]
    times = {"alpha_s": alpha_s, "alpha_t": alpha_t, "eta_s": eta}
    generator = torch.Generator().manual_seed(1)
    estimate = F.estimate_simplex_kl(
        **arguments, **times, decoded=decoded, num_samples=20_000, generator=generator
    )
    p_values = []
    for i in range(6):
        clean, hat = torch.eye(2, dtype=torch.float64)[arguments["x"][i]], arguments["x_hat"][i]
        w = arguments["w_t"][i]
        anchors = [(float(w[j]), definitions.posterior, j) for j in range(2)]
        expected = 0.0
        for weight, condition, state in anchors if decoded else [(1.0, definitions.lifted, w)]:
            p, q = (
                _log_bridge(v, condition(v, state, alpha_s, alpha_t, pi), alpha_s, eta, pi)
                for v in (clean, hat)
            )
            expected += weight * float(np.sum(np.exp(p + LOG_CELL) * (p - q)))
        error = abs(float(estimate.value[i]) - expected) / float(estimate.standard_error[i])
        p_values.append(2 * stats.norm.sf(error))
    accept(p_values)


def _three(size: int) -> st.SearchStrategy[list[Tensor]]:
    return st.lists(probabilities(size, 3.0), min_size=size + 2, max_size=size + 2)


@thorough
@given(sizes.flatmap(_three))
def test_kl_inequalities_that_the_proofs_use(laws: list[Tensor]) -> None:
    """Data processing, marginalisation and joint convexity, on random tables."""
    p, q, kernel = laws[0], laws[1], torch.stack(laws[2:])

    def kl(a: Tensor, b: Tensor) -> Tensor:
        return package_kl(a.flatten(), b.flatten(), (b.log() - a.log()).flatten())

    assert float(kl(p @ kernel, q @ kernel)) <= float(kl(p, q)) + 1e-12
    pairs, pairs_hat = p[:, None] * kernel, q[:, None] * kernel.flip(0)
    assert float(kl(pairs.sum(1), pairs_hat.sum(1))) <= float(kl(pairs, pairs_hat)) + 1e-12
    mixed = float(kl(p @ kernel, p @ kernel.flip(0)))
    assert mixed <= float(sum(p[i] * kl(kernel[i], kernel.flip(0)[i]) for i in range(len(p)))) + 1e-12
    torch.testing.assert_close(kl(p, q), definitions.kl(p, q), **EXACT)


@thorough
@given(sizes.flatmap(priors), st.floats(0.05, 0.9))
def test_all_surrogates_vanish_at_the_truth(pi: Tensor, alpha: float) -> None:
    size = len(pi)
    clean = torch.eye(size, dtype=torch.float64)
    arguments = {"x": torch.arange(size), "x_hat": clean, "w_t": pi.expand(size, size), "pi": pi}
    zero = torch.zeros(size, dtype=torch.float64)
    for objective in (F.simplex_matching, F.tight_joint, F.loose_joint):
        torch.testing.assert_close(objective(**arguments, alpha_s=alpha, alpha_t=alpha / 2, eta_s=0.3), zero)
    assert torch.equal(F.tight_discrete(**arguments, alpha_s=alpha, alpha_t=alpha / 2), zero)
    torch.testing.assert_close(F.simplex_limit(**arguments, alpha_t=alpha, eta_t=0.3), zero)
