"""What text is measured with: a scorer, held-out human text, and rows that fool perplexity and must be caught."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from simplax.data.text import Prepared
from simplax.errors import UserError
from simplax.evaluate.frontier.curve import bootstrap
from simplax.evaluate.frontier.store import MEASURING, code, digest
from simplax.evaluate.text import Control, Reference, Scorer, flags, measure
from simplax.evaluate.text.causal import END
from simplax.io.sharding import current

Progress = Callable[[int], None]
HUMAN = 4
"""Held-out rows for every sample of a point, where the data has so many: half of what is needed at the least."""
_LIBRARIES = ("torch", "transformers", "tokenizers", "gguf")
_TRAIN_TOKENS = 1 << 22
"""Tokens of the training split that controls take their frequencies and phrases from."""


@dataclass(frozen=True, eq=False)
class Yardstick:
    """Measures sets of `num` sequences; nothing is scored until the first set is."""

    prepared: Prepared
    scorer: Scorer
    num: int
    seed: int = 0
    directory: Path | None = None
    """Where scored human rows are kept, if anywhere."""
    _built: list[Reference] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.prepared.layout == "lengths":
            raise UserError(
                f"the data {self.prepared.directory} leave padding to known lengths, which text is not measured with: "
                "prepare them with --layout learned_end, or packed."
            )
        held = self.prepared.rows("validation").rows
        if held < 2 * self.num:
            raise UserError(
                f"the data {self.prepared.directory} has {held} held-out sequences, and {self.num} samples need "
                f"twice as many: take --num {held // 2} or less, or prepare the data with a larger --split."
            )

    @cached_property
    def identity(self) -> dict[str, Any]:
        """Everything a measured column depends on besides the tokens."""
        return {
            "scorer": self.scorer.identity,
            "data": data_identity(self.prepared),
            "human_rows": len(self.held_out),
            "num": self.num,
            "seed": self.seed,
            "code": code(MEASURING),
            "versions": {name: version(name) for name in _LIBRARIES if find_spec(name) is not None},
        }

    @cached_property
    def held_out(self) -> Tensor:
        return self._rows("validation", HUMAN * self.num)

    def reference(self, progress: Progress | None = None) -> Reference:
        """The human rows, scored at the first call; `progress` is called with the number scored."""
        if not self._built:
            found = current().on_first(self._stored)
            self._built.append(found or self._build(progress))
        return self._built[0]

    def _build(self, progress: Progress | None) -> Reference:
        built = Reference.build(
            self.held_out,
            self.decode,
            self.scorer,
            size=self.num,
            seed=self.seed,
            end=self.prepared.end if self.prepared.layout == "learned_end" else None,
            progress=progress,
        )
        if self.directory is not None:
            file = self._file(self.directory)
            current().on_first(lambda: str(built.save(file)))
        return built

    def _stored(self) -> Reference | None:
        if self.directory is None or not self._file(self.directory).is_file():
            return None
        try:
            return Reference.load(self._file(self.directory))
        except UserError:  # cut short by a crash: scored again
            return None

    def _file(self, directory: Path) -> Path:
        return directory / f"{digest(self.identity)[:24]}.safetensors"

    @cached_property
    def controls(self) -> dict[str, Control]:
        """Sets of `num` rows by name, each a way to look good without writing anything."""
        return self.reference().controls(self.train_rows, self.decode, self.prepared.vocab_size)

    @property
    def train_rows(self) -> Tensor:
        return self._rows("train", max(self.num, _TRAIN_TOKENS // self.prepared.length))

    def decode(self, ids: Tensor) -> list[str]:
        """Texts in which documents end with the symbol that scorers know, whatever the tokenizer calls it."""
        tokenizer = self.prepared.tokenizer
        texts = [tokenizer.decode(row) for row in ids.tolist()]
        ends = {tokenizer.decode([one]) for one in (tokenizer.eos, tokenizer.bos) if one is not None}
        for own in ends - {END, ""}:
            texts = [text.replace(own, END) for text in texts]
        return texts

    def measure(self, ids: Tensor, progress: Progress | None = None) -> dict[str, Any]:
        """Columns, bootstrap intervals, the columns that catch the set, and its first text: plain JSON data."""
        texts = self.decode(ids)
        measured = measure(ids, texts, self.scorer, self.reference(), progress=progress)
        return {
            "num": len(ids),
            "columns": measured.columns,
            "intervals": bootstrap(measured.per_sample, seed=self.seed).intervals(),
            "flags": flags(measured.columns, self.reference()),
            "text": texts[0],
            "per_sample": measured.per_sample,
        }

    def human(self) -> dict[str, Any]:
        """The data's own row."""
        reference = self.reference()
        per_sample = {name: getattr(reference.pool, name).tolist() for name in ("nll", "tokens", "entropy")}
        return {
            "num": len(self.held_out),
            "columns": reference.columns,
            "intervals": bootstrap(per_sample, seed=self.seed).intervals(),
            "flags": [],
            "text": self.decode(self.held_out[:1])[0],
        }

    def _rows(self, split: str, most: int) -> Tensor:
        """At most so many rows of a split, spread evenly over it."""
        shards = self.prepared.rows(split)
        number = min(most, shards.rows)
        tokens, _ = shards.take(np.arange(number) * shards.rows // number)
        return torch.from_numpy(tokens)


def data_identity(prepared: Prepared) -> dict[str, Any]:
    """Digest of prepared data (its files' own digests) and what it was made of."""
    manifest = prepared.manifest
    files = {name: part["shards"] for name, part in manifest["splits"].items()}
    return {
        "sha256": digest([files, manifest["tokenizer"]["sha256"]]),
        "source": manifest["options"]["source"],
        "length": prepared.length,
        "categories": prepared.vocab_size,
    }
