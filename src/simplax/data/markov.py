"""A small Markov chain whose law is known exactly: data for trying things out, with no download.

The entropy of its sequences is a formula, so a likelihood bound can be compared with the truth.
"""

from __future__ import annotations

import itertools
import math
import sys
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from simplax.errors import UserError
from simplax.random import Keys, categorical
from simplax.typing import Batch

_LARGEST_JOINT = 1_000_000


@dataclass(frozen=True)
class MarkovChain:
    """A stationary chain over `categories` states, a pure function of its numbers.

    `sharpness` scales the random log-probabilities of the transitions: 0 gives independent uniform tokens, large values
    an almost deterministic cycle through them.
    """

    categories: int = 5
    sharpness: float = 2.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.categories < 2:
            raise UserError(f"a chain needs at least 2 categories, not {self.categories}.")

    @cached_property
    def transition(self) -> Tensor:
        """(K, K) float64; row k is the law of the token after k."""
        noise = Keys.from_seeds([self.seed]).normal(self.categories, self.categories, dtype=torch.float64)[0]
        return torch.softmax(self.sharpness * noise, dim=-1)

    @cached_property
    def initial(self) -> Tensor:
        """The stationary law, the left eigenvector of `transition` for eigenvalue 1: every position has this law.

        States are eliminated one by one, without a subtraction (Grassmann, Taksar and Heyman, 1985), in plain numbers:
        the last digits of a library depend on where in memory it computes, and processes would disagree.
        """
        chain = self.transition.tolist()
        for last in range(self.categories - 1, 0, -1):
            leaving = max(math.fsum(chain[last][:last]), sys.float_info.min)
            for row in chain[:last]:
                row[last] /= leaving
                row[:last] = [value + row[last] * onward for value, onward in zip(row[:last], chain[last])]
        law = [1.0]
        for state in range(1, self.categories):
            law.append(math.fsum(weight * row[state] for weight, row in zip(law, chain)))
            total = math.fsum(law)
            law = [weight / total for weight in law]
        return torch.tensor(law, dtype=torch.float64)

    @property
    def entropy_rate(self) -> float:
        """Nats per further token: sum over k of initial(k) H(transition[k])."""
        rows = -torch.xlogy(self.transition, self.transition).sum(-1)
        return float((self.initial * rows).sum())

    def entropy(self, length: int) -> float:
        """Nats of a sequence of `length` tokens: its first token, then the rate."""
        first = -torch.xlogy(self.initial, self.initial).sum()
        return float(first) + (length - 1) * self.entropy_rate

    def log_prob(self, tokens: Tensor) -> Tensor:
        """Log-probability (batch,) of sequences (batch, length)."""
        steps = torch.log(self.transition)[tokens[:, :-1], tokens[:, 1:]].sum(-1)
        return torch.log(self.initial)[tokens[:, 0]] + steps

    def joint(self, length: int) -> tuple[Tensor, Tensor]:
        """Every sequence (K^length, length) and its probability, for sizes that can be enumerated."""
        if self.categories**length > _LARGEST_JOINT:
            raise UserError(
                f"{self.categories}^{length} sequences are too many to list: use fewer categories or a shorter length."
            )
        every = torch.tensor(list(itertools.product(range(self.categories), repeat=length)))
        return every, self.log_prob(every).exp()

    def draw(self, length: int, keys: Keys) -> Tensor:
        """(batch, length) sequences, each a function of its own key."""
        u = keys.uniform(length)
        tokens = [categorical(self.initial.expand(keys.batch, -1), u[:, 0])]
        for position in range(1, length):
            tokens.append(categorical(self.transition[tokens[-1]], u[:, position]))
        return torch.stack(tokens, dim=1)


@dataclass(frozen=True)
class MarkovSource:
    """An endless stream of sequences of a chain; `stream` separates training from validation."""

    chain: MarkovChain
    length: int
    stream: int = 0

    @property
    def vocab_size(self) -> int:
        return self.chain.categories

    def batch(self, indices: Tensor) -> Batch:
        keys = Keys.from_seeds(indices.long().cpu()).fold_in(self.chain.seed, self.stream)
        return Batch.of(self.chain.draw(self.length, keys))
