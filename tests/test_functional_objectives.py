"""The bridge objectives against sums over decoded anchors, and the continuous-time density against jump rates."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import definitions
from simplax import functional as F
from strategies import Case, cases, priors, sizes, thorough

EXACT = {"rtol": 1e-10, "atol": 1e-10}


@thorough
@given(cases())
def test_discrete_bridge_kl_is_the_kl_of_enumerated_posteriors(case: Case) -> None:
    for j in range(case.size):
        value = F.discrete_bridge_kl(case.x, case.x_hat, torch.tensor(j), *case.step)
        torch.testing.assert_close(
            value, definitions.bridge_kl(case.clean, case.x_hat, j, *case.step), **EXACT
        )


@thorough
@given(cases())
def test_relaxed_bridge_is_the_double_sum_over_anchors_and_targets(case: Case) -> None:
    value = F.relaxed_bridge(case.x, case.x_hat, case.w, *case.step)
    torch.testing.assert_close(
        value, definitions.relaxed_bridge(case.clean, case.x_hat, case.w, *case.step), **EXACT
    )


@thorough
@given(cases())
def test_relaxed_bridge_is_the_papers_closed_form(case: Case) -> None:
    p_t, p_hat_t = (F.marginal(v, case.alpha_t, case.pi) for v in (case.x, case.x_hat))
    p_s, p_hat_s = (F.marginal(v, case.alpha_s, case.pi) for v in (case.x, case.x_hat))
    rho = F.lifted_posterior(case.x, case.w, *case.step)
    now = (case.w * (p_hat_t.log() - p_t.log())).sum()
    later = (torch.xlogy(rho, p_s) - torch.xlogy(rho, p_hat_s)).sum()
    torch.testing.assert_close(F.relaxed_bridge(case.x, case.x_hat, case.w, *case.step), now + later, **EXACT)


@thorough
@given(cases(simplex_at_s=True))
def test_terms_without_the_prediction_are_constant(case: Case) -> None:
    """The bridge minus its terms in x_hat is the same number for every prediction."""
    rho = F.lifted_posterior(case.x, case.w, *case.step)
    rest = []
    for hat in (case.x_hat, case.pi):
        p_hat_t, p_hat_s = (F.marginal(hat, alpha, case.pi) for alpha in (case.alpha_t, case.alpha_s))
        network = (case.w * p_hat_t.log()).sum() - (rho * p_hat_s.log()).sum()
        rest.append(F.relaxed_bridge(case.x, hat, case.w, *case.step) - network)
    torch.testing.assert_close(rest[0], rest[1], **EXACT)


@thorough
@given(cases())
def test_log_posterior_ratio_splits_into_the_two_times(case: Case) -> None:
    p_t, p_hat_t = (F.marginal(v, case.alpha_t, case.pi) for v in (case.x_hat, case.w))
    p_s, p_hat_s = (F.marginal(v, case.alpha_s, case.pi) for v in (case.x_hat, case.w))
    for j in range(case.size):
        r, r_hat = (
            F.reverse_posterior(v, torch.tensor(j), *case.step) * n[j]
            for v, n in ((case.x_hat, p_t), (case.w, p_hat_t))
        )
        torch.testing.assert_close(r * p_hat_s, r_hat * p_s, **EXACT)


@thorough
@given(cases())
def test_relaxed_bridge_at_a_vertex_is_the_discrete_bridge(case: Case) -> None:
    vertex = torch.eye(case.size, dtype=torch.float64)
    relaxed = F.relaxed_bridge(case.x, case.x_hat, vertex, *case.step)
    discrete = F.discrete_bridge_kl(case.x, case.x_hat, torch.arange(case.size), *case.step)
    torch.testing.assert_close(relaxed, discrete, **EXACT)


@thorough
@given(cases(simplex_at_s=True), st.floats(0.1, 20.0))
def test_restored_rate_is_the_divergence_of_jump_processes(case: Case, rate: float) -> None:
    a = definitions.jump_rates(case.clean, case.alpha_t, rate, case.pi)
    b = definitions.jump_rates(case.x_hat, case.alpha_t, rate, case.pi)
    by_anchor = definitions.jump_divergence(a, b)
    value = F.relaxed_bridge_rate(case.x, case.x_hat, case.w, case.alpha_t, rate, case.pi)
    torch.testing.assert_close(value, (case.w * by_anchor).sum(), **EXACT)
    anchors = torch.arange(case.size)
    udlm = F.uniform_rate(case.x, case.x_hat, anchors, case.alpha_t, rate, case.pi)
    torch.testing.assert_close(udlm, by_anchor, **EXACT)


def test_jump_rates_are_those_of_the_process() -> None:
    """The rates used above, from the process itself: the chance to move over a step, divided by its length."""
    pi = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
    hat = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)
    alpha, step = 0.4, 1e-7
    alpha_s = alpha * math.exp(2.5 * step)
    moves = torch.stack([definitions.posterior(hat, j, alpha_s, alpha, pi) for j in range(3)])
    rates = (moves - torch.diag(moves.diagonal())) / step
    torch.testing.assert_close(rates, definitions.jump_rates(hat, alpha, 2.5, pi), rtol=1e-5, atol=0)


@thorough
@given(cases(simplex_at_s=True), st.floats(0.1, 20.0))
def test_paper_rate_is_its_literal_expression_and_differs_by_a_constant(case: Case, rate: float) -> None:
    p, p_hat = (F.marginal(v, case.alpha_t, case.pi) for v in (case.x, case.x_hat))
    a = (case.w * case.pi / p_hat).sum()
    b = (case.w * case.pi / p).sum() * (p * p_hat.log()).sum()
    c = (case.pi * (case.w / p) * p_hat.log()).sum()
    arguments = (case.x, case.x_hat, case.w, case.alpha_t, rate, case.pi)
    literal = F.relaxed_bridge_rate(*arguments, restore_constants=False)
    torch.testing.assert_close(literal, rate * (a - b + c), **EXACT)
    constant = rate * (case.w * (case.pi / p) * (-1 + (p * p.log()).sum() - p.log())).sum()
    torch.testing.assert_close(literal + constant, F.relaxed_bridge_rate(*arguments), rtol=1e-10, atol=1e-9)


@thorough
@given(cases())
def test_objectives_are_non_negative_and_vanish_at_the_truth(case: Case) -> None:
    anchors = torch.arange(case.size)
    for hat in (case.x_hat, case.clean):
        values = [
            F.relaxed_bridge(case.x, hat, case.w, *case.step),
            F.relaxed_bridge_rate(case.x, hat, case.w, case.alpha_t, 2.0, case.pi),
            *F.discrete_bridge_kl(case.x, hat, anchors, *case.step),
            *F.uniform_rate(case.x, hat, anchors, case.alpha_t, 2.0, case.pi),
        ]
        assert all(float(value) >= 0 for value in values)
        assert hat is not case.clean or all(float(value) == 0 for value in values)


@thorough
@given(cases())
def test_objectives_are_linear_in_the_simplex_state(case: Case) -> None:
    vertices = torch.eye(case.size, dtype=torch.float64)
    bridge = F.relaxed_bridge(case.x, case.x_hat, vertices, *case.step)
    torch.testing.assert_close(
        F.relaxed_bridge(case.x, case.x_hat, case.w, *case.step), (case.w * bridge).sum(), **EXACT
    )
    density = F.relaxed_bridge_rate(case.x, case.x_hat, vertices, case.alpha_t, 1.5, case.pi)
    at_w = F.relaxed_bridge_rate(case.x, case.x_hat, case.w, case.alpha_t, 1.5, case.pi)
    torch.testing.assert_close(at_w, (case.w * density).sum(), **EXACT)


def _golden() -> dict[str, torch.Tensor]:
    b, position, v = torch.meshgrid(torch.arange(2), torch.arange(3), torch.arange(6), indexing="ij")
    logits = 2 * torch.sin((1 + 7 * b + 3 * position + 2 * v).double())
    alpha = 1 - 0.999 * torch.tensor([[0.25], [0.8]], dtype=torch.float64)
    return {
        "x": torch.tensor([[0, 2, 4], [1, 3, 5]]),
        "x_hat": torch.softmax(logits, -1),
        "alpha_t": alpha,
        "rate": 0.999 / alpha,
    }


def _close(value: torch.Tensor, expected: list[list[float]]) -> None:
    torch.testing.assert_close(value, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=6e-9)


def test_uniform_rate_golden_numbers() -> None:
    z = torch.tensor([[0, 3, 4], [2, 3, 0]])
    expected = [[0.24805737, 2.53397621, 0.42955607], [0.89786931, 1.73659209, 1.65638410]]
    _close(F.uniform_rate(z_t=z, **_golden()), expected)


def test_relaxed_rate_golden_numbers() -> None:
    w = (torch.arange(1, 7, dtype=torch.float64) / 21).expand(2, 3, 6)
    literal = [[-2.38321133, -1.84689809, -1.19977084], [5.42942034, 5.53092985, 5.52944443]]
    restored = [[4.36191136, 4.17850529, 4.10591325], [1.14532869, 1.27647535, 1.30462708]]
    _close(F.relaxed_bridge_rate(w_t=w, restore_constants=False, **_golden()), literal)
    _close(F.relaxed_bridge_rate(w_t=w, **_golden()), restored)


def _integrated_rate(x: int, pi: torch.Tensor, alpha_late: float, alpha_early: float) -> torch.Tensor:
    """Time integral of E[rate] with the prior as prediction, by Gauss-Legendre in alpha."""
    nodes, weights = np.polynomial.legendre.leggauss(400)
    # the substitution alpha = 1 - u^2 tames the logarithm at alpha = 1
    low, high = math.sqrt(1 - alpha_early), math.sqrt(1 - alpha_late)
    u = torch.tensor(0.5 * (high - low) * nodes + 0.5 * (high + low))
    alpha = 1 - u**2
    states = F.marginal(torch.tensor(x).expand(len(u)), alpha, pi)
    density = F.relaxed_bridge_rate(
        torch.tensor(x).expand(len(u)), pi.expand_as(states), states, alpha, 1 / alpha, pi
    )
    return (torch.tensor(0.5 * (high - low) * weights) * 2 * u * density).sum()


@pytest.mark.parametrize("size", [7, 1000])
def test_time_integral_of_the_rate_for_a_uniform_prediction(size: int) -> None:
    def kl_to_uniform(alpha: float) -> float:
        hit, miss = alpha + (1 - alpha) / size, (1 - alpha) / size
        return math.log(size) + hit * math.log(hit) + (size - 1) * miss * math.log(miss)

    uniform = torch.full((size,), 1 / size, dtype=torch.float64)
    integral = _integrated_rate(0, uniform, 1e-3, 0.999)
    assert float(integral) == pytest.approx(kl_to_uniform(0.999) - kl_to_uniform(1e-3), rel=1e-9)


@thorough
@given(sizes.flatmap(priors))
def test_time_integral_of_the_rate_when_the_prediction_is_the_prior(pi: torch.Tensor) -> None:
    x = len(pi) // 2
    ends = [definitions.kl(F.marginal(torch.tensor(x), alpha, pi), pi) for alpha in (0.01, 0.99)]
    torch.testing.assert_close(_integrated_rate(x, pi, 0.01, 0.99), ends[1] - ends[0], rtol=1e-9, atol=1e-12)
