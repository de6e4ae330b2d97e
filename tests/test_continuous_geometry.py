"""Identities of arcs, tangents and flows, and of the splines that schedules are made of."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor

from simplax import functional as F
from simplax.functional._splines import pchip, pchip_derivative, smooth
from simplax.processes.embedding import ddim_step, noised
from simplax.processes.hybrid import revealed
from simplax.processes.prediction import Prediction
from simplax.processes.sphere import NEAR, corrupt, mean_tangent, step_fraction, uniform_points
from simplax.processes.vectors import unit
from simplax.random import Keys
from strategies import thorough

fractions = st.floats(0.0, 1.0)
seeds = st.integers(0, 10_000)


def points(seed: int, count: int, width: int) -> Tensor:
    return uniform_points(count, width, Keys.from_seeds([seed]))[0]


def away(a: Tensor, b: Tensor) -> bool:
    """Not so near, nor so nearly opposite, that the guards of the arc cosine are felt."""
    return bool(((a * b).sum(-1).abs() < 0.999).all())


def logarithm(z: Tensor, e: Tensor) -> Tensor:
    """Log_z(e) as the velocity under certainty."""
    return F.sphere_velocity(z, e, torch.ones(*z.shape[:-1], 1))


def move(z: Tensor, rows: Tensor, probs: Tensor, fraction: Tensor) -> Tensor:
    """A step of the sampler: a share of the way along the mean tangent vector."""
    return F.sphere_exp(z, fraction * mean_tangent(z, rows, Prediction(probs.log())))


@given(seeds, st.integers(2, 9), fractions)
@thorough
def test_arcs(seed: int, width: int, fraction: float) -> None:
    clean, noise = points(seed, 2, width)
    assume(away(clean, noise))
    between = F.slerp(clean, noise, fraction)
    angle = torch.acos(clean @ noise)
    assert float(between.norm()) == pytest.approx(1.0, abs=1e-12)
    assert float(clean @ between) == pytest.approx(math.cos(fraction * float(angle)), abs=1e-12)
    assert float(noise @ between) == pytest.approx(math.cos((1 - fraction) * float(angle)), abs=1e-12)
    torch.testing.assert_close(between, F.slerp(noise, clean, 1 - fraction), rtol=0, atol=1e-12)


@given(seeds, st.integers(2, 9), fractions)
@thorough
def test_exponential_undoes_logarithm_and_follows_the_arc(seed: int, width: int, fraction: float) -> None:
    z, e = points(seed, 2, width)
    assume(away(z, e))
    tangent = logarithm(z, e[None])
    assert float(tangent @ z) == pytest.approx(0.0, abs=1e-12)
    assert float(tangent.norm()) == pytest.approx(math.acos(float(z @ e)), abs=1e-12)
    torch.testing.assert_close(F.sphere_exp(z, tangent), e, rtol=0, atol=1e-9)
    assume(fraction > 1e-3)  # shorter moves than the guard are not normalised
    torch.testing.assert_close(
        F.sphere_exp(z, fraction * tangent), F.slerp(z, e, fraction), rtol=0, atol=1e-9
    )


@given(seeds, st.integers(2, 9), st.integers(2, 6))
@thorough
def test_velocity_is_the_mean_of_logarithms(seed: int, width: int, size: int) -> None:
    z, rows = points(seed, 3, width), points(seed + 1, size, width)
    probs = torch.softmax(Keys.from_seeds([seed]).normal(3, size, dtype=torch.float64)[0], -1)
    each = torch.stack([logarithm(z, row[None]) for row in rows], dim=1)
    expected = (probs.unsqueeze(-1) * each).sum(1)
    velocity = F.sphere_velocity(z, rows, probs)
    torch.testing.assert_close(velocity, expected, rtol=0, atol=1e-12)
    assert bool(((velocity * z).sum(-1).abs() < 1e-8).all())
    moved = F.sphere_exp(z, velocity)
    torch.testing.assert_close(moved.norm(dim=-1), torch.ones(3, dtype=torch.float64), rtol=0, atol=1e-10)


@given(seeds, st.integers(2, 9), st.integers(2, 6))
@thorough
def test_the_samplers_velocity_is_the_definition_in_the_precision_of_the_table(
    seed: int, width: int, size: int
) -> None:
    z, rows = points(seed, 3, width), points(seed + 1, size, width)
    # in float32 the angle to a token opposite is known to a few digits only, by either formula
    assume(bool(((z @ rows.T) > -0.99).all()))
    probs = torch.softmax(Keys.from_seeds([seed]).normal(3, size, dtype=torch.float64)[0], -1)
    expected = F.sphere_velocity(z, rows, probs)
    for dtype, tolerance in ((torch.float64, 1e-7), (torch.float32, 1e-5)):
        found = mean_tangent(z[None], rows.to(dtype), Prediction(probs.log()[None]))[0]
        assert found.dtype is torch.float64
        torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_samplers_velocity_near_a_token(dtype: torch.dtype) -> None:
    """Across the seam where the angle's ratio is taken from its series, the tangent is the arc itself."""
    e, away = torch.eye(4, dtype=torch.float64)[:2]
    for lack in (0.0, 1e-12, 1e-7, 0.5 * NEAR, 0.999 * NEAR, 1.001 * NEAR, 3 * NEAR, 0.1):
        angle = math.acos(1 - lack)
        z = math.cos(angle) * e + math.sin(angle) * away
        towards = math.cos(angle + math.pi / 2) * e + math.sin(angle + math.pi / 2) * away
        found = mean_tangent(z[None, None], e[None].to(dtype), Prediction(torch.zeros(1, 1, 1)))[0, 0]
        tolerance = 1e-6 if dtype is torch.float32 else 1e-9
        torch.testing.assert_close(found, -angle * towards, rtol=0, atol=tolerance)


