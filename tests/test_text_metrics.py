"""Columns of text tables against numbers worked out by hand, closed forms and definitions."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from torch import Tensor

from simplax.errors import UserError
from simplax.evaluate.text import COLUMNS, Reference, Scored, distances, features, flags, measure, repetition
from simplax.evaluate.text.reference import _even_split, _quadratic

ROWS = st.integers(2, 12).flatmap(
    lambda length: st.lists(
        st.lists(st.integers(0, 4), min_size=length, max_size=length), min_size=1, max_size=4
    )
)


@given(ROWS, st.integers(1, 2))
def test_ngrams_are_numbered_by_their_tokens(rows: list[list[int]], n: int) -> None:
    numbers = repetition.ngram_ids(torch.tensor(rows), n)
    windows = [[tuple(row[i : i + n]) for i in range(len(row) - n + 1)] for row in rows]
    pairs = {(w, int(i)) for ws, ids in zip(windows, numbers) for w, i in zip(ws, ids)}
    assert len(pairs) == len({w for w, _ in pairs}) == len({i for _, i in pairs})
    expected = [1 - len(set(ws)) / len(ws) for ws in windows]
    assert repetition.rep_n(torch.tensor(rows), n).tolist() == pytest.approx(expected)
    flat = [w for ws in windows for w in ws]
    assert repetition.distinct_n(torch.tensor(rows), n) == pytest.approx(len(set(flat)) / len(flat))


def test_entropies_by_hand() -> None:
    row = torch.tensor([[0, 1, 0, 1, 0], [2, 2, 2, 2, 2]])
    assert repetition.bigram_entropies(row).tolist() == pytest.approx([math.log(2), 0])
    shares = [0.3, 0.2, 0.5]
    assert repetition.pooled_entropy(row) == pytest.approx(-sum(p * math.log(p) for p in shares))


def test_rows_and_distinct_grams_across_samples() -> None:
    row = torch.arange(10)[None]
    assert repetition.distinct_n(row, 4) == 1
    assert repetition.distinct_n(row.expand(8, 10), 4) == 1 / 8
    assert repetition.unique_rows(row.expand(8, 10)) == 1 / 8
    assert repetition.unique_rows(torch.tensor([[1, 2], [2, 1], [1, 2]])) == pytest.approx(2 / 3)


@given(st.lists(st.sampled_from("ab"), max_size=20))
def test_repeated_word_windows(words: list[str]) -> None:
    counts = Counter(tuple(words[i : i + 4]) for i in range(len(words) - 3))
    expected = sum(count - 1 for count in counts.values()) / sum(counts.values()) if len(words) >= 5 else 0
    assert repetition.seq_rep_4(" ".join(words)) == pytest.approx(expected)


def test_repeated_word_windows_by_hand() -> None:
    assert repetition.seq_rep_4("a b c d\na  b c d") == 1 / 5
    assert repetition.seq_rep_4("a a a a") == 0


def test_distances_by_hand() -> None:
    zero, one = torch.zeros(1, 1).double(), torch.ones(1, 1).double()
    assert distances.energy_distance(zero, one) == pytest.approx(2)
    assert distances.mmd(zero, one, 0.5) == pytest.approx(2 - 2 * math.exp(-2))
    spread = torch.tensor([[0.0], [2.0]]).double()
    # 2 E|X - Y| = 2, E|X - X'| = 1 over all four pairs, E|Y - Y'| = 0
    assert distances.energy_distance(spread, one) == pytest.approx(1)
    assert distances.median_distance(torch.tensor([[0.0], [1.0], [5.0]])) == 4


def test_draws_of_the_null_are_the_distances_themselves() -> None:
    x = torch.randn(30, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    ours, theirs = x[:12], x[12:]
    weights = torch.tensor([[1 / 12] * 12 + [-1 / 18] * 18], dtype=torch.float64)
    energy = float(_quadratic(weights, -torch.cdist(x, x)))
    assert energy == pytest.approx(distances.energy_distance(ours, theirs), abs=1e-6)
    kernel = distances.rbf(x, x, 1.3)
    assert float(_quadratic(weights, kernel)) == pytest.approx(distances.mmd(ours, theirs, 1.3), abs=1e-9)


def test_shrinkage_is_that_of_ledoit_and_wolf() -> None:
    x = torch.randn(20, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * torch.tensor(
        [1, 2, 3, 4]
    )
    centred = x - x.mean(0)
    outer = torch.einsum("ni,nj->nij", centred, centred)
    sample = outer.mean(0)
    target = sample.trace() / 4 * torch.eye(4)
    noise = (outer - sample).square().sum() / 20**2
    share = min(1.0, float(noise / (sample - target).square().sum()))
    assert 0 < share < 1
    expected = (1 - share) * sample + share * target
    torch.testing.assert_close(distances.shrunk_covariance(x), expected, check_dtype=False)


def test_typicality_counts_human_texts_at_least_as_odd() -> None:
    human = torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert distances.typicality(human, human) == pytest.approx((1 + 0.75 + 0.5 + 0.25) / 4)
    assert distances.typicality(torch.tensor([9.0]), human) == 0
    assert distances.typicality(torch.tensor([0.0]), human) == 1


def test_rank_bins() -> None:
    counts = distances.rank_histogram(torch.arange(1, 26))
    assert counts.tolist() == [1] * 25 + [0] * 10
    ends = distances.rank_histogram(torch.tensor([26, 49_152, distances.LARGEST_RANK, 10**7]))
    assert ends[25] == 1 and ends[-1] == 2 and ends.sum() == 4 and ends[-2] == 1
    # edges of the logarithmic bins grow by one factor
    ranks = torch.arange(26, distances.LARGEST_RANK + 1)
    sizes = distances.rank_histogram(ranks)[25:]
    assert (sizes[1:] / sizes[:-1])[2:].tolist() == pytest.approx(
        [(distances.LARGEST_RANK / 26) ** 0.1] * 7, rel=0.02
    )


def test_chi_square_runs_from_equal_to_disjoint() -> None:
    x, y = torch.tensor([3.0, 1.0, 0.0]), torch.tensor([0.0, 0.0, 5.0])
    assert distances.rank_chi_square(x, 7 * x) == 0
    assert distances.rank_chi_square(x, y) == pytest.approx(2)
    assert distances.rank_chi_square(torch.tensor([1.0, 1.0]), torch.tensor([1.0, 0.0])) == pytest.approx(
        0.25 / 1.5 + 0.25 / 0.5
    )


def test_features_by_hand() -> None:
    found = dict(
        zip(features.FEATURES, features.features(["The cat, however, saw 2 Dogs. The end!"])[0].tolist())
    )
    assert found["word_length_mean"] == pytest.approx((3 + 3 + 7 + 3 + 1 + 4 + 3 + 3) / 8)
    assert found["type_token_ratio"] == 7 / 8 and found["top_word_share"] == 2 / 8
    assert found["function_words"] == 2 / 8 and found["connectives"] == 1 / 8
    assert found["names"] == 1 / 8 and found["numbers"] == 1 / 8
    assert found["commas"] == 2 / 8 and found["sentence_ends"] == 2 / 8 and found["other_marks"] == 0
    assert found["sentence_length_mean"] == pytest.approx(math.log1p(4))
    assert found["sentence_length_spread"] == pytest.approx(math.log1p(2))
    assert features.features(["", "\n", "..."]).isfinite().all()


class Lengths:
    """A scorer that gives every word as many nats as it has letters; its rank is that too."""

    name = "letters"
    identity: dict[str, Any] = {"name": "letters"}  # noqa: RUF012

    def score(
        self,
        texts: Sequence[str],
        *,
        longest: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Scored:
        nll = [torch.tensor([float(len(word)) for word in text.split()]) for text in texts]
        states = torch.stack([torch.tensor([len(n), float(n.sum())]) for n in nll])
        return Scored(nll, [n.long() for n in nll], states)


WORDS = ["a", "bb", "ccc", "dddd", "eeeee", "ffffff", "ggggggg"]


def decode(ids: Tensor) -> list[str]:
    return [" ".join(WORDS[i] for i in row) for row in ids.tolist()]


@pytest.fixture(scope="module")
def reference() -> Reference:
    rows = torch.randint(7, (80, 12), generator=torch.Generator().manual_seed(2))
    return Reference.build(rows, decode, Lengths(), draws=50)


def test_perplexities_by_hand(reference: Reference) -> None:
    ids = torch.tensor([[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], [0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4]])
    texts = ["a a a a a a", *decode(ids[1:])]
    measured = measure(ids, texts, Lengths(), reference)
    columns = measured.columns
    assert measured.per_sample["tokens"] == [6, 12] and measured.per_sample["nll"] == [6, 43]
    assert columns["perplexity"] == pytest.approx(math.exp(49 / 18))
    assert columns["perplexity_per_sample"] == pytest.approx(math.exp((1 + 43 / 12) / 2))
    # the first text repeats its windows; the second repeats two windows of nine
    assert measured.per_sample["seq_rep_4"] == pytest.approx([2 / 3, 2 / 9])
    assert columns["entropy"] == pytest.approx(
        (0 - (10 / 12 * math.log(1 / 6) + 2 / 12 * math.log(1 / 12))) / 2
    )
    data = reference.pool
    assert columns["log_ppl_gap"] == pytest.approx(49 / 18 - float(data.nll.sum() / data.tokens.sum()))


def test_clean_perplexity_leaves_repetition_out(reference: Reference) -> None:
    assert reference.seq_rep_4_bar < 2 / 3
    ids = torch.tensor([[0] * 12, [0, 1, 2, 3, 4, 5, 6, 1, 0, 3, 2, 5]])
    columns = measure(ids, decode(ids), Lengths(), reference).columns
    assert columns["acceptance"] == columns["seq_rep_4_pass"] == 0.5
    assert columns["clean_perplexity"] == pytest.approx(
        math.exp((1 + 2 + 3 + 4 + 5 + 6 + 7 + 2 + 1 + 4 + 3 + 6) / 12)
    )
    dirty = measure(ids[:1].expand(3, 12), decode(ids[:1]) * 3, Lengths(), reference)
    assert dirty.columns["clean_perplexity"] is None


def test_columns_are_json_and_the_datas_own_too(reference: Reference) -> None:
    measured = measure(reference.half, decode(reference.half), Lengths(), reference)
    for columns in (measured.columns, reference.columns):
        assert set(columns) == {*COLUMNS, "samples"}
        json.dumps(columns, allow_nan=False)
    json.dumps(measured.per_sample, allow_nan=False)
    assert reference.columns["log_ppl_gap"] == 0 and reference.columns["typicality"] == pytest.approx(
        0.5, abs=0.05
    )
    assert flags(reference.columns, reference) == []
    assert flags(measured.columns, reference) == []


def test_fresh_sets_of_the_same_law_are_hardly_ever_caught(reference: Reference) -> None:
    """Nothing told these sets from the reference: a column may catch one in a hundred, thirteen columns a few."""
    random = torch.Generator().manual_seed(3)
    caught = 0
    for _ in range(40):
        ids = torch.randint(7, (30, 12), generator=random)
        caught += bool(flags(measure(ids, decode(ids), Lengths(), reference).columns, reference))
    assert caught <= 4


def test_another_law_is_caught(reference: Reference) -> None:
    ids = torch.randint(5, (30, 12), generator=torch.Generator().manual_seed(4))
    caught = flags(measure(ids, decode(ids), Lengths(), reference).columns, reference)
    assert {"energy_z", "mmd_z", "rank_chi2_z"} <= set(caught)


@given(
    st.integers(4, 60).flatmap(lambda num: st.tuples(st.just(num), st.integers(2, num - 2))),
    st.integers(0, 9),
)
def test_rows_kept_apart_cover_the_text(sizes: tuple[int, int], seed: int) -> None:
    num, kept = sizes
    order = _even_split(num, kept, seed)
    assert order.sort().values.tolist() == list(range(num))
    gaps = order[:kept].sort().values.diff()
    assert num // kept <= int(gaps.min()) and int(gaps.max()) <= -(-num // kept)


def test_a_reference_can_be_stored(reference: Reference, tmp_path: Any) -> None:
    loaded = Reference.load(reference.save(tmp_path / "deep" / "reference.safetensors"))
    assert loaded.columns == reference.columns and loaded.scorer == reference.scorer
    (tmp_path / "broken").write_bytes(b"nothing")
    with pytest.raises(UserError, match="build it again"):
        Reference.load(tmp_path / "broken")


def test_what_cannot_be_measured(reference: Reference) -> None:
    ids = torch.zeros(41, 12, dtype=torch.long)
    with pytest.raises(UserError, match="1 to 40 samples"):
        measure(ids, decode(ids), Lengths(), reference)
    with pytest.raises(UserError, match="rows of 12"):
        measure(ids[:, :9], decode(ids), Lengths(), reference)
    with pytest.raises(UserError, match="twice as many"):
        Reference.build(ids[:3], decode, Lengths())
    with pytest.raises(UserError, match="at least 5 tokens"):
        Reference.build(ids[:, :4], decode, Lengths())
