"""Unigram entropy of generated sequences: how varied each one is, whatever it says."""

from __future__ import annotations

import torch
from torch import Tensor


def unigram_entropies(ids: Tensor, attend: Tensor | None = None) -> Tensor:
    """Nats (batch,) float64: the entropy of the token frequencies within each sequence of `ids` (batch, length).

    Every position counts, special ids included, but those where `attend` (batch, length) is False: padding says nothing
    of a sequence. Nothing is tokenised again. At most log(length); 0 for a sequence that is all padding.
    """
    if ids.ndim != 2 or ids.is_floating_point() or not ids.numel():
        raise ValueError(f"ids must be integers of shape (batch, length), got {ids.dtype} {tuple(ids.shape)}")
    if attend is not None:
        if attend.shape != ids.shape or attend.dtype != torch.bool:
            raise ValueError(f"attend must be booleans of shape {tuple(ids.shape)}")
        return _attended_entropies(ids, attend)
    length = ids.shape[1]
    ranked = ids.sort(-1).values
    # each position learns how often its own id occurs; averaging -log of that frequency is the entropy
    first = torch.searchsorted(ranked, ranked, right=False)
    after = torch.searchsorted(ranked, ranked, right=True)
    return -torch.log((after - first).double() / length).mean(-1)


def _attended_entropies(ids: Tensor, attend: Tensor) -> Tensor:
    """Padding becomes ids of its own, one for each position, which are then left out of the average."""
    alone = ids.max() + 1 + torch.arange(ids.shape[1], device=ids.device)
    ranked = torch.where(attend, ids, alone).sort(-1).values
    first = torch.searchsorted(ranked, ranked, right=False)
    after = torch.searchsorted(ranked, ranked, right=True)
    real, counted = attend.sum(-1, keepdim=True).clamp(min=1), ranked < alone[0]
    return -(torch.log((after - first).double() / real) * counted).sum(-1) / real.squeeze(-1)


def unigram_entropy(ids: Tensor, attend: Tensor | None = None) -> float:
    """The mean over sequences of each one's unigram entropy, in nats; not the entropy of all tokens pooled."""
    return float(unigram_entropies(ids, attend).mean())


def perplexity(nats_per_sequence: Tensor, attend: Tensor) -> float:
    """exp of the nats per token that is not padding: `nats_per_sequence` (batch,) are sums over whole sequences.

    Padding that a model predicts for nothing would lower a mean over all positions; here it only adds to the sum.
    """
    return float(torch.exp(nats_per_sequence.double().sum() / attend.sum().clamp(min=1)))