@given(seeds, st.floats(0.001, 0.9), fractions)
@thorough
def test_a_certain_prediction_stays_on_the_path_of_the_sphere(
    seed: int, alpha_t: float, share: float
) -> None:
    """Were the token known, a step from alpha_t to alpha_s would land where corruption to alpha_s is."""
    alpha_s = alpha_t + share * (1 - alpha_t)
    assume(alpha_s - alpha_t > 0.01 and alpha_s < 0.99)
    clean, noise = points(seed, 2, 6)
    assume(away(clean, noise))
    before, after = (F.slerp(clean, noise, 1 - alpha) for alpha in (alpha_t, alpha_s))
    fraction = step_fraction(torch.tensor(alpha_t), torch.tensor(alpha_s))
    moved = move(before[None, None], clean[None], torch.ones(1, 1, 1), fraction)[0, 0]
    torch.testing.assert_close(moved, after, rtol=0, atol=1e-6)


@given(seeds, st.floats(-3.0, 12.0), st.floats(0.01, 6.0))
@thorough
def test_a_certain_prediction_stays_on_the_path_of_embeddings(seed: int, gamma_t: float, gap: float) -> None:
    clean, noise = Keys.from_seeds([seed]).normal(2, 1, 4, dtype=torch.float64)[0]
    t, s = torch.tensor([gamma_t]), torch.tensor([gamma_t - gap])
    before, after = (noised(clean[None], noise[None], gamma) for gamma in (t, s))
    torch.testing.assert_close(ddim_step(before, clean[None], t, s), after, rtol=1e-7, atol=1e-7)
    a_t, a_s, s_t, s_s = (
        torch.sigmoid(x.double()).sqrt() for x in (-t, -s, t, s)
    )  # the same step in DDIM's own form
    other = s_s * (before / s_t + (a_s / s_s - a_t / s_t) * clean)
    torch.testing.assert_close(ddim_step(before, clean[None], t, s), other, rtol=1e-9, atol=1e-9)


def test_guards_keep_arcs_finite() -> None:
    e = unit(torch.tensor([[1.0, 2.0, 3.0]], dtype=torch.float64))
    for other in (e, -e):
        for value in (F.slerp(e, other, 0.4), logarithm(e, other), F.sphere_exp(e, logarithm(e, other))):
            assert bool(value.isfinite().all())
    assert float(logarithm(e, e).norm()) < 1e-5
    torch.testing.assert_close(F.sphere_exp(e, torch.zeros_like(e)), e)


