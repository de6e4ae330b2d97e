"""The corruption process and its posteriors against enumeration of the joint law of (z_s, z_t)."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import definitions
from simplax import functional as F
from strategies import Case, cases, priors, sizes, thorough, vertices

EXACT = {"rtol": 1e-10, "atol": 1e-10}


@thorough
@given(cases())
def test_marginal_is_the_law_of_a_kept_or_redrawn_token(case: Case) -> None:
    kept, redrawn = case.alpha_t, 1 - case.alpha_t
    law = [kept * (j == int(case.x)) + redrawn * float(case.pi[j]) for j in range(case.size)]
    torch.testing.assert_close(
        F.marginal(case.x, case.alpha_t, case.pi), torch.tensor(law, dtype=torch.float64), **EXACT
    )


@thorough
@given(cases())
def test_forward_transition_matches_the_joint_and_composes_to_the_marginal(case: Case) -> None:
    table = definitions.joint(case.clean, *case.step)
    start = table.sum(1)
    for i in range(case.size):
        row = F.forward_transition(torch.tensor(i), *case.step)
        torch.testing.assert_close(start[i] * row, table[i], **EXACT)
    carried = F.forward_transition(F.marginal(case.x, case.alpha_s, case.pi), *case.step)
    torch.testing.assert_close(carried, F.marginal(case.x, case.alpha_t, case.pi), **EXACT)
    torch.testing.assert_close(table.sum(0), carried, **EXACT)


@thorough
@given(cases())
def test_reverse_posterior_is_bayes_rule_on_the_joint(case: Case) -> None:
    for j in range(case.size):
        for clean in (case.x, case.x_hat):
            law = F.reverse_posterior(clean, torch.tensor(j), *case.step)
            reference = definitions.posterior(case.clean if clean is case.x else clean, j, *case.step)
            torch.testing.assert_close(law, reference, **EXACT)
            torch.testing.assert_close(law.sum(), torch.ones_like(law.sum()), **EXACT)


@thorough
@given(cases())
def test_reverse_posterior_of_uncertain_evidence_is_bayes_rule_too(case: Case) -> None:
    evidence = definitions.joint(case.clean, *case.step) @ case.w
    torch.testing.assert_close(
        F.reverse_posterior(case.x, case.w, *case.step), evidence / evidence.sum(), **EXACT
    )


@thorough
@given(cases())
def test_lifted_posterior_averages_the_posteriors_of_decodes(case: Case) -> None:
    for clean in (case.x, case.x_hat):
        reference = definitions.lifted(case.clean if clean is case.x else clean, case.w, *case.step)
        torch.testing.assert_close(F.lifted_posterior(clean, case.w, *case.step), reference, **EXACT)


@thorough
@given(
    sizes.flatmap(lambda n: st.tuples(priors(n), vertices(n), st.integers(0, n - 1))), st.floats(0.01, 0.9)
)
def test_both_posteriors_agree_at_a_vertex(
    drawn: tuple[torch.Tensor, torch.Tensor, int], alpha_t: float
) -> None:
    pi, vertex, x = drawn
    alpha_s = 0.5 * (1 + alpha_t)
    law = F.lifted_posterior(torch.tensor(x), vertex, alpha_s, alpha_t, pi)
    torch.testing.assert_close(
        law, F.reverse_posterior(torch.tensor(x), vertex, alpha_s, alpha_t, pi), **EXACT
    )


def test_the_ends_of_the_process_are_exact() -> None:
    pi = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
    x, z, w = torch.tensor(1), torch.tensor(2), torch.tensor([0.1, 0.2, 0.7], dtype=torch.float64)
    clean = torch.tensor([0.0, 1.0, 0.0], dtype=torch.float64)
    assert torch.equal(F.marginal(x, 1.0, pi), clean)
    assert torch.equal(F.marginal(x, 0.0, pi), pi)
    # s = 0: the state is x whatever was seen; t = 1: what was seen says nothing
    torch.testing.assert_close(F.reverse_posterior(x, z, 1.0, 0.3, pi), clean, rtol=0, atol=1e-15)
    torch.testing.assert_close(F.lifted_posterior(x, w, 1.0, 0.3, pi), clean, rtol=0, atol=1e-15)
    torch.testing.assert_close(F.reverse_posterior(x, z, 0.4, 0.0, pi), F.marginal(x, 0.4, pi))
    torch.testing.assert_close(F.lifted_posterior(x, w, 0.4, 0.0, pi), F.marginal(x, 0.4, pi))


def test_uniform_posterior_golden_numbers() -> None:
    index = torch.arange(6, dtype=torch.float64)
    alpha_t, alpha_s = [1 - 0.999 * 0.25, 1 - 0.999 * 0.8], [0.9, 0.35]
    first = torch.softmax(2 * torch.sin(1 + 2 * index), -1)
    last = torch.softmax(2 * torch.sin(1 + 7 + 3 * 2 + 2 * index), -1)
    expected_first = [0.95195840, 0.00854095, 0.00211248, 0.02159677, 0.01374207, 0.00204933]
    expected_last = [0.77334348, 0.03777387, 0.03536560, 0.07781743, 0.04075406, 0.03494556]
    for hat, b, expected in ((first, 0, expected_first), (last, 1, expected_last)):
        law = F.reverse_posterior(hat, torch.tensor(0), alpha_s[b], alpha_t[b])
        torch.testing.assert_close(law, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=6e-9)


@pytest.mark.parametrize("step", [1e-2, 1e-4, 1e-6])
def test_short_steps_keep_their_digits_in_float32(step: float) -> None:
    alpha_t = torch.tensor(0.37)
    alpha_s = alpha_t + step
    x_hat, w = torch.tensor([0.1, 0.6, 0.3]), torch.tensor([0.0, 0.0, 1.0])
    law = F.lifted_posterior(x_hat, w, alpha_s, alpha_t)
    reference = F.lifted_posterior(x_hat.double(), w.double(), alpha_s.double(), alpha_t.double())
    # the chance to move, of the order of the step, not only the chance to stay
    torch.testing.assert_close(law.double()[:2], reference[:2], rtol=5e-6, atol=0)
