"""The share of words that the training text has, too: models of a few minutes write many that nobody does."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

_WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")
_Z = 1.96


def words(text: str) -> list[str]:
    """In lower case, without the first and the last, which the ends of a sample may have cut."""
    return _WORD.findall(text.lower())[1:-1]


def vocabulary(texts: Iterable[str]) -> frozenset[str]:
    """Every word that occurs."""
    return frozenset(word for text in texts for word in words(text))


def share_of_known(
    texts: Sequence[str], known: Collection[str]
) -> tuple[float | None, float | None, float | None]:
    """The share of all words that are known, and a 95 % interval with each text as one draw; None without words."""
    counts = [(sum(word in known for word in found), len(found)) for found in map(words, texts)]
    total = sum(number for _, number in counts)
    if not total:
        return None, None, None
    share = sum(hits for hits, _ in counts) / total
    half = _Z * sum((hits - share * number) ** 2 for hits, number in counts) ** 0.5 / total
    return share, max(0.0, share - half), min(1.0, share + half)
