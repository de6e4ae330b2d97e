"""What is known of each sample of a set: everything the columns of a table are made from."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from simplax.data.text.lengths import attend_through_end
from simplax.errors import UserError
from simplax.evaluate.entropy import unigram_entropies
from simplax.evaluate.text import repetition
from simplax.evaluate.text.distances import rank_histogram
from simplax.evaluate.text.features import features
from simplax.evaluate.text.scorers import Scorer

Columns = dict[str, float | None]
COLUMNS = (
    "perplexity", "perplexity_per_sample", "entropy", "entropy_pooled", "bigram_entropy", "rep_1", "rep_2", "rep_3",
    "seq_rep_4_median", "seq_rep_4_pass", "clean_perplexity", "acceptance", "unique_rows", "distinct_4", "rank_chi2",
    "rank_chi2_z", "energy", "energy_z", "typicality", "typicality_z", "mmd", "mmd_z", "log_ppl_gap",
)  # fmt: skip
"""Columns of every text table, in this order."""
SHORTEST = 5
"""Fewer tokens than this have no use for 4-grams."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """Tensors with one row per sample: `nll` is the sum over its `tokens` scored, `ranks` the histogram of theirs."""

    ids: Tensor
    nll: Tensor
    tokens: Tensor
    entropy: Tensor
    bigram_entropy: Tensor
    rep_1: Tensor
    rep_2: Tensor
    rep_3: Tensor
    seq_rep_4: Tensor
    features: Tensor
    states: Tensor
    ranks: Tensor

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, rows: Tensor | slice) -> Evidence:
        return Evidence(*(getattr(self, one.name)[rows] for one in fields(self)))

    @property
    def log_ppl(self) -> float | None:
        """Total nats over total tokens; None where nothing could be scored."""
        total = float(self.tokens.sum())
        return float(self.nll.sum()) / total if total else None

    @property
    def log_ppl_per_sample(self) -> float | None:
        """The mean over samples of each one's nats per token."""
        scored = self.tokens > 0
        return float((self.nll[scored] / self.tokens[scored]).mean()) if scored.any() else None


def gather(
    ids: Tensor,
    texts: Sequence[str],
    scorer: Scorer,
    progress: Callable[[int], None] | None = None,
    end: int | None = None,
) -> Evidence:
    """Look at samples as ids (n, L), as texts, and through the scorer.

    Entropies and repetition of each row count what comes before padding, which begins behind the first `end`, if any.
    """
    if ids.ndim != 2 or ids.is_floating_point() or len(ids) != len(texts) or not len(ids):
        raise ValueError(f"one text per row of ids is needed, got {len(texts)} and shape {tuple(ids.shape)}")
    if ids.shape[1] < SHORTEST:
        raise UserError(
            f"text is measured on sequences of at least {SHORTEST} tokens, these have {ids.shape[1]}."
        )
    ids = ids.cpu().long()
    attend = None if end is None else attend_through_end(ids, end)
    scored = scorer.score(texts, longest=ids.shape[1], progress=progress)
    return Evidence(
        ids=ids,
        nll=torch.tensor([float(nll.double().sum()) for nll in scored.nll], dtype=torch.float64),
        tokens=torch.tensor([len(nll) for nll in scored.nll], dtype=torch.float64),
        entropy=unigram_entropies(ids, attend),
        bigram_entropy=repetition.bigram_entropies(ids, attend),
        rep_1=repetition.rep_n(ids, 1, attend),
        rep_2=repetition.rep_n(ids, 2, attend),
        rep_3=repetition.rep_n(ids, 3, attend),
        seq_rep_4=repetition.seq_rep_4s(texts),
        features=features(texts),
        states=scored.states.double().cpu(),
        ranks=torch.stack([rank_histogram(ranks.cpu()) for ranks in scored.ranks]),
    )


def exp(value: float | None) -> float | None:
    """A perplexity from nats per token, None of None."""
    return None if value is None else math.exp(min(value, 700.0))
