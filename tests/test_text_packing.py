"""Packing rules against blocks written out by hand, and the order of an epoch as a permutation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simplax.data.text import shuffled
from simplax.data.text.packing import Layout, Packed, Padded
from simplax.errors import UserError

EMPTY = np.zeros(0, dtype=np.uint32)


def arrays(*documents: list[int]) -> list[np.ndarray]:
    return [np.array(ids, dtype=np.uint32) for ids in documents]


def whole(layout: Layout, *documents: list[int]) -> list[list[int]]:
    return layout.rows(EMPTY, arrays(*documents), [True] * len(documents)).tokens.tolist()


def test_documents_are_joined_by_the_end_symbol_and_cut_every_length_ids() -> None:
    """1 2 3 E 4 5 E 6 7 8 9 E, cut at four: the end symbol of a document may begin the next block."""
    assert whole(Packed(4, eos=0), [1, 2, 3], [4, 5], [6, 7, 8, 9]) == [
        [1, 2, 3, 0],
        [4, 5, 0, 6],
        [7, 8, 9, 0],
    ]
    assert whole(Packed(5, eos=0), [1, 2, 3], [4, 5], [6, 7, 8, 9]) == [[1, 2, 3, 0, 4], [5, 0, 6, 7, 8]]
    assert whole(Packed(3), [1, 2], [3, 4, 5]) == [[1, 2, 3]]


def test_the_published_wrap_puts_length_minus_two_ids_between_its_symbols() -> None:
    """The rule of the published preprocessing: runs of L - 2 ids, each as BOS, ids, EOS; the short tail is given up."""
    layout = Packed(5, eos=50256, wrap=(50256, 50256))
    expected = [[50256, 1, 2, 3, 50256], [50256, 50256, 4, 5, 50256], [50256, 50256, 6, 7, 50256]]
    made = layout.rows(EMPTY, arrays([1, 2, 3], [4, 5], [6, 7, 8]), [True] * 3)
    assert made.tokens.tolist() == expected
    assert made.rest.tolist() == [8, 50256]
    other = Packed(4, eos=9, wrap=(7, 9))
    assert whole(other, [1, 2, 3], [4]) == [[7, 1, 2, 9], [7, 3, 9, 9], [7, 4, 9, 9]]


def test_padded_documents_have_a_row_each() -> None:
    made = Padded(4, eos=9).rows(EMPTY, arrays([1, 2], [3, 4, 5, 6], [1, 2, 3, 4, 5], []), [True] * 4)
    assert made.tokens.tolist() == [[1, 2, 9, 9], [3, 4, 5, 6], [1, 2, 3, 4], [9, 9, 9, 9]]
    assert made.lengths is not None and made.lengths.tolist() == [3, 4, 4, 1]
    assert made.cut == 1
    plain = Padded(3).rows(EMPTY, arrays([1, 2], [3]), [True, True])
    assert plain.lengths is not None and plain.lengths.tolist() == [2, 1]


@given(
    documents=st.lists(st.lists(st.integers(0, 9), max_size=12), min_size=1, max_size=8),
    cuts=st.lists(st.integers(1, 5), min_size=1, max_size=8),
    layout=st.sampled_from([Packed(4, 9), Packed(3), Packed(5, 9, (8, 9)), Padded(4, 9), Padded(6)]),
)
@settings(max_examples=200, deadline=None)
def test_rows_do_not_depend_on_how_documents_arrive(
    documents: list[list[int]], cuts: list[int], layout: Layout
) -> None:
    at_once = layout.rows(EMPTY, arrays(*documents), [True] * len(documents))
    rest, tokens, lengths, cut = EMPTY, [], [], 0
    for number, document in enumerate(documents):
        size = cuts[number % len(cuts)]
        starts = list(range(0, len(document), size)) or [0]
        for start in starts:  # a call for each piece of a document
            made = layout.rows(rest, arrays(document[start : start + size]), [start == starts[-1]])
            rest, cut = made.rest, cut + made.cut
            tokens += made.tokens.tolist()
            lengths += [] if made.lengths is None else made.lengths.tolist()
    assert tokens == at_once.tokens.tolist()
    assert lengths == ([] if at_once.lengths is None else at_once.lengths.tolist())
    assert (rest.tolist(), cut) == (at_once.rest.tolist(), at_once.cut)


@given(documents=st.lists(st.lists(st.integers(0, 8), max_size=9), max_size=9), length=st.integers(1, 7))
@settings(max_examples=100, deadline=None)
def test_packing_loses_nothing_but_the_tail(documents: list[list[int]], length: int) -> None:
    stream = [token for document in documents for token in [*document, 9]]
    made = Packed(length, eos=9).rows(EMPTY, arrays(*documents), [True] * len(documents))
    assert [*made.tokens.ravel().tolist(), *made.rest.tolist()] == stream
    assert len(made.rest) < length


def test_lengths_that_cannot_be_are_refused() -> None:
    with pytest.raises(UserError, match="at least 1 token"):
        Packed(0)
    with pytest.raises(UserError, match="at least 3"):
        Packed(2, eos=1, wrap=(1, 1))


@given(size=st.integers(1, 300), epoch=st.integers(0, 5), seed=st.integers(0, 2**40))
@settings(max_examples=150, deadline=None)
def test_every_epoch_visits_every_row_once(size: int, epoch: int, seed: int) -> None:
    rows = shuffled(torch.arange(epoch * size, (epoch + 1) * size), size, seed)
    assert rows.sort().values.tolist() == list(range(size))


def test_a_counter_means_the_same_row_whatever_batch_it_travels_in() -> None:
    size = 3_000_000_000  # no permutation of this is ever stored
    counters = torch.tensor([0, 1, size - 1, size, 7 * size + 5])
    together = shuffled(counters, size, 3)
    assert together.tolist() == [int(shuffled(c.reshape(1), size, 3)) for c in counters]
    assert bool((together >= 0).all()) and bool((together < size).all())


@pytest.mark.slow
def test_orders_differ_between_epochs_and_seeds_and_look_uniform() -> None:
    """Over 6000 seeds each row of five comes first 1200 times; the chance of a false alarm is below 1e-6."""
    from scipy import stats

    size, number = 5, 6000
    firsts = [int(shuffled(torch.tensor([0]), size, seed)) for seed in range(number)]
    assert stats.chisquare(np.bincount(firsts, minlength=size)).pvalue > 1e-6
    epochs = shuffled(torch.arange(0, 6000 * size, size), size, 11)
    assert stats.chisquare(np.bincount(epochs.numpy(), minlength=size)).pvalue > 1e-6
    pairs = shuffled(torch.arange(6000 * 4), 4, 1).reshape(-1, 4)[:, :2]
    counts = np.bincount((pairs[:, 0] * 4 + pairs[:, 1]).numpy(), minlength=16).reshape(4, 4)
    assert np.trace(counts) == 0
    assert stats.chisquare(counts[~np.eye(4, dtype=bool)]).pvalue > 1e-6
