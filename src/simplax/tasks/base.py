"""What a run is trained on: a frozen dataclass that makes its data only when it is needed."""

from __future__ import annotations

import abc
from collections.abc import Sized
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from simplax.errors import UserError
from simplax.typing import Batch, Source

if TYPE_CHECKING:
    from simplax.data.text import Label, Lengths, Tokenizer


_HELD_OUT = 1024


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

    def held_out_batch(self, num: int | None = None) -> Batch:
        """The first `num` validation samples, each of them once; 1,024 if not said, or all if there are fewer."""
        source = self.validation()
        most = len(source) if isinstance(source, Sized) else None
        if num is None:
            num = _HELD_OUT if most is None else min(_HELD_OUT, most)
        if num < 1 or (most is not None and num > most):
            has = "" if most is None else f", and this task holds out {most:,}"
            raise UserError(f"the number of held-out sequences must be at least 1{has}: got {num:,}.")
        return source.batch(torch.arange(num))

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

    @property
    def end(self) -> int | None:
        """The token that ends a sequence and pads it, where the model itself writes it: decoding stops there."""
        return None

    @property
    def padding(self) -> int | None:
        """The token whose first place ends the count of a sequence's tokens, itself included."""
        return self.end

    def counted(self, tokens: Tensor) -> Tensor | None:
        """(batch, length): False on padding that the model writes itself; None where there is none."""
        if self.padding is None:
            return None
        from simplax.data.text.lengths import attend_through_end

        return attend_through_end(tokens, self.padding)

    def known_lengths(self) -> Lengths | None:
        """How long sequences are, where padding is no part of the model: lengths of samples are drawn from this."""
        return None

    def cut(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Sequences (batch, length) as `text` reads them, where only the first `lengths` (batch,) tokens are theirs."""
        return tokens

    def described_by(self) -> tuple[Label, ...]:
        """Labels of the sequences, in the order in which the training source lists them."""
        return ()
