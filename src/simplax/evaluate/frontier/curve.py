"""A curve of points measured at several temperatures, read at the entropy of the data.

Perplexity alone mostly reflects the temperature a model was sampled at, so models are compared where their samples
are as varied as the data: at the measured point nearest to it, and between the two points around it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

DRAWS = 1000
OFF_NOTE, EDGE_NOTE = "entropy off by", "edge of the sweep"
NEAR = 0.05
"""Nats; a point further than this from the data's entropy is not a match."""


@dataclass(frozen=True, eq=False)
class Replicates:
    """What resampled sets of samples give: `log_perplexity` and `entropy`, (draws,) each."""

    log_perplexity: np.ndarray
    entropy: np.ndarray

    def intervals(self) -> dict[str, list[float]]:
        """Percentile intervals of 95 %."""
        low, high = percentiles(self.log_perplexity)
        return {"perplexity": [math.exp(low), math.exp(high)], "entropy": list(percentiles(self.entropy))}


def percentiles(values: np.ndarray, confidence: float = 0.95) -> tuple[float, float]:
    tail = 50 * (1 - confidence)
    low, high = np.percentile(values, [tail, 100 - tail])
    return float(low), float(high)


def bootstrap(per_sample: Mapping[str, Sequence[float]], *, draws: int = DRAWS, seed: int = 0) -> Replicates:
    """Resample whole samples with replacement; `per_sample` has each one's nats `nll`, `tokens` and `entropy`.

    The same seed picks the same samples again, so points drawn with the same noise are resampled together.
    """
    nll, tokens, entropy = (
        np.asarray(per_sample[name], dtype=np.float64) for name in ("nll", "tokens", "entropy")
    )
    rows = np.random.default_rng(seed).integers(0, len(nll), (draws, len(nll)))
    return Replicates(nll[rows].sum(1) / np.maximum(tokens[rows].sum(1), 1), entropy[rows].mean(1))


def nearest(entropies: Sequence[float], target: float) -> int:
    """The place of the point whose entropy is nearest to the target; the first of several."""
    return min(range(len(entropies)), key=lambda i: (abs(entropies[i] - target), i))


def interpolate(entropies: Sequence[float], log_perplexities: Sequence[float], target: float) -> float | None:
    """The log perplexity at the target, linear in entropy between neighbours on the curve that enclose it.

    None where no two neighbours do: nothing is ever extrapolated. A curve that folds back may enclose it more than
    once; the pair with the point nearest to the target counts.
    """
    best: tuple[float, float] | None = None
    for i in range(len(entropies) - 1):
        (h0, h1), (p0, p1) = entropies[i : i + 2], log_perplexities[i : i + 2]
        if not min(h0, h1) <= target <= max(h0, h1):
            continue
        share = 0.0 if h0 == h1 else (target - h0) / (h1 - h0)
        candidate = (min(abs(h0 - target), abs(h1 - target)), p0 + share * (p1 - p0))
        best = candidate if best is None or candidate[0] < best[0] else best
    return None if best is None else best[1]


@dataclass(frozen=True)
class Reading:
    """A curve at the data's entropy: `place` of the matched point on it, `gap` its entropy minus the data's.

    `perplexity` is interpolated, with its interval; None where the curve does not reach the data's entropy. `notes`
    say why the match should not be trusted.
    """

    place: int
    gap: float
    perplexity: float | None
    interval: tuple[float, float] | None
    notes: tuple[str, ...]


def read(
    entropies: Sequence[float],
    log_perplexities: Sequence[float],
    target: float,
    replicates: Sequence[Replicates] = (),
) -> Reading:
    """Read a curve, whose points come in order of temperature, at the entropy `target`."""
    place = nearest(entropies, target)
    gap = entropies[place] - target
    notes = []
    if abs(gap) > NEAR:
        notes.append(f"{OFF_NOTE} {gap:+.2f}")
    if place in (0, len(entropies) - 1):
        notes.append(EDGE_NOTE)
    between = interpolate(entropies, log_perplexities, target)
    return Reading(
        place,
        gap,
        None if between is None else math.exp(between),
        None if between is None else _interval(replicates, target),
        tuple(notes),
    )


def _interval(replicates: Sequence[Replicates], target: float) -> tuple[float, float] | None:
    """Of the interpolated perplexity; None if more than a twentieth of the resampled curves miss the target."""
    if not replicates:
        return None
    entropy = np.stack([r.entropy for r in replicates], axis=1)
    logs = np.stack([r.log_perplexity for r in replicates], axis=1)
    values = [interpolate(h, p, target) for h, p in zip(entropy.tolist(), logs.tolist())]
    reached = [value for value in values if value is not None]
    if len(reached) < 0.95 * len(values):
        return None
    low, high = percentiles(np.asarray(reached))
    return math.exp(low), math.exp(high)
