"""Tanimoto similarity of packed fingerprints, in blocks: the nearest of a reference, and the diversity of a set.

T(x, y) = shared bits / (bits of x + bits of y - shared bits), and 1 where neither has any.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

_ROWS = 1024
_COLUMNS = 8192


def nearest(
    packed: np.ndarray, reference: np.ndarray, progress: Callable[[int], None] | None = None
) -> np.ndarray:
    """For each of `packed` (n, bytes) the largest similarity to any row of `reference`."""
    best = torch.zeros(len(packed))
    columns = list(range(0, len(reference), _COLUMNS))
    for number, start in enumerate(columns):
        right = _bits(reference[start : start + _COLUMNS])
        for row in range(0, len(packed), _ROWS):
            similarity = _tanimoto(_bits(packed[row : row + _ROWS]), right)
            best[row : row + _ROWS] = torch.maximum(best[row : row + _ROWS], similarity.amax(1))
        if progress is not None:
            progress(len(packed) * (number + 1) // len(columns))
    return best.double().numpy()


def mean_similarities(packed: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each distinct fingerprint the mean of T and of T^2 over all, itself included, weighted by `counts`."""
    weights = torch.from_numpy(counts).double()
    first, second = (torch.zeros(len(packed), dtype=torch.float64) for _ in range(2))
    for start in range(0, len(packed), _COLUMNS):
        right, weight = _bits(packed[start : start + _COLUMNS]), weights[start : start + _COLUMNS]
        for row in range(0, len(packed), _ROWS):
            similarity = _tanimoto(_bits(packed[row : row + _ROWS]), right).double()
            first[row : row + _ROWS] += similarity @ weight
            second[row : row + _ROWS] += similarity.square_() @ weight
    total = float(weights.sum())
    return (first / total).numpy(), (second / total).numpy()


def _bits(packed: np.ndarray) -> Tensor:
    return torch.from_numpy(np.unpackbits(packed, axis=1)).float()


def _tanimoto(left: Tensor, right: Tensor) -> Tensor:
    shared = left @ right.T
    union = left.sum(1, keepdim=True) + right.sum(1) - shared
    return torch.where(union == 0, torch.ones_like(shared), shared / union.clamp(min=1.0))
