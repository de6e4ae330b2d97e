"""Columns of generated molecules against their definitions, by hand, and against values of the public code."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from molecule_data import golden, needs_moses, needs_rdkit, perturbed
from simplax.evaluate.molecules.chemnet import (
    Gaussian,
    Moments,
    encode,
    extrapolated,
    frechet,
    jackknife_error,
)
from simplax.evaluate.molecules.measure import wasserstein
from simplax.evaluate.molecules.similarity import mean_similarities, nearest
from simplax.evaluate.molecules.statistics import Counts

numbers = st.lists(st.floats(-50, 50), min_size=1, max_size=30)


@given(numbers, numbers)
@settings(max_examples=60, deadline=None)
def test_wasserstein_is_the_usual_one(first: list[float], second: list[float]) -> None:
    from scipy.stats import wasserstein_distance

    own = wasserstein(np.array(first), np.array(second))
    assert own == pytest.approx(wasserstein_distance(first, second), abs=1e-9)


@given(st.integers(0, 1000), st.integers(1, 12), st.integers(1, 12))
@settings(max_examples=30, deadline=None)
def test_similarities_are_shared_bits_over_all_bits(seed: int, left: int, right: int) -> None:
    generator = np.random.default_rng(seed)
    first, second = (generator.random((number, 16)) < 0.2 for number in (left, right))

    def tanimoto(x: np.ndarray, y: np.ndarray) -> float:
        return 1.0 if not (x | y).any() else (x & y).sum() / (x | y).sum()

    table = np.array([[tanimoto(x, y) for y in second] for x in first])
    own = nearest(np.packbits(first, axis=1), np.packbits(second, axis=1))
    np.testing.assert_allclose(own, table.max(1), atol=1e-6)

    counts = generator.integers(1, 4, size=left)
    repeated = np.repeat(np.arange(left), counts)
    within = np.array([[tanimoto(first[i], first[j]) for j in repeated] for i in range(left)])
    mean, square = mean_similarities(np.packbits(first, axis=1), counts)
    np.testing.assert_allclose(mean, within.mean(1), atol=1e-6)
    np.testing.assert_allclose(square, (within**2).mean(1), atol=1e-6)


def test_frechet_distance_of_gaussians_that_commute_is_known() -> None:
    zero, one = np.zeros(3), np.array([1.0, 2.0, 0.0])
    first, second = Gaussian(zero, np.diag([1.0, 4.0, 9.0])), Gaussian(one, np.diag([4.0, 4.0, 0.0]))
    assert frechet(first, second) == pytest.approx(5.0 + 1.0 + 0.0 + 9.0)
    assert frechet(first, first) == pytest.approx(0.0, abs=1e-12)


def test_frechet_distance_is_symmetric_and_moments_join() -> None:
    generator = np.random.default_rng(0)
    features = [generator.normal(size=(number, 6)) @ generator.normal(size=(6, 6)) for number in (5, 40)]
    first, second = map(Gaussian.of, features)
    assert frechet(first, second) == pytest.approx(frechet(second, first), rel=1e-6)
    np.testing.assert_allclose(second.sigma, np.cov(features[1].T), rtol=1e-9)
    joined = Moments.joined([Moments.of(part) for part in features]).gaussian()
    np.testing.assert_allclose(joined.sigma, np.cov(np.concatenate(features).T), rtol=1e-9)


def test_the_bias_of_few_samples_is_removed() -> None:
    """Samples of the reference itself: the distance falls like 1/n, its extrapolation is zero within its error."""
    generator = np.random.default_rng(1)
    reference = Gaussian(np.zeros(24), np.diag(np.linspace(0.1, 2.0, 24)))
    scale = np.sqrt(np.diag(reference.sigma))
    within = 0
    for _ in range(5):
        features = generator.normal(size=(4800, 24)) * scale
        biased = frechet(Gaussian.of(features), reference)
        found = extrapolated(features, reference)
        assert found is not None
        value, error = found
        assert abs(value) < biased
        within += abs(value) < 4 * error
    assert within == 5
    assert extrapolated(features[:100], reference) is None


def test_jackknife_error_of_a_mean_is_the_usual_one() -> None:
    values = np.random.default_rng(2).normal(size=40)
    left_out = [float(np.delete(values, place).mean()) for place in range(40)]
    assert jackknife_error(left_out) == pytest.approx(float(values.std(ddof=1)) / math.sqrt(40))


def test_cosines_do_not_overflow_and_are_undefined_of_nothing() -> None:
    large = Counts({"a": 2**40, "b": 2**40})
    assert large.cosine(Counts({"a": 2**41, "b": 2**41})) == pytest.approx(1.0)
    assert large.cosine(Counts({"c": 3})) == 0.0
    assert large.cosine(Counts({})) is None


def test_strings_reach_chemnet_up_to_the_first_dot() -> None:
    rows = encode(["CCl.Br", "CCl", "C" * 400])
    assert torch.equal(rows[0], rows[1])
    assert rows.shape == (3, 350, 35)
    assert rows[1].sum(1)[:3].tolist() == pytest.approx([1 / 35] * 3) and float(rows[1][3:].sum()) == 0.0
    assert int(rows[2][349].argmax()) == 34 and float(rows[2].sum()) == pytest.approx(10.0)


@needs_rdkit
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("C_C", "pads inside"),
        ("", "empty"),
        (" ", "empty"),
        ("CC(C", "parenthesis"),
        ("C1CC", "ring"),
        ("C==C", "syntax"),
        ("C(C)(C)(C)(C)C", "valence"),
        ("c1cccc1", "aromaticity"),
    ],
)
def test_errors_are_told_apart(text: str, kind: str) -> None:
    from simplax.data.molecules.canonical import canonical
    from simplax.evaluate.molecules.chemistry import error_kind

    assert canonical(text) is None
    assert error_kind(text) == kind


@needs_moses
@given(st.lists(st.sampled_from([*"CCNOcn()=#123.*_+-", "[nH]", "[H]", "[Xe]", " ", "\0", "é"]), max_size=8))
@settings(max_examples=200, deadline=None)
def test_any_string_is_described_or_its_error_told(pieces: list[str]) -> None:
    from simplax.data.molecules.canonical import canonical
    from simplax.evaluate.molecules.chemistry import ERRORS, describe, error_kind

    text = "".join(pieces)
    form = canonical(text)
    if form is None:
        assert error_kind(text) in ERRORS
    else:
        assert np.isfinite(describe(form).values).all()


@needs_moses
def test_one_molecule_is_described_as_published() -> None:
    from simplax.data.molecules.canonical import canonical
    from simplax.evaluate.molecules.chemistry import describe

    for entry in golden()["per_string"]:
        assert canonical(entry["in"]) == entry["canonical"]
        if entry["canonical"] is None:
            continue
        found = describe(entry["canonical"])
        assert found.passes_filters == entry["passes_filters"]
        expected = [entry[name] for name in ("logP", "SA", "QED", "weight")]
        assert found.values == pytest.approx(expected, abs=2e-6)
        assert sorted(found.fragments) == sorted(entry["fragments"])
        assert found.scaffold == entry["scaffold"]
        bits = np.flatnonzero(np.unpackbits(np.frombuffer(found.bits, dtype=np.uint8)))
        assert bits.tolist() == entry["morgan_bits"]


def agree(measured: dict[str, float | None], expected: dict[str, float]) -> None:
    for name, value in expected.items():
        tolerance = 1e-3 if name.startswith("FCD") else 1e-6
        assert measured[name] == pytest.approx(value, abs=tolerance), name


@needs_moses
@pytest.mark.parametrize("name", ["moses_unit", "hand_small"])
def test_small_references_give_the_public_codes_values(name: str) -> None:
    from simplax.data.molecules.packages import moses_strings
    from simplax.evaluate.molecules.measure import measure
    from simplax.evaluate.molecules.references import References
    from simplax.evaluate.molecules.statistics import Statistics

    case = golden()["cases"][name]
    train = case.get("train") or moses_strings("train")
    against = References(
        name, Statistics.of(case["test"]), Statistics.of(case["test_scaffolds"]), list(train)
    )
    agree(measure(case["generated"], against, unique_at=case["unique_k"]).values, case["metrics"])


@pytest.fixture(scope="module")
def moses() -> Any:
    from simplax.evaluate.molecules.references import references

    return references("moses")


@needs_moses
def test_published_references_give_the_public_codes_values(moses: Any) -> None:
    from simplax.evaluate.molecules.measure import measure

    cases = golden()["cases"]
    case = cases["hand_default"]
    measured = measure(cases["hand_small"]["generated"], moses, unique_at=case["unique_k"])
    agree(measured.values, case["metrics"])
    assert sum(measured.errors.values()) == measured.num - measured.num_valid == 7
    low, high = measured.intervals["valid"]
    assert low < case["metrics"]["valid"] < high


# a minute each: `make test-training` runs them
@needs_moses
@pytest.mark.training
@pytest.mark.parametrize(
    ("name", "split", "rule"),
    [
        ("train_perturbed_2000", "train", perturbed),
        ("test_2000", "test", list),
        ("test_scaffolds_2000", "test_scaffolds", list),
    ],
)
def test_two_thousand_strings_give_the_public_codes_values(
    name: str, split: str, rule: Callable[[list[str]], list[str]], moses: Any
) -> None:
    from simplax.data.molecules.packages import moses_strings
    from simplax.evaluate.molecules.measure import measure

    case = golden()["cases"][name]
    measured = measure(rule(moses_strings(split)[:2000]), moses, unique_at=case["unique_k"])
    agree(measured.values, case["metrics"])


@needs_moses
@pytest.mark.slow
def test_the_floor_at_a_thousand_molecules_is_the_published_one(moses: Any) -> None:
    from simplax.evaluate.molecules.chemnet import activations

    expected = golden()["fcd_of_random_training_rows"]["FCD/Test, FCD/TestSF"]
    found = Gaussian.of(activations(moses.train[:1000]))
    for reference, value in zip((moses.test, moses.scaffolds), expected["1000"]):
        assert frechet(found, reference.gaussian) == pytest.approx(value, abs=1e-3)
