"""Distances between a set of samples and human text, and how far each lies outside what human text does to itself.

Every distance takes plain tensors. Energy and MMD are the V-statistics (a point is compared with itself too): biased by
the sizes of the sets, which is why they are read as z-scores against human sets of the same sizes.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

LINEAR_BINS, LOG_BINS = 25, 10
NUM_BINS = LINEAR_BINS + LOG_BINS
LARGEST_RANK = 2**18
"""The last bin ends here and takes what lies beyond: larger than any vocabulary in use."""


def energy_distance(x: Tensor, y: Tensor) -> float:
    """2 E|X - Y| - E|X - X'| - E|Y - Y'| of rows (n, f) and (m, f), Euclidean; 0 for equal sets (Székely 2013)."""
    return float(_two_sample(-torch.cdist(x, x), -torch.cdist(x, y), -torch.cdist(y, y)))


def mmd(x: Tensor, y: Tensor, bandwidth: float) -> float:
    """The squared maximum mean discrepancy under the kernel exp(-|x - y|^2 / (2 bandwidth^2)) (Gretton 2012)."""
    return float(_two_sample(rbf(x, x, bandwidth), rbf(x, y, bandwidth), rbf(y, y, bandwidth)))


def rbf(x: Tensor, y: Tensor, bandwidth: float) -> Tensor:
    """The Gaussian kernel between rows."""
    if not bandwidth > 0:
        raise ValueError(f"the bandwidth must be positive, got {bandwidth}")
    return torch.exp(-torch.cdist(x, y).square() / (2 * bandwidth**2))


def median_distance(x: Tensor) -> float:
    """The median distance between different rows: the bandwidth, chosen on human text once and then kept."""
    distances = torch.pdist(x)
    found = float(distances.median()) if distances.numel() else 0.0
    return found if found > 0 else 1.0


def _two_sample(xx: Tensor, xy: Tensor, yy: Tensor) -> Tensor:
    return (xx.mean() + yy.mean() - 2 * xy.mean()).clamp(min=0)


def standardise(x: Tensor, mean: Tensor, spread: Tensor) -> Tensor:
    """Features in units of the reference's spread; one that never varies there keeps its own unit."""
    return (x - mean) / torch.where(spread > 0, spread, torch.ones_like(spread))


def shrunk_covariance(x: Tensor) -> Tensor:
    """The covariance of rows (n, f), shrunk towards a multiple of the identity by Ledoit and Wolf's (2004) amount."""
    centred = x - x.mean(0)
    num, width = x.shape
    sample = centred.T @ centred / num
    target = sample.trace() / width * torch.eye(width, dtype=x.dtype)
    away = (sample - target).square().sum()
    noise = (centred.square().sum(-1).square().sum() / num - sample.square().sum()) / num
    share = float((noise / away).clamp(0, 1)) if float(away) > 0 else 1.0
    return (1 - share) * sample + share * target


def mahalanobis(x: Tensor, mean: Tensor, covariance: Tensor) -> Tensor:
    """Squared distances (n,) of rows to the mean."""
    # a feature that never varies is no direction at all: the pseudo-inverse leaves it out
    return ((x - mean) @ torch.linalg.pinv(covariance, hermitian=True) * (x - mean)).sum(-1)


def typicality(generated: Tensor, human: Tensor) -> float:
    """Of squared distances to the human mean: the chance that a human text lies at least as far out as a sample.

    About 1/2 for human text, 0 for text that nobody writes.
    """
    ordered = human.sort().values
    below = torch.searchsorted(ordered, generated.contiguous(), right=False)
    return float(1 - below.double().mean() / len(human))


def rank_histogram(ranks: Tensor) -> Tensor:
    """Counts (35,): ranks 1 to 25 have a bin each, the rest fall into ten bins of equal width in log rank."""
    if ranks.numel() and int(ranks.min()) < 1:
        raise ValueError("ranks begin at 1")
    first = LINEAR_BINS + 1
    width = (math.log(LARGEST_RANK) - math.log(first)) / LOG_BINS
    steps = ((ranks.double().clamp(min=first).log() - math.log(first)) / width).long().clamp(max=LOG_BINS - 1)
    bins = torch.where(ranks <= LINEAR_BINS, ranks - 1, LINEAR_BINS + steps)
    return torch.bincount(bins, minlength=NUM_BINS).double()


def rank_chi_square(x: Tensor, y: Tensor) -> float:
    """The symmetric chi-square distance sum (p - q)^2 / (p + q) of two histograms of counts: 0 if equal, at most 2."""
    if not float(x.sum()) or not float(y.sum()):
        return 2.0
    p, q = x / x.sum(), y / y.sum()
    both = p + q
    return float(
        torch.where(both > 0, (p - q).square() / both.clamp(min=1e-300), torch.zeros_like(both)).sum()
    )


def z_score(value: float, null: Tensor) -> float:
    """How many standard deviations a value lies above the mean of its null draws."""
    # draws that never vary make every difference infinitely surprising: a tiny spread keeps it a number
    spread = max(float(null.std()) if len(null) > 1 else 0.0, 1e-9)
    return (value - float(null.mean())) / spread
