"""Confidence intervals of measured proportions."""

from __future__ import annotations

import math
from statistics import NormalDist


def wilson(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson's score interval of a proportion (Wilson 1927): unlike the usual one it is right near 0 and 1."""
    if trials < 1 or not 0 <= successes <= trials:
        raise ValueError(
            f"successes must lie between 0 and the number of trials, got {successes} of {trials}"
        )
    if not 0 < confidence < 1:
        raise ValueError(f"the confidence must lie between 0 and 1, got {confidence}")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, extra = successes / trials, z * z / trials
    centre = (share + extra / 2) / (1 + extra)
    half = z / (1 + extra) * math.sqrt(share * (1 - share) / trials + extra / (4 * trials))
    return max(0.0, centre - half), min(1.0, centre + half)
