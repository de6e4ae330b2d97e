"""Unigram entropy of generated sequences: how varied each one is, whatever it says."""

from __future__ import annotations

import torch
from torch import Tensor


def unigram_entropies(ids: Tensor) -> Tensor:
    """Nats (batch,) float64: the entropy of the token frequencies within each sequence of `ids` (batch, length).

    Every position counts, special ids included, and nothing is tokenised again. At most log(length).
    """
    if ids.ndim != 2 or ids.is_floating_point() or not ids.numel():
        raise ValueError(f"ids must be integers of shape (batch, length), got {ids.dtype} {tuple(ids.shape)}")
    length = ids.shape[1]
    ranked = ids.sort(-1).values
    # each position learns how often its own id occurs; averaging -log of that frequency is the entropy
    first = torch.searchsorted(ranked, ranked, right=False)
    after = torch.searchsorted(ranked, ranked, right=True)
    return -torch.log((after - first).double() / length).mean(-1)


def unigram_entropy(ids: Tensor) -> float:
    """The mean over sequences of each one's unigram entropy, in nats; not the entropy of all tokens pooled."""
    return float(unigram_entropies(ids).mean())
