"""Prompts and texts with gaps as clamped and free token positions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from simplax.errors import UserError

if TYPE_CHECKING:
    from simplax.data.text import Tokenizer
    from simplax.pretrained.model import Model

_GAP = re.compile(r"<gap:(\d+)>")
Span = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Clamped:
    """Clamped positions of a batch: `tokens` and `given` (batch, length) as `Model.sample` takes them.

    The requested text of each sequence lies from position `start` up to its entry of `stops`; `gaps` are the spans of
    it to be filled in. `lengths` are those of the sequences, if the text says them and the model must be told.
    """

    tokens: Tensor
    given: Tensor
    start: int
    stops: list[int]
    gaps: list[list[Span]]
    lengths: list[int] | None = None


def prompts(model: Model, texts: Sequence[str]) -> Clamped:
    """Each text clamped at the beginning of its sequence, everything after it free."""
    tokenizer = _tokenizer(model)
    return _clamped(model, [[tokenizer.encode(text)] for text in texts])


def infilling(model: Model, texts: Sequence[str]) -> Clamped:
    """Each text clamped except for its gaps, written `<gap:8>` for eight tokens; positions after the text are free.

    A model of sequences with known lengths is told that the sequence ends with the text.
    """
    tokenizer = _tokenizer(model)
    clamped = _clamped(model, [_parts(text, tokenizer) for text in texts])
    known = model.config.task.known_lengths() is not None
    return replace(clamped, lengths=clamped.stops if known else None)


def _parts(text: str, tokenizer: Tokenizer) -> list[list[int] | int]:
    """Known tokens and, for each gap, its number of tokens, in order."""
    words = _GAP.split(text)
    if len(words) == 1:
        raise UserError(f"{text!r} has no gap: write <gap:8> where eight tokens are to be filled in.")
    parts: list[list[int] | int] = []
    for number, word in enumerate(words):
        if number % 2:
            parts.append(int(word))
            continue
        if tokenizer.spaces_lead and number + 1 < len(words):
            word = word.removesuffix(" ")  # the first token of the gap brings its own space
        if word:
            parts.append(tokenizer.encode(word))
    if not all(parts):
        raise UserError("a gap has at least one token: write <gap:1> or more.")
    return parts


def _clamped(model: Model, requests: Sequence[Sequence[list[int] | int]]) -> Clamped:
    length = model.config.task.length
    start = int(getattr(model.config.task, "wrap", False))
    tokens = torch.zeros(len(requests), length, dtype=torch.long)
    given = torch.zeros_like(tokens, dtype=torch.bool)
    if start:
        bos = _tokenizer(model).bos
        assert bos is not None
        tokens[:, 0], given[:, 0] = bos, True
    stops, gaps = [], []
    for row, parts in enumerate(requests):
        size = sum(part if isinstance(part, int) else len(part) for part in parts)
        if start + size > length:
            raise UserError(
                f"the text has {size} tokens with its gaps, and the model has room for {length - start}."
            )
        end, holes = start, []
        for part in parts:
            if isinstance(part, int):
                holes.append((end, end + part))
                end += part
            else:
                tokens[row, end : end + len(part)] = torch.tensor(part, dtype=torch.long)
                given[row, end : end + len(part)] = True
                end += len(part)
        stops.append(end)
        gaps.append(holes)
    return Clamped(tokens, given, start, stops, gaps)


def _tokenizer(model: Model) -> Tokenizer:
    if model.tokenizer is None:
        raise UserError(f"{model.config.name} is not a model of text: it takes no prompt.")
    return model.tokenizer
