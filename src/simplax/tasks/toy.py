"""The toy task: sequences of a small Markov chain."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from simplax.data.markov import MarkovChain, MarkovSource
from simplax.errors import UserError
from simplax.tasks.base import Task


@dataclass(frozen=True)
class ToyTask(Task):
    """`sequence_length` tokens of a stationary chain over `categories` states (see `MarkovChain`)."""

    categories: int = 5
    """number of states of the Markov chain"""
    sequence_length: int = 8
    """tokens per sequence"""
    sharpness: float = 2.0
    """0 gives independent uniform tokens, large values an almost deterministic cycle"""
    seed: int = 0
    """which chain"""

    def __post_init__(self) -> None:
        if self.sequence_length < 1:
            raise UserError(f"sequences need at least 1 token, not {self.sequence_length}.")

    @property
    def chain(self) -> MarkovChain:
        return MarkovChain(self.categories, self.sharpness, self.seed)

    @property
    def length(self) -> int:
        return self.sequence_length

    @property
    def vocab_size(self) -> int:
        return self.categories

    def train(self) -> MarkovSource:
        return MarkovSource(self.chain, self.length, stream=0)

    def validation(self) -> MarkovSource:
        return MarkovSource(self.chain, self.length, stream=1)

    def text(self, tokens: Tensor) -> list[str]:
        return [" ".join(map(str, row)) for row in tokens.tolist()]

    def small(self) -> ToyTask:
        return self

    def entropy(self) -> float:
        return self.chain.entropy(self.length) / self.length
