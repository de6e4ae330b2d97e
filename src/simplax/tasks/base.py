"""What a run is trained on: a frozen dataclass that makes its data only when asked."""

from __future__ import annotations

import abc
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from simplax.train.run import Source

if TYPE_CHECKING:
    from simplax.data.text import Tokenizer


class Task(abc.ABC):
    """Data of one kind. `length` and `vocab_size` are known without making any.

    `has_answers` says that the given positions of a sequence leave one right completion, which can be counted.
    """

    has_answers: ClassVar[bool] = False

    @property
    @abc.abstractmethod
    def length(self) -> int: ...

    @property
    @abc.abstractmethod
    def vocab_size(self) -> int: ...

    @abc.abstractmethod
    def train(self) -> Source:
        """The training stream."""

    @abc.abstractmethod
    def validation(self) -> Source:
        """Samples never trained on, on which choices may be made."""

    @abc.abstractmethod
    def text(self, tokens: Tensor) -> list[str]:
        """Token sequences (batch, length) as people read them, one string each."""

    @abc.abstractmethod
    def small(self) -> Task:
        """The same kind of data in a size that is made at once, for smoke runs."""

    def entropy(self) -> float | None:
        """The exact entropy of the data in nats per token, where it is known: no bound can be below it."""
        return None

    def tokenizer(self, near: Path | None = None) -> Tokenizer | None:
        """What turns text into tokens and back, for data that was text; the one stored in `near` comes first."""
        return None
