"""Repetition within a sample and across samples, on tokens and on words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from simplax.evaluate.entropy import unigram_entropies


def ngram_ids(ids: Tensor, n: int) -> Tensor:
    """(rows, length - n + 1): a number for each window of `n` tokens, equal exactly where the windows are equal."""
    if ids.ndim != 2 or ids.is_floating_point() or not ids.numel():
        raise ValueError(f"ids must be integers of shape (rows, length), got {ids.dtype} {tuple(ids.shape)}")
    if not 1 <= n <= ids.shape[1]:
        raise ValueError(f"an n-gram has between 1 and {ids.shape[1]} tokens here, not {n}")
    numbers = _dense(ids)
    single = numbers
    for place in range(1, n):
        # a longer window is the pair (shorter window, next token); renumbering keeps the product small
        next_token = single[:, place:]
        numbers = _dense(numbers[:, : next_token.shape[1]] * (int(single.max()) + 1) + next_token)
    return numbers


def _dense(values: Tensor) -> Tensor:
    return values.long().unique(return_inverse=True)[1]


def rep_n(ids: Tensor, n: int, attend: Tensor | None = None) -> Tensor:
    """(rows,) float64: 1 - distinct n-grams / windows of each row.

    Windows with a position where `attend` (rows, length) is False do not count; 0 for a row without any other.
    """
    grams = ngram_ids(ids, n)
    windows = torch.full((len(grams),), grams.shape[1])
    if attend is not None:
        inside = _windows(attend, n)
        grams = torch.where(inside, grams, grams.max() + 1)  # one gram more for each row that has padding
        windows = inside.sum(-1)
    ranked = grams.sort(-1).values
    distinct = 1 + (ranked[:, 1:] != ranked[:, :-1]).sum(-1) - (windows < grams.shape[1]).long()
    return torch.where(windows > 0, 1 - distinct.double() / windows.clamp(min=1), 0.0)


def bigram_entropies(ids: Tensor, attend: Tensor | None = None) -> Tensor:
    """Nats (rows,) float64: the entropy of the frequencies of adjacent pairs within each row, padding left out."""
    return unigram_entropies(ngram_ids(ids, 2), None if attend is None else _windows(attend, 2))


def _windows(attend: Tensor, n: int) -> Tensor:
    """Which windows of `n` positions are attended to as a whole."""
    return attend.unfold(-1, n, 1).all(-1)


def pooled_entropy(ids: Tensor) -> float:
    """The entropy, in nats, of the tokens of all rows together."""
    return float(unigram_entropies(ids.reshape(1, -1))[0])


def distinct_n(ids: Tensor, n: int) -> float:
    """Distinct n-grams of all rows together over their windows; a row repeated adds windows and nothing distinct."""
    grams = ngram_ids(ids, n)
    return len(grams.unique()) / grams.numel()


def unique_rows(ids: Tensor) -> float:
    """The share of different rows."""
    return len(ids.unique(dim=0)) / len(ids)


def seq_rep_4(text: str) -> float:
    """The share of windows of four whitespace words that occurred before in the text; 0 for fewer than five words."""
    words = text.split()
    if len(words) < 5:
        return 0.0
    windows = len(words) - 3
    return (windows - len(Counter(zip(words, words[1:], words[2:], words[3:])))) / windows


def seq_rep_4s(texts: Sequence[str]) -> Tensor:
    """(texts,) float64."""
    return torch.tensor([seq_rep_4(text) for text in texts], dtype=torch.float64)
