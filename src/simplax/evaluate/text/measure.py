"""One row of a text table: what a set of samples looks like, beside human text measured in the same way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from simplax.errors import UserError
from simplax.evaluate.text import distances, repetition
from simplax.evaluate.text.evidence import COLUMNS, Columns, Evidence, gather
from simplax.evaluate.text.reference import Null
from simplax.evaluate.text.reference import Reference as Reference
from simplax.evaluate.text.scorers import Scorer

DEVIATIONS = 4.0
"""Standard deviations of human draws beyond which a mean or a share catches a row."""
FAR = 5.0
"""The same for distances, whose draws have a longer tail."""
MATCHED = 0.05
"""Nats of entropy below the data's own within which a lower perplexity is suspicious rather than bought."""
BELOW_DATA = "perplexity below data"
CROSS_SAMPLE = ("entropy_pooled", "unique_rows", "distinct_4", "rank_chi2_z", "energy_z", "mmd_z")
"""Columns that look at the set as a whole; all others look at one sample at a time."""


@dataclass(frozen=True, eq=False)
class Measured:
    """`columns` are numbers, None where nothing could be computed (`clean_perplexity` when no sample is clean).

    `per_sample` holds nll (total nats), tokens (how many were scored), entropy and seq_rep_4 of each sample. Both are
    plain JSON data.
    """

    columns: Columns
    per_sample: dict[str, list[float]]


def measure(
    ids: Tensor,
    texts: Sequence[str],
    scorer: Scorer,
    reference: Reference,
    *,
    progress: Callable[[int], None] | None = None,
) -> Measured:
    """All columns of samples given as ids (n, L) and as texts; `progress` is called with the number scored."""
    if ids.ndim == 2 and ids.shape[1] != reference.length:
        raise UserError(
            f"samples of {ids.shape[1]} tokens cannot be measured beside human rows of {reference.length}."
        )
    null = reference.null(len(ids))
    found = gather(ids, texts, scorer, progress, reference.end)
    columns = {**reference.own_columns(found), **_set_columns(found), **_distances(found, reference, null)}
    per_sample = {name: getattr(found, name).tolist() for name in ("nll", "tokens", "entropy", "seq_rep_4")}
    return Measured({**columns, "samples": float(len(ids))}, per_sample)


def _set_columns(found: Evidence) -> Columns:
    return {
        "entropy_pooled": repetition.pooled_entropy(found.ids),
        "unique_rows": repetition.unique_rows(found.ids),
        "distinct_4": repetition.distinct_n(found.ids, 4),
    }


def _distances(found: Evidence, reference: Reference, null: Null) -> Columns:
    anchors = reference.anchors
    values = {
        "rank_chi2": distances.rank_chi_square(found.ranks.sum(0), anchors.ranks.sum(0)),
        "energy": distances.energy_distance(
            reference.standardised(found.features), reference.standardised(anchors.features)
        ),
        "typicality": distances.typicality(
            reference.oddness(found.features), reference.oddness(anchors.features)
        ),
        "mmd": distances.mmd(found.states, anchors.states, reference.bandwidth),
    }
    return {**values, **{f"{name}_z": distances.z_score(value, null[name]) for name, value in values.items()}}


def flags(columns: Mapping[str, float | None], reference: Reference) -> list[str]:
    """The columns that catch a row, in the order of the table; none catch human text.

    Means over samples are caught outside what nine in ten human rows do; the rest beyond `DEVIATIONS`, or
    `FAR`, standard deviations of human sets of the same size. A perplexity below the data's at no less entropy is
    caught too.
    """
    null = reference.null(int(columns.get("samples") or reference.size))
    found = []
    if _below_data(columns, reference, null):
        found.append(BELOW_DATA)
    for name in COLUMNS:
        value, rule = columns.get(name), _RULES.get(name)
        if value is not None and rule is not None and rule(name, value, reference, null):
            found.append(name)
    return found


def _below_data(columns: Mapping[str, float | None], reference: Reference, null: Null) -> bool:
    gap, entropy = columns.get("log_ppl_gap"), columns.get("entropy")
    if gap is None or entropy is None or entropy < float(reference.pool.entropy.mean()) - MATCHED:
        return False
    return gap < -max(DEVIATIONS * float(null["log_ppl_gap"].std()), 0.01)


Rule = Callable[[str, float, Reference, Null], bool]


def _outside(name: str, value: float, reference: Reference, null: Null) -> bool:
    low, high = reference.bars[name]
    return not low <= value <= high


def _above(name: str, value: float, reference: Reference, null: Null) -> bool:
    return value > reference.bars[name][1]


def _below(name: str, value: float, reference: Reference, null: Null) -> bool:
    return value < reference.bars[name][0]


def _fewer(name: str, value: float, reference: Reference, null: Null) -> bool:
    """Below human sets by many deviations, and by at least a hundredth where those hardly vary."""
    return value < float(null[name].mean()) - max(DEVIATIONS * float(null[name].std()), 0.01)


def _far(name: str, value: float, reference: Reference, null: Null) -> bool:
    return value > FAR


def _untypical(name: str, value: float, reference: Reference, null: Null) -> bool:
    return value < -FAR


_RULES: dict[str, Rule] = {
    "entropy": _outside,
    "entropy_pooled": _fewer,
    "bigram_entropy": _below,
    "rep_1": _above,
    "rep_2": _above,
    "rep_3": _above,
    "seq_rep_4_pass": _fewer,
    "unique_rows": _fewer,
    "distinct_4": _fewer,
    "rank_chi2_z": _far,
    "energy_z": _far,
    "typicality_z": _untypical,
    "mmd_z": _far,
}
