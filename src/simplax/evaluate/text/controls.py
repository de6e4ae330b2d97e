"""Text that nobody should praise: samplers without a model that win on perplexity, and human text damaged or repeated.

All are functions of tokens. `counts` (K,) are frequencies of the training split, most frequent first after sorting.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from simplax.evaluate.entropy import unigram_entropy
from simplax.evaluate.text.repetition import ngram_ids

PHRASE = 5
NAMES = (
    "human-half", "periodic-k*", "mirror-k*", "phrase-bank", "top-k",
    "tiled-row", "word-shuffle", "sentence-shuffle",
)  # fmt: skip
"""Rows of every text table, in this order."""


def token_counts(rows: Tensor, vocab_size: int) -> Tensor:
    """(K,) how often each id occurs in rows."""
    return torch.bincount(rows.reshape(-1).long(), minlength=vocab_size)


def frequent(counts: Tensor) -> Tensor:
    """Ids that occur, the most frequent first, equal ones by id."""
    order = counts.sort(descending=True, stable=True).indices
    return order[counts[order] > 0]


def periodic(counts: Tensor, k: int, length: int, num: int = 1) -> Tensor:
    """The k most frequent tokens in descending order, looped; every row is the same."""
    loop = _top(counts, k)
    return loop[torch.arange(length) % k].expand(num, length).clone()


def top_k(counts: Tensor, k: int, length: int, num: int = 1, seed: int = 0) -> Tensor:
    """Independent draws from the frequencies of the k most frequent tokens."""
    best = _top(counts, k)
    steps = counts[best].double().cumsum(0)
    u = torch.rand(num, length, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return best[torch.searchsorted(steps, u * steps[-1], right=True).clamp(max=k - 1)]


def mirror(counts: Tensor, k: int, length: int, num: int = 1, seed: int = 0) -> Tensor:
    """Half a row of `top_k`, then an exact copy of it (not a reflection)."""
    half = length // 2
    if not half:
        raise ValueError("a copy needs rows of at least two tokens")
    return top_k(counts, k, half, num, seed)[:, torch.arange(length) % half]


def phrases(rows: Tensor, n: int = PHRASE) -> Tensor:
    """All different n-grams of rows, (number, n), the most frequent first, equal ones by first appearance."""
    if rows.shape[1] < n:
        raise ValueError(f"phrases of {n} tokens need rows at least as long, got rows of {rows.shape[1]}")
    windows = rows.unfold(1, n, 1).reshape(-1, n)
    numbers = ngram_ids(rows, n).reshape(-1)
    size = int(numbers.max()) + 1
    first = torch.full((size,), len(numbers)).scatter_reduce(0, numbers, torch.arange(len(numbers)), "amin")
    by_first = first.argsort()
    frequencies = torch.bincount(numbers, minlength=size)[by_first]
    order = by_first[frequencies.sort(descending=True, stable=True).indices]
    return windows[first[order]]


def phrase_bank(bank: Tensor, m: int, length: int, num: int = 1, seed: int = 0) -> Tensor:
    """Uniform draws from the first m phrases of a bank (number, n), joined and cut."""
    if not 1 <= m <= len(bank):
        raise ValueError(f"the bank has {len(bank)} phrases, {m} were requested")
    pieces = -(-length // bank.shape[1])
    u = torch.rand(num, pieces, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return bank[(u * m).long()].reshape(num, -1)[:, :length]


def tiled(row: Tensor, num: int) -> Tensor:
    """One real row (length,) for every sample."""
    return row.expand(num, -1).clone()


def human_half(held_out: Tensor, num: int) -> Tensor:
    """The null: human rows, no different from those they are compared with."""
    if num > len(held_out):
        raise ValueError(f"{num} human rows were requested and {len(held_out)} are held out")
    return held_out[:num].clone()


@dataclass(frozen=True, eq=False)
class Marks:
    """Which ids begin a word and which end a sentence, (K,) each."""

    begins_word: Tensor
    ends_sentence: Tensor

    @staticmethod
    def of(pieces: list[str]) -> Marks:
        """From what each id reads as alone. Where no id begins with a space, every token is a word."""
        begins = torch.tensor([piece[:1].isspace() for piece in pieces])
        ends = torch.tensor([piece.rstrip().endswith((".", "!", "?")) for piece in pieces])
        return Marks(begins if begins.any() else torch.ones_like(begins), ends)


def word_shuffle(rows: Tensor, marks: Marks, seed: int = 0) -> Tensor:
    """Words in random order within each sentence; sentences stay where they are."""
    random = torch.Generator().manual_seed(seed)
    return torch.stack(
        [
            torch.cat([_shuffled(part, marks.begins_word, random) for part in _sentences(row, marks)])
            for row in rows
        ]
    )


def sentence_shuffle(rows: Tensor, marks: Marks, seed: int = 0) -> Tensor:
    """Sentences of each row in random order, whole as they are."""
    random = torch.Generator().manual_seed(seed)
    return torch.stack([_join_shuffled(_sentences(row, marks), random) for row in rows])


def _sentences(row: Tensor, marks: Marks) -> list[Tensor]:
    return _split(row, marks.ends_sentence[row].nonzero()[:, 0] + 1)


def _shuffled(part: Tensor, begins: Tensor, random: torch.Generator) -> Tensor:
    return _join_shuffled(_split(part, begins[part].nonzero()[:, 0]), random)


def _split(row: Tensor, starts: Tensor) -> list[Tensor]:
    return [part for part in row.tensor_split(starts) if len(part)]


def _join_shuffled(parts: list[Tensor], random: torch.Generator) -> Tensor:
    return torch.cat([parts[place] for place in torch.randperm(len(parts), generator=random)])


def _top(counts: Tensor, k: int) -> Tensor:
    ids = frequent(counts)
    if not 1 <= k <= len(ids):
        raise ValueError(f"k must lie between 1 and the {len(ids)} tokens that occur, got {k}")
    return ids[:k]


@dataclass(frozen=True)
class Found:
    """The number whose entropy is nearest the target; `reached` is False where even the largest or smallest is off."""

    k: int
    entropy: float
    reached: bool


def find_k(entropy: Callable[[int], float], target: float, largest: int, tolerance: float = 0.05) -> Found:
    """Bisect 1..largest, over which `entropy` grows, for the value nearest `target`."""
    low, high = 1, largest
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if entropy(middle) < target else (low, middle)
    best = min((low, high), key=lambda k: (abs(entropy(k) - target), k))
    found = entropy(best)
    return Found(best, found, abs(found - target) <= tolerance)


@dataclass(frozen=True, eq=False)
class Control:
    """Rows of a control and a word on how they were made."""

    ids: Tensor
    note: str


def every_control(
    train_rows: Tensor,
    held_out: Tensor,
    marks: Marks,
    *,
    num: int,
    target: float,
    row: int = 0,
    seed: int = 0,
    end: int | None = None,
) -> dict[str, Control]:
    """Every control, `num` rows each of the length of `held_out`, k and m such that entropy is nearest `target`.

    `train_rows` give the frequencies; `row` is the held-out row that is tiled. Behind an `end` there is padding: drawn
    controls have none, for it would cut them short, and shuffled rows keep theirs where it is.
    """
    length = held_out.shape[1]
    if end is not None:
        kept = train_rows[train_rows != end]
        train_rows = kept[: len(kept) // length * length].view(-1, length)
    counts = token_counts(train_rows, len(marks.begins_word))
    bank = phrases(train_rows)
    families: dict[str, tuple[str, int, Callable[[int], Tensor]]] = {
        "periodic-k*": ("k", min(length, len(frequent(counts))), lambda k: periodic(counts, k, length, num)),
        "mirror-k*": ("k", len(frequent(counts)), lambda k: mirror(counts, k, length, num, seed)),
        "phrase-bank": ("m", len(bank), lambda m: phrase_bank(bank, m, length, num, seed)),
        "top-k": ("k", len(frequent(counts)), lambda k: top_k(counts, k, length, num, seed)),
    }
    human = human_half(held_out, num)
    rows = {
        "human-half": Control(human, "human text, the null"),
        "tiled-row": Control(tiled(held_out[row], num), f"one human row, {num} times"),
        "word-shuffle": Control(
            _before(end, human, word_shuffle, marks, seed), "human text, words shuffled in sentences"
        ),
        "sentence-shuffle": Control(
            _before(end, human, sentence_shuffle, marks, seed), "human text, sentences shuffled"
        ),
    }
    for name, (letter, largest, make) in families.items():
        found = find_k(partial(_entropy_of, make), target, largest)
        short = "" if found.reached else f"; the target {target:.2f} cannot be reached"
        rows[name] = Control(make(found.k), f"{letter} = {found.k}, entropy {found.entropy:.2f}{short}")
    return {name: rows[name] for name in NAMES}


def _before(
    end: int | None, rows: Tensor, shuffle: Callable[[Tensor, Marks, int], Tensor], marks: Marks, seed: int
) -> Tensor:
    """Rows shuffled up to their end, each with random numbers of its own where they have one."""
    if end is None:
        return shuffle(rows, marks, seed)
    shuffled = rows.clone()
    for number, row in enumerate(rows):
        length = int((row != end).sum())
        if length:
            shuffled[number, :length] = shuffle(row[None, :length], marks, seed + number)[0]
    return shuffled


def _entropy_of(make: Callable[[int], Tensor], k: int) -> float:
    return unigram_entropy(make(k))
