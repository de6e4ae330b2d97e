"""Language models that score text they did not write: a log probability, a rank and a state for every token.

The token rule is the published one: text is tokenised anew by the scorer and cut to as many tokens as the model's rows
have, or to the scorer's context; the first token has no prediction and is not counted; the first end of a document
counts, later ones do not. A scorer computes in float32 on a CPU and in its own format on a GPU; nats and ranks are read
from its logits in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from simplax.data.text.tokenizers import END
from simplax.io.sharding import current

_TOKENS_PER_BATCH = {"cuda": 16_384}
_FEW_TOKENS = 2048
"""Tokens of a batch, by kind of device, and on any other."""
_POSITIONS_AT_ONCE = 256
"""Positions whose scores over the vocabulary are ranked together: bounds memory, changes nothing."""


@dataclass(frozen=True, eq=False)
class Scored:
    """Per text: `nll` nats and strict `ranks` (1 is the likeliest) of every counted token; `states` (texts, d).

    A text of fewer than two tokens has nothing to count and its tensors are empty. A state is the mean over a text's
    tokens of the last hidden layer.
    """

    nll: list[Tensor]
    ranks: list[Tensor]
    states: Tensor


@dataclass(frozen=True, eq=False)
class CausalScorer:
    """A causal language model of `transformers` with its tokenizer.

    The symbol for the end of a document in a text is read as the tokenizer's own, `end`, whatever that is called.
    """

    name: str
    identity: dict[str, Any]
    model: Any
    tokenizer: Any
    context: int

    @property
    def end(self) -> int | None:
        """The id that ends a document: that of the symbol itself where the vocabulary has it, else the EOS."""
        known = self.tokenizer.convert_tokens_to_ids(END)
        unknown = known is None or (known == self.tokenizer.unk_token_id and self.tokenizer.unk_token != END)
        found: int | None = self.tokenizer.eos_token_id if unknown else known
        return found

    def encode(self, text: str, longest: int | None = None) -> list[int]:
        """The tokens that are scored: the tokenizer's own, with what it adds by itself, cut to the context or less."""
        if self.end is not None:
            text = text.replace(END, self.tokenizer.convert_ids_to_tokens(self.end))
        most = self.context if longest is None else min(longest, self.context)
        ids: list[int] = self.tokenizer(text, truncation=True, max_length=most)["input_ids"]
        return ids

    @torch.inference_mode()
    def score(
        self,
        texts: Sequence[str],
        *,
        longest: int | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Scored:
        """Score the first `longest` tokens of every text; equal texts are computed once, no remainder is dropped."""
        rows = [tuple(self.encode(text, longest)) for text in texts]
        wanted: dict[tuple[int, ...], list[int]] = {}
        for number, row in enumerate(rows):
            wanted.setdefault(row, []).append(number)
        empty = torch.zeros(0)
        nll, ranks = [empty] * len(rows), [empty.long()] * len(rows)
        states: list[Tensor | None] = [None] * len(rows)
        most = _TOKENS_PER_BATCH.get(self.model.device.type, _FEW_TOKENS)
        groups = list(batches(list(wanted), most))
        processes, done = current(), 0
        tell = processes.counting(progress, len(rows))

        def score(number: int) -> list[tuple[Tensor, Tensor, Tensor]]:
            nonlocal done
            found = self._score_batch(groups[number])
            done += sum(len(wanted[row]) for row in groups[number])
            tell(done)
            return found

        for group, answers in zip(groups, processes.map(score, len(groups))):
            for row, found in zip(group, answers):
                for number in wanted[row]:
                    nll[number], ranks[number], states[number] = found
        width = next((state.numel() for state in states if state is not None), 0)
        filled = [torch.zeros(width) if state is None else state for state in states]
        return Scored(nll, ranks, torch.stack(filled) if filled else torch.zeros(0, 0))

    def _score_batch(self, rows: list[tuple[int, ...]]) -> list[tuple[Tensor, Tensor, Tensor]]:
        # padding on the right comes after every real token, which a causal model never looks at
        device, longest = self.model.device, max(map(len, rows))
        ids = torch.zeros(len(rows), longest, dtype=torch.long)
        attend = torch.zeros_like(ids)
        for number, row in enumerate(rows):
            ids[number, : len(row)] = torch.tensor(row)
            attend[number, : len(row)] = 1
        out = self.model(
            input_ids=ids.to(device),
            attention_mask=attend.to(device),
            output_hidden_states=True,
            use_cache=False,
        )
        answers = []
        for number, row in enumerate(rows):
            tokens = ids[number, : len(row)].to(device)
            nll, ranks = observed(out.logits[number, : len(row) - 1], tokens[1:])
            counts = counted(tokens, self.end)[1:]
            state = out.hidden_states[-1][number, : len(row)].float().mean(0)
            answers.append((nll[counts].cpu(), ranks[counts].cpu(), state.cpu()))
        return answers


def counted(tokens: Tensor, end: int | None) -> Tensor:
    """Where tokens (length,) count: everywhere but at the second and later ends of a document."""
    if end is None:
        return torch.ones_like(tokens, dtype=torch.bool)
    ends = tokens == end
    return ~ends | (ends.cumsum(-1) == 1)


def observed(logits: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Nats and strict rank (1 + how many scores are higher) of each observed token (n,) under logits (n, K)."""
    nll, ranks = [], []
    for part, seen in zip(logits.split(_POSITIONS_AT_ONCE), tokens.split(_POSITIONS_AT_ONCE)):
        scores = part.float()
        own = scores.gather(-1, seen[:, None])
        nll.append(scores.logsumexp(-1) - own[:, 0])
        ranks.append((scores > own).sum(-1) + 1)
    if not nll:
        return logits.new_zeros(0), tokens.new_zeros(0)
    return torch.cat(nll), torch.cat(ranks)


def batches(rows: list[tuple[int, ...]], most: int = _FEW_TOKENS) -> Iterator[list[tuple[int, ...]]]:
    """All rows that have tokens, in groups of similar length and at most so many tokens, padding included."""
    batch: list[tuple[int, ...]] = []
    for row in sorted((row for row in rows if row), key=len, reverse=True):
        if batch and (len(batch) + 1) * len(batch[0]) > most:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch
