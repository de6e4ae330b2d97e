"""Training times tile [0, 1) however a batch is split; grids are the paper's."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from failure_budget import accept
from simplax.random import Keys
from simplax.times import EARLIEST, Grid, TimeLaw, stratified
from strategies import thorough


@thorough
@given(st.integers(1, 300), st.integers(0, 2**31), st.integers(0, 10**7))
def test_one_number_per_stratum(count: int, seed: int, step: int) -> None:
    u = stratified(count, seed, step)
    assert u.dtype == torch.float64
    assert sorted((u * count).long().tolist()) == list(range(count))


def test_the_last_stratum_stays_below_one(monkeypatch: pytest.MonkeyPatch) -> None:
    largest = torch.full((1000, 1), 1 - 2.0**-53, dtype=torch.float64)
    monkeypatch.setattr(Keys, "uniform", lambda keys, *shape: largest)
    assert float(stratified(1000, 0, 0).max()) < 1


@thorough
@given(st.integers(1, 64), st.integers(0, 100), st.lists(st.integers(0, 64), max_size=5))
def test_any_split_over_shards_gives_the_same_numbers(count: int, step: int, cuts: list[int]) -> None:
    edges = sorted({0, count, *(c for c in cuts if c < count)})
    parts = [stratified(count, 7, step, start, stop) for start, stop in itertools.pairwise(edges)]
    assert torch.equal(torch.cat(parts), stratified(count, 7, step))


def test_numbers_depend_on_seed_and_step_alone() -> None:
    torch.manual_seed(0)
    first = stratified(32, 3, 5)
    torch.rand(100)
    assert torch.equal(first, stratified(32, 3, 5))
    assert not torch.equal(first, stratified(32, 3, 6))
    assert not torch.equal(first, stratified(32, 4, 5))
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    stratified(32, 3, 5)
    assert torch.equal(torch.rand(3), expected)  # the global generator is left alone


def test_law_of_one_position_and_of_a_shard() -> None:
    """Every position is uniform on [0, 1) over steps, and uniform within its stratum."""
    steps = torch.stack([stratified(8, 1, step) for step in range(4000)])
    within = (steps * 8) % 1
    accept(
        {
            "position 0": stats.kstest(steps[:, 0].numpy(), "uniform").pvalue,
            "position 7": stats.kstest(steps[:, 7].numpy(), "uniform").pvalue,
            "inside strata": stats.kstest(within.flatten().numpy(), "uniform").pvalue,
            "successive steps": stats.kendalltau(steps[:-1, 3].numpy(), steps[1:, 3].numpy()).pvalue,
        }
    )


def test_stratification_lowers_the_variance() -> None:
    means = torch.stack([stratified(64, 0, step).mean() for step in range(300)])
    independent = (1 / 12 / 64) ** 0.5
    assert means.std().item() < independent / 20


@thorough
@given(st.floats(0, 0.4), st.floats(0.5, 1), st.floats(0, 1, exclude_max=True))
def test_time_law_is_affine(low: float, high: float, u: float) -> None:
    t = TimeLaw(low, high)(torch.tensor(u, dtype=torch.float64)).item()
    assert t == pytest.approx(max(low + (high - low) * u, EARLIEST), abs=1e-15)
    assert low <= t <= max(high, EARLIEST)


@thorough
@given(st.integers(1, 2000))
def test_default_grid_is_the_papers(num_steps: int) -> None:
    times = Grid()(num_steps)
    expected = torch.arange(num_steps, -1, -1, dtype=torch.float64) / num_steps
    torch.testing.assert_close(times, expected, rtol=0, atol=1e-15)
    assert times[0] == 1 and times[-1] == 0


def test_other_end_points() -> None:
    times = Grid(end=1e-5)(16)
    assert len(times) == 17 and times[-1].item() == 1e-5 and (times.diff() < 0).all()
    with pytest.raises(ValueError, match="num_steps must be at least 1, got 0"):
        Grid()(0)
    for start, end in ((0.0, 1.0), (0.5, 0.5), (1.1, 0.0), (1.0, -0.1)):
        with pytest.raises(ValueError, match="a grid runs down"):
            Grid(start, end)
        with pytest.raises(ValueError, match="training times need"):
            TimeLaw(end, start)


@thorough
@given(st.integers(1, 300), st.floats(0.2, 5.0), st.floats(0.0, 0.4))
def test_the_power_of_a_grid_bends_its_times(num_steps: int, power: float, end: float) -> None:
    times = Grid(end=end, power=power)(num_steps)
    share = [1 - k / num_steps for k in range(num_steps + 1)]
    expected = [end + (1 - end) * u**power for u in share]
    torch.testing.assert_close(times, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-12)
    assert times[0] == 1 and times[-1] == end and (times.diff() <= 0).all()


@pytest.mark.parametrize("power", [0.0, -1.0, float("inf"), float("nan")])
def test_a_grid_needs_a_positive_power(power: float) -> None:
    with pytest.raises(ValueError, match="positive and finite"):
        Grid(power=power)
