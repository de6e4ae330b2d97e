"""The share of real words: whole words only, counted against those of the training text."""

from __future__ import annotations

import pytest

from simplax.evaluate.text.words import share_of_known, vocabulary, words


def test_words_are_whole_and_in_lower_case() -> None:
    # the first and the last may be cut by the ends of a sample
    assert words("ment of THE people's rights, 1812 and-so on") == [
        "of",
        "the",
        "people's",
        "rights",
        "and",
        "so",
    ]
    assert words("one two") == words("") == []


def test_the_share_counts_all_words_and_its_interval_the_texts() -> None:
    known = vocabulary(["a the people shall govern z"])
    assert known == {"the", "people", "shall", "govern"}
    texts = ["x the people z", "x the goverment shall peeple z"]
    share, low, high = share_of_known(texts, known)
    assert share == pytest.approx(4 / 6)
    # two texts with 2 of 2 and 2 of 4: residuals 2/3 and -2/3
    half = 1.96 * (2 * (2 / 3) ** 2) ** 0.5 / 6
    assert (low, high) == (pytest.approx(4 / 6 - half), pytest.approx(4 / 6 + half))
    assert share_of_known(texts, known | {"goverment", "peeple"}) == (1.0, 1.0, 1.0)
    assert share_of_known(["", "one two"], known) == (None, None, None)
