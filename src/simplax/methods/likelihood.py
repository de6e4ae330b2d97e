"""Negative log-likelihood of a set of sequences: the bound averaged over times and noise, with its error.

A diffusion bound is the mean over training times that is usually reported, plus what that leaves out: reconstruction
below the first time and the prior's term above the last. Only with them is it a bound. What a method trains on (the
objective of Simplax, a low-variance weighting) plays no part here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from simplax.errors import UserError
from simplax.io.sharding import current
from simplax.methods.base import HasLikelihood, Method
from simplax.nn import Network
from simplax.random import Keys
from simplax.times import stratified
from simplax.typing import Batch, StepContext


@dataclass(frozen=True)
class Likelihood:
    """Nats per scored token: the value itself if `exact`, an upper bound on it in expectation otherwise.

    Padding that a model writes itself is part of the sum and no token: it is learned, and its nats belong to the
    sequence, but a mean over it would be better the more of it there is.

    `boundary_terms` is the part of it outside the training times. `standard_error` is about the population the
    sequences came from, `monte_carlo_error` only about the draws of time and noise for this very set of sequences (zero
    when the value is exact). `per_sequence` (batch,) are sums in nats.
    """

    nats_per_token: float
    boundary_terms: float
    standard_error: float
    monte_carlo_error: float
    exact: bool
    draws: int
    sequences: int
    scored_tokens: int
    per_sequence: Tensor

    @property
    def bits_per_token(self) -> float:
        return self.nats_per_token / math.log(2.0)

    @property
    def nats_per_sequence(self) -> float:
        return float(self.per_sequence.mean())

    def nats_per_character(self, characters: int) -> float:
        """The same total shared among the characters the scored tokens stand for."""
        if characters < 1:
            raise UserError(f"the number of characters must be at least 1, got {characters}.")
        return self.nats_per_token * self.scored_tokens / characters

    @property
    def perplexity(self) -> float:
        return math.exp(self.nats_per_token)


def has_two_bounds(method: Method, denoiser: nn.Module) -> bool:
    """Whether a first call changes the bound: the network carries something and the method's bound reads it."""
    reads = isinstance(method, HasLikelihood) and method.carried_likelihood
    return reads and Network.of(denoiser).carry.carries


@torch.no_grad()
def nll(
    method: Method,
    denoiser: nn.Module,
    tokens: Tensor,
    *,
    given: Tensor | None = None,
    attend: Tensor | None = None,
    labels: Tensor | None = None,
    draws: int = 8,
    seed: int = 0,
    batch_size: int = 256,
    carry: bool = True,
    counted: Tensor | None = None,
    progress: Callable[[int], None] | None = None,
) -> Likelihood:
    """Each draw gives every sequence its own time, stratified over the whole set, and noise of its own.

    Draws are independent, so their spread measures the Monte Carlo error; results do not depend on `batch_size`.
    `labels` (batch, labels) as in `Batch` give the likelihood under them, without them that of no label.
    A network with a carry makes its own first call on every state, or none with `carry=False`: both are bounds.
    Where `counted` (batch, length) is False, a scored position adds its nats and is not counted as a token.
    `progress` is called with the number of draws of single sequences done.
    """
    if not isinstance(method, HasLikelihood):
        raise UserError(f"{type(method).__name__} has no likelihood: compare its samples instead.")
    if draws < 1 or batch_size < 1 or len(tokens) < 1:
        raise UserError("give at least one sequence, one draw and a batch size of at least 1.")
    if not 0 <= seed < 2**62:
        raise UserError(f"the seed must lie between 0 and 2^62 - 1, got {seed}.")
    draws = 1 if method.exact_likelihood else draws
    whole = Batch.of(tokens, given, attend, labels)
    device = next(denoiser.parameters(), torch.empty(0)).device
    times = [stratified(len(tokens), seed, draw) for draw in range(draws)]
    batches = torch.arange(len(tokens)).split(batch_size)
    processes, finished = current(), 0
    tell = processes.counting(progress, draws * len(tokens))

    def sums(number: int) -> Tensor:
        """(3, rows) of a batch in one draw: nats inside the training times, of boundary terms, and scored tokens."""
        nonlocal finished
        draw, rows = number // len(batches), batches[number % len(batches)]
        batch = whole.rows(rows).to(device)
        keys = Keys.from_seeds(rows).stream("likelihood", seed, draw).to(device)
        context = StepContext(keys, times[draw][rows].to(device), training=False)
        inner = method.nll(denoiser, batch, context, carry=carry)
        outer = method.boundary_terms(denoiser, batch, context, carry=carry)
        finished += len(rows)
        tell(finished)
        tokens_of = inner.scored if counted is None else inner.scored & counted[rows].to(device)
        return torch.stack(
            [column.double().sum(-1).cpu() for column in (inner.per_token, outer.per_token, tokens_of)]
        )

    parts = processes.map(sums, draws * len(batches))
    inside, outside, scored = torch.cat(parts, dim=1).unflatten(1, (draws, len(tokens))).unbind(0)
    return _summarise(inside, outside, scored[0], method.exact_likelihood)


def _summarise(inside: Tensor, outside: Tensor, scored: Tensor, exact: bool) -> Likelihood:
    """Nats (draws, batch) and scored tokens (batch,): a ratio of sums, and the errors of that ratio."""
    totals, count = inside + outside, scored.sum().clamp(min=1)
    draws, number = totals.shape
    per_sequence = totals.mean(0)
    mean = float(per_sequence.sum() / count)
    residual = per_sequence - mean * scored  # the linearised ratio: what each sequence adds to its error
    spread = float(residual.std() * math.sqrt(number) / count) if number > 1 else math.nan
    noise = float((totals.sum(-1) / count).std() / math.sqrt(draws)) if draws > 1 else math.nan
    return Likelihood(
        nats_per_token=mean,
        boundary_terms=float(outside.mean(0).sum() / count),
        standard_error=spread,
        monte_carlo_error=0.0 if exact else noise,
        exact=exact,
        draws=draws,
        sequences=number,
        scored_tokens=int(scored.sum()),
        per_sequence=per_sequence,
    )
