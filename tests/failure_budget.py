"""One failure budget for statistical tests: how often a correct library may fail them, all p-values together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from scipy import stats

BUDGET = 1e-6
"""Chance that one call of `accept` fails although every null hypothesis holds."""

MIN_EXPECTED = 8.0
"""Cells expected to hold fewer counts are pooled, where the chi-square law would not be accurate."""


def accept(p_values: Iterable[float] | dict[str, float]) -> None:
    """All p-values at once, by Bonferroni's inequality."""
    named = p_values if isinstance(p_values, dict) else {str(i): p for i, p in enumerate(p_values)}
    limit = BUDGET / len(named)
    failed = {name: p for name, p in named.items() if not p > limit}
    assert not failed, f"p-values below {limit:.1e}: {failed}"


def reject(p_value: float) -> None:
    """A test that should see a difference does see it."""
    assert p_value < BUDGET, f"the difference is not visible: p = {p_value:.2e}"


def chi_square(counts: Sequence[int] | np.ndarray, probs: Sequence[float] | np.ndarray) -> float:
    """p-value of observed counts against an exact law; a count in an impossible cell gives zero."""
    counts, probs = np.asarray(counts, dtype=float).ravel(), np.asarray(probs, dtype=float).ravel()
    if counts[probs <= 0].sum() > 0:
        return 0.0
    expected = probs / probs.sum() * counts.sum()
    order = np.argsort(-expected)
    pooled = np.minimum(np.arange(len(order)), max(int((expected >= MIN_EXPECTED).sum()), 2) - 1)
    observed, wanted = np.bincount(pooled, counts[order]), np.bincount(pooled, expected[order])
    return float(stats.chisquare(observed, wanted).pvalue)


def same_counts(first: np.ndarray, second: np.ndarray) -> float:
    """p-value of two samples' counts having one law."""
    table = np.stack([np.asarray(first).ravel(), np.asarray(second).ravel()])
    return float(stats.chi2_contingency(table[:, table.sum(0) > 2 * MIN_EXPECTED]).pvalue)
