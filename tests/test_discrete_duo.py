"""Duo: the law of the arg-max, its two latents, the curriculum."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import failure_budget
from simplax import functional as F
from simplax.methods import Curriculum
from simplax.processes.gaussian import (
    alpha_and_slope,
    dense_latent,
    largest_normals,
    log_tail,
    other_ids,
    sparse_latent,
)
from simplax.random import Keys

GAMMAS = {3: (-4.0, 0.0, 4.0), 12: (-5.0, -2.0, 1.0, 5.0), 50257: (-5.0, -3.55, -2.5, -1.0, 2.0)}


@pytest.mark.parametrize("size", GAMMAS)
def test_alpha_by_adaptive_quadrature(size: int) -> None:
    from scipy.integrate import quad
    from scipy.special import log_ndtr

    for gamma in GAMMAS[size]:
        mu = math.exp(-gamma / 2)

        def integrand(u: float, mu: float = mu) -> float:
            return math.exp(-0.5 * (u - mu) ** 2 + (size - 1) * log_ndtr(u)) / math.sqrt(2 * math.pi)

        chance = quad(integrand, mu - 12, mu + 12, points=[mu, mu + 2], epsabs=1e-13, limit=400)[0]
        assert float(F.duo_alpha(gamma, size)) == pytest.approx((size * chance - 1) / (size - 1), abs=1e-11)


def test_two_categories_have_a_closed_form() -> None:
    """With K = 2 the arg-max compares two normals: P = Phi(mu / sqrt 2)."""
    gamma = torch.linspace(-8, 8, 33, dtype=torch.float64)
    chance = torch.special.ndtr(torch.exp(-gamma / 2) / math.sqrt(2))
    torch.testing.assert_close(F.duo_alpha(gamma, 2), 2 * chance - 1, rtol=0, atol=1e-14)


@pytest.mark.parametrize("size", GAMMAS)
def test_derivative_and_table(size: int) -> None:
    low, high = F.duo_gamma_range(size)
    gamma = torch.linspace(low, high, 97, dtype=torch.float64)
    step = 1e-4
    slope = (F.duo_alpha(gamma + step, size) - F.duo_alpha(gamma - step, size)) / (2 * step)
    torch.testing.assert_close(F.duo_alpha_derivative(gamma, size), slope, rtol=0, atol=1e-7)
    alpha, interpolated = alpha_and_slope(gamma, size, low, high)
    torch.testing.assert_close(alpha, F.duo_alpha(gamma, size), rtol=0, atol=1e-10)
    torch.testing.assert_close(interpolated, F.duo_alpha_derivative(gamma, size), rtol=0, atol=1e-8)


@pytest.mark.parametrize("size", [2, 3, 4, 12, 50257])
def test_gamma_range_spans_the_published_noise(size: int) -> None:
    low, high = F.duo_gamma_range(size)
    assert float(F.duo_alpha(low, size)) == pytest.approx(0.945474, abs=1e-6)
    assert float(F.duo_alpha(high, size)) == pytest.approx(0.049318, abs=1e-6)


def uniform_law(alpha: float, size: int) -> np.ndarray:
    law = np.full(size, (1 - alpha) / size)
    law[0] += alpha
    return law


def test_argmax_follows_the_uniform_process() -> None:
    """By simulation, in both latents; every id but the clean one is as likely as another."""
    p_values, size, count = {}, 6, 40_000
    x = torch.zeros(count, 1, dtype=torch.long)
    for gamma in (-2.0, 0.0, 2.0):
        level = torch.full((count,), gamma, dtype=torch.float64)
        keys = Keys.from_seeds(torch.arange(count)).fold_in(int(gamma))
        law = uniform_law(float(F.duo_alpha(gamma, size)), size)
        drawn = {"dense": dense_latent(x, level, size, 1e-3, keys)[1]}
        for k in (1, 2, 3, 5):
            drawn[f"top {k}"] = sparse_latent(x, level, size, 1e-3, k, keys)[1]
        for name, z in drawn.items():
            counts = torch.bincount(z.flatten(), minlength=size)
            p_values[f"{name} at {gamma}"] = failure_budget.chi_square(counts, law)
    failure_budget.accept(p_values)


def test_argmax_is_the_largest_weight() -> None:
    keys = Keys.from_seeds(torch.arange(500))
    x, gamma = torch.full((500, 4), 7), torch.linspace(-3, 3, 500)
    atoms, z = sparse_latent(x, gamma, 20, 0.3, 4, keys)
    assert torch.equal(atoms.ids.gather(-1, atoms.weights.argmax(-1, keepdim=True)).squeeze(-1), z)
    dense, z = dense_latent(x, gamma, 20, 0.3, keys)
    assert torch.equal(dense.w.argmax(-1), z)


def test_order_statistics() -> None:
    """The j-th largest of n uniforms is Beta(n - j + 1, j)."""
    from scipy.stats import beta, kstest

    n, u = 9, Keys.from_seeds(torch.arange(20_000)).uniform(9)
    levels = torch.special.ndtr(largest_normals(n, u))
    failure_budget.accept([kstest(levels[:, j].numpy(), beta(n - j, j + 1).cdf).pvalue for j in range(n)])


def test_order_statistics_keep_their_digits_near_one() -> None:
    from scipy.stats import norm

    first = largest_normals(50_256, torch.tensor([[1 - 1e-12, 0.5]], dtype=torch.float64))[0]
    assert float(first[0]) == pytest.approx(norm.isf(1e-12 / 50_256), abs=1e-4)
    assert torch.isfinite(first).all() and first[1] < first[0]


def test_other_ids_are_distinct_and_in_uniform_order() -> None:
    size, count = 5, 60_000
    x = torch.full((count,), 2)
    ids = other_ids(x, size, Keys.from_seeds(torch.arange(count)).uniform(3))
    assert (ids != 2).all()
    assert (ids.sort(-1).values.diff(dim=-1) > 0).all()
    place = torch.bincount(ids[:, 0] * 25 + ids[:, 1] * 5 + ids[:, 2], minlength=125)
    counts = place[place > 0]
    assert len(counts) == 4 * 3 * 2
    failure_budget.accept([failure_budget.chi_square(counts, np.full(24, 1 / 24))])


def test_sparse_weights_are_those_of_the_full_softmax() -> None:
    size, count = 8, 40_000
    x = torch.zeros(count, 1, dtype=torch.long)
    gamma = torch.zeros(count, dtype=torch.float64)
    keys = Keys.from_seeds(torch.arange(count))
    dense, _ = dense_latent(x, gamma, size, 0.5, keys.fold_in(0))
    full = dense.w[:, 0]
    for k, tolerance in {7: 0.0, 3: 0.004}.items():
        atoms, _ = sparse_latent(x, gamma, size, 0.5, k, keys.fold_in(k))
        weights = atoms.weights[:, 0]
        if k == size - 1:
            torch.testing.assert_close(weights.sum(-1), torch.ones(count, dtype=torch.float64))
        # the clean token's weight, and the largest of the others: same mean up to the tail's fluctuation
        for ours, theirs in ((weights[:, 0], full[:, 0]), (weights[:, 1], full[:, 1:].max(-1).values)):
            error = 5 * float((ours.var() + theirs.var()) / count) ** 0.5
            assert abs(float(ours.mean() - theirs.mean())) < error + tolerance


def test_tail_mean() -> None:
    from scipy.integrate import quad
    from scipy.stats import norm

    for cut, scale in ((0.3, 1.5), (-1.0, 0.7), (4.0, 2.0)):
        mass = quad(lambda v, s=scale: math.exp(v) * norm.pdf(v / s) / s, -40, cut)[0] / norm.cdf(cut / scale)
        found = log_tail(torch.tensor(cut).double(), torch.tensor(scale).double(), 11)
        assert float(found) == pytest.approx(math.log(11 * mass), abs=1e-7)
    cold = log_tail(torch.tensor(4000.0).double(), torch.tensor(1000.0).double(), 50_000)
    assert torch.isfinite(cold) and float(cold) < 4000 + math.log(50_000)


def test_curriculum_temperature() -> None:
    curriculum = Curriculum(start=100, end=200, log10_temperature=(-1.0, -2.0))
    for step, log10 in {0: -1.0, 100: -1.0, 150: -1.5, 199: -1.99, 200: -2.0}.items():
        assert math.log10(curriculum.temperature(step)) == pytest.approx(log10)


@pytest.mark.parametrize("options", [{"start": 5, "end": 2}, {"top_k": 0}, {"gammas": (1.0, -1.0)}])
def test_impossible_curricula_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"curriculum|top_k|gammas"):
        Curriculum(**options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="top_k"):
        sparse_latent(torch.zeros(1, 1).long(), torch.zeros(1), 4, 0.1, 4, Keys.from_seeds([0]))
