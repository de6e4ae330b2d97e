"""Schedules: derivative, inverse and rate belong to alpha; published values."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from simplax.schedules import Cosine, Linear, LogLinear, Polynomial, Schedule
from strategies import thorough

SCHEDULES = [
    LogLinear(),
    LogLinear(eps=1e-5),
    Linear(),
    Cosine(),
    Cosine(eps=1e-4),
    Polynomial(),
    Polynomial(power=3.0, eps=1e-2),
    Polynomial(power=0.5),
]
every_schedule = pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


@every_schedule
def test_derivative_is_that_of_alpha(schedule: Schedule) -> None:
    t = torch.linspace(1e-3, 1 - 1e-3, 201, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(schedule.alpha(t).sum(), t)
    torch.testing.assert_close(schedule.derivative(t), slope, rtol=1e-10, atol=1e-12)
    assert (slope < 0).all()


@every_schedule
def test_rate_is_the_derivative_of_sigma(schedule: Schedule) -> None:
    t = torch.linspace(1e-3, 1 - 1e-3, 201, dtype=torch.float64, requires_grad=True)
    sigma = schedule.sigma(t)
    torch.testing.assert_close(sigma, -torch.log(schedule.alpha(t)), rtol=1e-12, atol=1e-12)
    (slope,) = torch.autograd.grad(sigma.sum(), t)
    torch.testing.assert_close(schedule.rate(t), slope, rtol=1e-9, atol=1e-12)


@every_schedule
@thorough
@given(t=st.floats(0.0, 1.0))
def test_inverse_round_trip(schedule: Schedule, t: float) -> None:
    alpha = schedule.alpha(tensor(t))
    assert 0 <= alpha.item() <= 1
    torch.testing.assert_close(schedule.alpha(schedule.inverse(alpha)), alpha, rtol=1e-12, atol=1e-12)
    if t > 1e-3:  # before that a flat schedule (power above one) has hardly moved from 1
        torch.testing.assert_close(schedule.inverse(alpha), tensor(t), rtol=1e-7, atol=1e-9)


@every_schedule
def test_clean_at_zero_and_noise_at_one(schedule: Schedule) -> None:
    clean, noise = schedule.alpha(tensor(0.0, 1.0))
    assert clean.item() == pytest.approx(1.0, abs=1e-15)
    eps = getattr(schedule, "eps", 0.0)
    expected = (
        2 * torch.sin(torch.tensor(torch.pi * eps / 4)).item() ** 2 if isinstance(schedule, Cosine) else eps
    )
    assert noise.item() == pytest.approx(expected, rel=1e-6, abs=1e-15)


def test_linear_ends_exactly_as_the_paper_has_it() -> None:
    assert Linear().alpha(tensor(0.0, 1.0)).tolist() == [1.0, 0.0]
    assert torch.isinf(Linear().rate(tensor(1.0)))


def test_published_log_linear_values() -> None:
    t = tensor(0.25, 0.8)
    torch.testing.assert_close(LogLinear().alpha(t), tensor(0.75025, 0.2008), rtol=1e-12, atol=0)
    torch.testing.assert_close(LogLinear().sigma(t), tensor(0.28734879, 1.60544589), rtol=0, atol=1e-8)
    torch.testing.assert_close(LogLinear().rate(t), tensor(1.33155615, 4.97509960), rtol=0, atol=1e-8)


@every_schedule
def test_float32_follows_float64(schedule: Schedule) -> None:
    t = torch.linspace(0.01, 0.99, 99, dtype=torch.float64)
    for function in (schedule.alpha, schedule.rate, schedule.sigma):
        assert function(t.float()).dtype == torch.float32
        torch.testing.assert_close(function(t.float()).double(), function(t), rtol=2e-4, atol=1e-6)


@every_schedule
def test_whole_numbers_are_times_too(schedule: Schedule) -> None:
    ends = torch.tensor([1])
    torch.testing.assert_close(schedule.derivative(ends), schedule.derivative(ends.float()))
    torch.testing.assert_close(schedule.alpha(ends), schedule.alpha(ends.float()))
