"""A task of your own in one file: sequences of balanced brackets, and a recipe for every method to learn them.

The file is a command line too:

    python examples/own_task.py recipes brackets
    python examples/own_task.py train brackets-mdlm
    python examples/own_task.py sample runs/brackets-mdlm
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from simplax.cli import main
from simplax.config.run import RunConfig, SamplingDefaults
from simplax.methods import Method
from simplax.nn import PRESETS
from simplax.random import Keys
from simplax.recipes.registry import every_method, recipe
from simplax.tasks import TASKS, Task
from simplax.train import Optimizer, Run
from simplax.typing import Batch


@cache
def balanced(pairs: int) -> tuple[str, ...]:
    """All balanced words of so many pairs of brackets: the first pair encloses some of them, others follow it."""
    if pairs == 0:
        return ("",)
    return tuple(
        f"({inside}){after}"
        for number in range(pairs)
        for inside in balanced(number)
        for after in balanced(pairs - 1 - number)
    )


@dataclass(frozen=True)
class BracketSource:
    """An endless stream: sample number i is a function of i and the stream alone, on any machine."""

    pairs: int
    stream: int
    vocab_size: int = 2

    @property
    def length(self) -> int:
        return 2 * self.pairs

    def batch(self, indices: Tensor) -> Batch:
        words = balanced(self.pairs)
        table = torch.tensor([["()".index(symbol) for symbol in word] for word in words])
        u = Keys.from_seeds(indices.long().cpu()).fold_in(self.stream).uniform(1)[:, 0]
        return Batch.of(table[(u * len(words)).long().clamp(max=len(words) - 1)])


@dataclass(frozen=True)
class BracketTask(Task):
    """Balanced words of `pairs` pairs of brackets, all equally likely."""

    pairs: int = 4
    """pairs of brackets in a sequence"""

    @property
    def length(self) -> int:
        return 2 * self.pairs

    @property
    def vocab_size(self) -> int:
        return 2

    def train(self) -> BracketSource:
        return BracketSource(self.pairs, stream=0)

    def validation(self) -> BracketSource:
        return BracketSource(self.pairs, stream=1)

    def text(self, tokens: Tensor) -> list[str]:
        return ["".join("()"[token] for token in row) for row in tokens.tolist()]

    def small(self) -> BracketTask:
        return BracketTask(pairs=2)

    def entropy(self) -> float:
        """Known here, so that a likelihood can be compared with the truth; other tasks leave this function out."""
        return math.log(len(balanced(self.pairs))) / self.length


TASKS["brackets"] = BracketTask


@recipe("brackets", "balanced brackets, 4 pairs, seconds on a CPU", every_method({}))
def brackets(method: Method) -> RunConfig:
    optimizer = Optimizer(learning_rate=3e-3, warmup=20)
    run = Run(steps=400, batch_size=64, optimizer=optimizer, ema=0.98, validate_every=200, save_every=200)
    return RunConfig("", BracketTask(), method, PRESETS["cpu-nano"], run, SamplingDefaults(num_steps=32))


if __name__ == "__main__":
    sys.exit(main())
