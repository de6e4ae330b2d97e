"""Your own sequences: the task that a directory of prepared data describes by itself."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from simplax.data.text.labels import Label
from simplax.errors import UserError
from simplax.tasks.base import Task
from simplax.typing import Source

if TYPE_CHECKING:
    from simplax.data.text import Lengths, Prepared, Tokenizer

SYNTHETIC = "synthetic"


@dataclass(frozen=True)
class SequenceTask(Task):
    """Rows of a directory that `simplax data sequences` made; `SequenceTask("DIR")` is all there is to say.

    The other fields are facts of the data, read from the directory when they are not given. They are stored with a
    model, which therefore needs no data to be used. `end_token` ends and pads a sequence, `lengths` counts training
    sequences by length; `labels` describe sequences. The directory is looked for here and below `SIMPLAX_DATA`.
    `synthetic` is random tokens for smoke runs. Training visits rows in an order decided by `seed`.
    """

    directory: str = SYNTHETIC
    sequence_length: int = 0
    categories: int = 0
    layout: str = ""
    end_token: int | None = None
    lengths: tuple[int, ...] = ()
    labels: tuple[Label, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        if self.sequence_length == 0 and self.categories == 0:
            found = {"sequence_length": 64, "categories": 32, "layout": "packed"}
            for name, value in (found if self.directory == SYNTHETIC else _facts(self.prepared())).items():
                object.__setattr__(self, name, value)
        if self.sequence_length < 1 or self.categories < 2:
            raise UserError("sequences need at least 1 token and a vocabulary at least 2 categories.")

    @property
    def length(self) -> int:
        return self.sequence_length

    @property
    def vocab_size(self) -> int:
        return self.categories

    @property
    def end(self) -> int | None:
        return self.end_token if self.layout == "learned_end" else None

    def known_lengths(self) -> Lengths | None:
        from simplax.data.text import Lengths

        return Lengths(self.lengths) if self.layout == "lengths" else None

    def described_by(self) -> tuple[Label, ...]:
        return self.labels

    def train(self) -> Source:
        return self._source("train", self.seed)

    def validation(self) -> Source:
        return self._source("validation", None)

    def _source(self, split: str, seed: int | None) -> Source:
        from simplax.data.text import SyntheticSource, TextSource

        if self.directory == SYNTHETIC:
            return SyntheticSource(self.length, self.vocab_size, stream=int(split == "validation"))
        found = self.prepared()
        for name, value in _facts(found).items():
            if getattr(self, name) != value:
                raise UserError(
                    f"the data {found.directory} has another {name} than the run was made for: prepare it as before."
                )
        return TextSource(found.rows(split), self.vocab_size, seed, self.labels)

    def prepared(self) -> Prepared:
        """The data itself."""
        from simplax.data.text import Prepared

        root = os.environ.get("SIMPLAX_DATA")
        places = [Path(self.directory), *([Path(root) / self.directory] if root else [])]
        for place in places:
            if place.is_dir():
                return Prepared.open(place)
        raise UserError(
            f"the prepared data {self.directory} is neither here nor in $SIMPLAX_DATA: make it with "
            f"`simplax data sequences SOURCE --out {self.directory}`."
        )

    def tokenizer(self, near: Path | None = None) -> Tokenizer | None:
        from simplax.data.text import load_tokenizer
        from simplax.data.text.tokenizers import FILE, StopsAtEnd

        if near is not None and (near / FILE).is_file():
            found = load_tokenizer(near)
        elif self.directory == SYNTHETIC:
            return None
        else:
            found = self.prepared().tokenizer
        return found if self.end is None else StopsAtEnd(found)

    def text(self, tokens: Tensor) -> list[str]:
        tokenizer = self.tokenizer()
        if tokenizer is None:
            return [" ".join(map(str, row)) for row in tokens.tolist()]
        return [tokenizer.decode(row) for row in tokens.tolist()]

    def small(self) -> SequenceTask:
        return self


def _facts(found: Prepared) -> dict[str, object]:
    return {
        "sequence_length": found.length,
        "categories": found.vocab_size,
        "layout": found.layout,
        "end_token": found.end,
        "lengths": () if found.lengths is None else found.lengths.counts,
        "labels": found.labels,
    }
