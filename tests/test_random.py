"""Noise keyed by sample: uniform, independent, the same in every batch; categorical draws that keep rare events."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from failure_budget import accept, chi_square
from simplax.random import _GOLDEN, _MIX_1, _MIX_2, Keys, _shift_right, categorical, mix64
from strategies import thorough

CELLS = 32


def uniformity(u: torch.Tensor) -> float:
    counts = torch.bincount((u.double().flatten() * 4096).long(), minlength=4096)
    return chi_square(counts.numpy(), np.full(4096, 1 / 4096))


def independence(a: torch.Tensor, b: torch.Tensor) -> float:
    """Chi-square of the joint cells of two uniforms that should know nothing of each other."""
    cell = (a.flatten() * CELLS).long() * CELLS + (b.flatten() * CELLS).long()
    return chi_square(torch.bincount(cell, minlength=CELLS**2).numpy(), np.full(CELLS**2, CELLS**-2))


def test_uniform_and_independent_over_samples_paths_and_positions() -> None:
    keys = Keys.from_seeds(range(4000))
    one, two = keys.fold_in(0).uniform(8, 16), keys.fold_in(1).uniform(8, 16)
    deep = keys.fold_in(0, 0).uniform(8, 16)
    swapped = {"01": keys.fold_in(0, 1).uniform(8, 16), "10": keys.fold_in(1, 0).uniform(8, 16)}
    accept(
        {
            "plain": uniformity(keys.uniform(8, 16)),
            "folded": uniformity(one),
            "float32": uniformity(keys.uniform(8, 16, dtype=torch.float32)),
            "across seeds at one place": uniformity(keys.uniform(1).repeat(1, 1)),
            "KS across seeds": stats.kstest(keys.uniform(3)[:, 2].numpy(), "uniform").pvalue,
            "KS across positions": stats.kstest(
                Keys.from_seeds([5]).uniform(50_000)[0].numpy(), "uniform"
            ).pvalue,
            "neighbouring samples": independence(one[:-1], one[1:]),
            "neighbouring positions": independence(one[..., :-1], one[..., 1:]),
            "neighbouring rows": independence(one[:, :-1], one[:, 1:]),
            "neighbouring paths": independence(one, two),
            "path and its own prefix": independence(one, deep),
            "key and its first fold": independence(keys.uniform(8, 16), one),
            "order of the path": independence(swapped["01"], swapped["10"]),
            "sample i at path j, sample j at path i": independence(one[1:], two[:-1]),
            "steps of a long path": independence(
                torch.stack([Keys.from_seeds([3]).fold_in(1, n).uniform(64) for n in range(1000)]),
                torch.stack([Keys.from_seeds([3]).fold_in(1, n + 1).uniform(64) for n in range(1000)]),
            ),
        }
    )


def test_low_bits_of_seeds_and_counters_are_mixed_into_every_bit() -> None:
    bits = Keys.from_seeds(range(20_000)).bits(4).flatten()
    ones = torch.stack([_shift_right(bits, 63 - i) & 1 for i in range(64)]).double().sum(1)
    accept([stats.binomtest(int(k), len(bits)).pvalue for k in ones])


def test_normal_and_integers_have_their_laws() -> None:
    keys = Keys.from_seeds(range(2000))
    integers = torch.bincount(keys.fold_in(1).randint(7, 40).flatten(), minlength=7)
    accept(
        {
            "normal": stats.kstest(keys.normal(40, dtype=torch.float64).flatten().numpy(), "norm").pvalue,
            "integers": chi_square(integers.numpy(), np.full(7, 1 / 7)),
            "generator": uniformity(
                Keys.from_generator(40_000, torch.Generator().manual_seed(1)).uniform(2)[:, 1]
            ),
        }
    )


@thorough
@given(st.permutations(list(range(12))), st.integers(1, 12))
def test_a_samples_noise_depends_on_its_seed_alone(order: list[int], cut: int) -> None:
    whole = Keys.from_seeds(range(12)).fold_in(3, 1).uniform(5, 2)
    shuffled = Keys.from_seeds(order).fold_in(3, 1)
    parts = torch.cat([Keys(shuffled.state[:cut]).uniform(5, 2), Keys(shuffled.state[cut:]).uniform(5, 2)])
    assert torch.equal(parts, whole[order])


def test_gamma_variates_follow_the_sample_and_all_of_its_seed() -> None:
    def draws(states: list[int]) -> list[float]:
        return Keys(torch.tensor(states)).log_gamma(torch.full((len(states), 1), 0.3)).flatten().tolist()

    assert draws([4, 9]) == draws([9, 4])[::-1]
    # the same lower half: a generator seeded with 32 bits would not tell these apart
    assert len(set(draws([5 + (n << 32) for n in range(500)]))) == 500


@pytest.mark.parametrize("shape", [1e-3, 0.2, 1.0, 7.5])
def test_gamma_variates_have_their_law(shape: float) -> None:
    drawn = Keys.from_seeds(range(4000)).log_gamma(torch.full((4000, 5), shape)).flatten()

    def cdf(v: np.ndarray) -> np.ndarray:
        """P(log G < v); far below, where exp underflows, e^(a v) / Gamma(a + 1)."""
        return np.where(
            v < -50, np.exp(shape * v - special.gammaln(shape + 1)), stats.gamma.cdf(np.exp(v), shape)
        )

    result = stats.kstest(drawn.numpy(), cdf)
    accept([result.pvalue])


def test_streams_have_names() -> None:
    keys = Keys.from_seeds([1, 2])
    assert torch.equal(keys.stream("time").state, keys.stream("time").state)
    assert torch.equal(keys.stream("step", 3).state, keys.stream("step").fold_in(3).state)
    names = [keys.stream("time"), keys.stream("corrupt"), keys.fold_in(0), keys.stream("time", 0), keys]
    assert len({int(k.state[0]) for k in names}) == len(names)


def unmix64(y: int) -> int:
    """Inverse of the bijection mix64, on Python integers."""
    mask = (1 << 64) - 1

    def unshift(v: int, bits: int) -> int:
        x = v
        for _ in range(64 // bits + 1):
            x = v ^ (x >> bits)
        return x

    y = unshift(y & mask, 31) * pow(_MIX_2 & mask, -1, 1 << 64) & mask
    y = unshift(y, 27) * pow(_MIX_1 & mask, -1, 1 << 64) & mask
    return unshift(y, 30)


def keys_whose_first_bits_are(value: int) -> Keys:
    state = (unmix64(value) - _GOLDEN) % (1 << 64)
    return Keys(torch.tensor([state - (1 << 64) if state >= 1 << 63 else state]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_interval_is_open_at_both_ends(dtype: torch.dtype) -> None:
    zeros, ones = keys_whose_first_bits_are(0), keys_whose_first_bits_are((1 << 64) - 1)
    assert zeros.bits(1).item() == 0 and ones.bits(1).item() == -1
    assert 0 < zeros.uniform(1, dtype=dtype).item() < 1e-6
    assert 1 - 1e-6 < ones.uniform(1, dtype=dtype).item() < 1
    assert torch.isfinite(torch.cat([zeros.normal(1), ones.normal(1)])).all()


@thorough
@given(st.integers(-(2**63), 2**63 - 1))
def test_mix64_is_a_bijection(x: int) -> None:
    assert unmix64(mix64(torch.tensor(x)).item()) == x % (1 << 64)


def test_categorical_law_of_a_short_row() -> None:
    probs = torch.tensor([0.3, 0.0, 1e-4, 0.2, 0.45, 0.0499, 0.0], dtype=torch.float64)
    u = Keys.from_seeds(range(200_000)).uniform(1)[:, 0]
    counts = torch.bincount(categorical(probs.expand(len(u), 7), u), minlength=7)
    accept([chi_square(counts.numpy(), probs.numpy())])


def test_categorical_law_of_a_long_row() -> None:
    k = 50_257
    weights = torch.from_numpy(np.random.default_rng(0).gamma(0.3, size=k)).float()
    weights[::3] = 0.0
    chosen = []
    for start in range(0, 10_000, 500):
        u = Keys.from_seeds(range(start, start + 500)).uniform(1)[:, 0]
        chosen.append(categorical(weights.expand(500, k), u))
    counts = torch.bincount(torch.cat(chosen), minlength=k).numpy()
    blocks = np.arange(k) // 256
    probs = weights.double().numpy() / weights.double().sum().item()
    accept(
        {
            "categories": chi_square(counts, probs),
            "blocks": chi_square(np.bincount(blocks, counts), np.bincount(blocks, probs)),
            "within blocks": chi_square(
                np.bincount(np.arange(k) % 256, counts), np.bincount(np.arange(k) % 256, probs)
            ),
        }
    )


@pytest.mark.parametrize("k", [7, 512, 513, 4096, 50_257])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_category_owns_exactly_its_interval_of_u(k: int, dtype: torch.dtype) -> None:
    """Also one of probability 1e-9: just inside either end of its interval it is drawn, just outside it is not."""
    probs = torch.from_numpy(np.random.default_rng(k).dirichlet(np.full(k, 0.5))).to(dtype)
    rare = [0, 1, k // 2, k - 2, k - 1]
    probs[rare] = 1e-9
    exact = probs.double() / probs.double().sum()
    upper = exact.cumsum(0)
    for category in rare:
        low, width = upper[category] - exact[category], exact[category]
        u = low + width * torch.tensor([-1e-3, 1e-3, 0.5, 0.999, 1.001], dtype=torch.float64)
        inside = (u > 0) & (u < 1)
        drawn = categorical(probs.expand(int(inside.sum()), k), u[inside])
        expected = torch.tensor([-1, 0, 0, 0, 1])[inside] + category
        assert torch.equal(drawn, expected), (category, drawn - category)


@pytest.mark.parametrize("k", [5, 512, 513, 1000, 50_257])
def test_categories_without_mass_are_never_drawn(k: int) -> None:
    ends = torch.tensor([0.0, 1e-300, 2.0**-53, 0.5, 1 - 2.0**-53, 1.0], dtype=torch.float64)
    for support in ([k // 2], [0], [k - 1], [1, k - 2], [0, k // 2]):
        probs = torch.zeros(k)
        probs[support] = torch.linspace(0.3, 0.9, len(support))
        drawn = categorical(probs.expand(len(ends), k), ends)
        assert set(drawn.tolist()) <= set(support)
        assert drawn[0] == support[0] and drawn[-1] == support[-1]


@thorough
@given(st.integers(2, 1200), st.integers(0, 2**32 - 1), st.floats(1e-3, 1e3))
def test_categorical_ignores_the_scale_and_keeps_leading_axes(k: int, seed: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    probs = torch.from_numpy(rng.dirichlet(np.ones(k), size=(2, 3)))
    u = torch.from_numpy(rng.random((2, 3)))
    drawn = categorical(probs * scale, u)
    reference = [
        np.searchsorted(np.cumsum(p), v) for p, v in zip(probs.reshape(6, k).numpy(), u.flatten().numpy())
    ]
    assert drawn.shape == (2, 3)
    assert drawn.flatten().tolist() == reference
