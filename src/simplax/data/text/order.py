"""The order of an epoch as a function: a keyed permutation of [0, n) that is never stored."""

from __future__ import annotations

import torch
from torch import Tensor

from simplax.random import Keys, mix64

_ROUNDS = 6
_ORDER = 103


def shuffled(indices: Tensor, size: int, seed: int) -> Tensor:
    """Rows for global counters: every run of `size` counters visits each row once, in an order of its own.

    A Feistel network permutes the smallest square of a power of two that holds `size` numbers; numbers that leave the
    range are sent through again until they are back, which keeps it a permutation.
    """
    epochs, rows = indices.long() // size, indices.long() % size
    half = max(1, -(-(size - 1).bit_length() // 2))
    keys = [Keys.from_seeds(epochs).fold_in(_ORDER, seed, number).state for number in range(_ROUNDS)]
    rows = _feistel(rows, keys, half)
    while bool((outside := rows >= size).any()):
        rows = torch.where(outside, _feistel(rows, keys, half), rows)
    return rows


def _feistel(values: Tensor, keys: list[Tensor], half: int) -> Tensor:
    mask = (1 << half) - 1
    left, right = values >> half, values & mask
    for key in keys:
        left, right = right, left ^ (mix64(key ^ mix64(right + 1)) & mask)
    return (left << half) | right