def test_corruption_is_split_over_samples_and_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample's noise depends on its own key, and velocities do not depend on how positions are cut."""
    keys, clean = Keys.from_seeds([3, 4]), points(0, 5, 4).expand(2, 5, 4)
    alpha = torch.tensor([0.1, 0.7], dtype=torch.float64)
    whole = corrupt(clean, alpha, keys)
    torch.testing.assert_close(whole[1:], corrupt(clean[1:], alpha[1:], Keys.from_seeds([4])))
    rows, probs = points(1, 7, 4), torch.softmax(keys.normal(5, 7), -1)
    together = move(whole, rows, probs, torch.tensor(0.3))
    monkeypatch.setattr("simplax.processes.sphere.SCORES_AT_ONCE", 20)
    torch.testing.assert_close(move(whole, rows, probs, torch.tensor(0.3)), together)


def test_tokens_show_as_often_as_published() -> None:
    tokens = torch.zeros(4000, 10, dtype=torch.long)
    shown = revealed(tokens, torch.tensor(0.4), 12, Keys.from_seeds(range(4000)))
    assert float(shown.double().mean()) == pytest.approx(0.4 + 0.6 / 13, abs=0.01)


@given(st.sampled_from([2, 3, 12, 1000, 50_258]), st.lists(fractions, min_size=2, max_size=8, unique=True))
@thorough
def test_flm_clock_rises_from_zero_to_one(size: int, accuracies: list[float]) -> None:
    gamma = F.flm_gamma(torch.tensor(sorted(accuracies), dtype=torch.float64), size)
    assert bool((gamma.diff() >= 0).all()) and float(gamma[0]) >= 0 and float(gamma[-1]) <= 1


@pytest.mark.parametrize("size", [2, 12, 100])
def test_flm_clock_is_the_accuracy_of_decoding(size: int) -> None:
    accuracy = torch.tensor([0.2, 0.6, 0.9], dtype=torch.float64)
    gamma = F.flm_gamma(accuracy, size)
    z = (1 - gamma)[:, None, None] * Keys.from_seeds([0, 1, 2]).normal(20_000, size)
    z[..., 0] += gamma[:, None]
    right = (z.argmax(-1) == 0).double().mean(-1)
    rescaled = (size * right - 1) / (size - 1)
    torch.testing.assert_close(rescaled, accuracy, rtol=0, atol=0.025)


@given(st.integers(0, 1000), st.integers(3, 20))
@thorough
def test_monotone_interpolation_agrees_with_scipy(seed: int, count: int) -> None:
    from scipy.interpolate import PchipInterpolator

    g = torch.Generator().manual_seed(seed)
    x = (torch.rand(count, generator=g, dtype=torch.float64) + 0.05).cumsum(0)
    y = torch.randn(count, generator=g, dtype=torch.float64).round(decimals=1)
    at = torch.linspace(float(x[0]) - 0.1, float(x[-1]) + 0.1, 40, dtype=torch.float64)
    reference = PchipInterpolator(x.numpy(), y.numpy())
    torch.testing.assert_close(pchip(x, y, at), torch.from_numpy(reference(at.numpy())), rtol=1e-9, atol=1e-9)
    slopes = torch.from_numpy(reference.derivative()(at.numpy()))
    torch.testing.assert_close(pchip_derivative(x, y, at), slopes, rtol=1e-8, atol=1e-8)


def test_smoothing_is_ridge_regression_on_scipys_splines() -> None:
    from scipy.interpolate import BSpline

    x = torch.linspace(0.1, 0.9, 500, dtype=torch.float64)
    y = torch.sin(7 * x)
    knots = 0.1 + 0.2 * torch.arange(-3, 8, dtype=torch.float64)
    basis = torch.from_numpy(BSpline.design_matrix(x.numpy(), knots.numpy(), 3).toarray())
    # an intercept that is not penalised, as a last column
    columns = torch.cat([basis, torch.ones(500, 1, dtype=torch.float64)], 1)
    penalty = torch.diag(torch.tensor([1e-3] * 7 + [0.0], dtype=torch.float64))
    weights = torch.linalg.solve(columns.T @ columns + penalty, columns.T @ y)
    torch.testing.assert_close(smooth(x, y, x, 5), columns @ weights, rtol=0, atol=1e-9)


def test_smoothing_reproduces_cubics_up_to_the_ridge() -> None:
    def cubic(v: Tensor) -> Tensor:
        return 1 - 2 * v + 3 * v**2 - v**3

    x, at = (torch.linspace(low, 1 - low, 4000, dtype=torch.float64) for low in (0.0, 0.1))
    torch.testing.assert_close(smooth(x, cubic(x), at, 20), cubic(at), rtol=0, atol=3e-5)
