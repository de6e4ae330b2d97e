"""A directory of prepared data: its manifest, its tokenizer, its rows."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from simplax.data.text.form import is_well_formed
from simplax.data.text.labels import CLASS, Label
from simplax.data.text.lengths import Lengths
from simplax.data.text.shards import Shards
from simplax.data.text.tokenizers import FILE, Tokenizer, load_tokenizer
from simplax.errors import UserError
from simplax.io.digest import digest
from simplax.io.files import sha256

MANIFEST = "manifest.json"
FORMAT = "simplax-text-1"


def described(manifest: dict[str, Any]) -> str:
    """The digest of what a manifest says of the data; when and where they were made is no part of it."""
    return digest({name: value for name, value in manifest.items() if name != "made"})


@dataclass(frozen=True, eq=False)
class Prepared:
    """What `prepare` made: it knows its length, vocabulary, tokenizer, layout, lengths and labels.

    Nothing but the manifest is read until it is needed.
    """

    directory: Path
    manifest: dict[str, Any]

    @staticmethod
    def open(directory: str | Path) -> Prepared:
        directory = Path(directory)
        try:
            manifest = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
        except OSError:
            raise UserError(
                f"{directory} is not prepared data: it has no {MANIFEST}; make it with `simplax data text`."
            ) from None
        except (ValueError, RecursionError):
            raise UserError(f"{directory / MANIFEST} is damaged: prepare the data again.") from None
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise UserError(
                f"{directory} is not prepared data of the form {FORMAT}: make it with `simplax data text`."
            )
        said = manifest.pop("digest", None)  # older versions wrote none
        if said not in (None, described(manifest)) or not is_well_formed(manifest):
            raise UserError(f"{directory / MANIFEST} is damaged: prepare the data again.")
        prepared = Prepared(directory, manifest)
        prepared._check_sizes()
        return prepared

    @property
    def length(self) -> int:
        return int(self.manifest["length"])

    @property
    def vocab_size(self) -> int:
        return int(self.manifest["vocab_size"])

    @property
    def layout(self) -> str:
        """`learned_end`, `lengths` or `packed`; `padded` is what `lengths` was called."""
        return str(self.manifest["layout"]).replace("padded", "lengths")

    @property
    def end(self) -> int | None:
        """The id that ends a sequence and pads it; None where sequences have no end symbol."""
        end = self.manifest.get("end", self.manifest["tokenizer"]["eos"])
        return None if end is None else int(end)

    @property
    def labels(self) -> tuple[Label, ...]:
        """What describes every sequence besides its tokens."""
        return tuple(
            Label(**{**label, "classes": tuple(label["classes"])})
            for label in self.manifest.get("labels", ())
        )

    @property
    def lengths(self) -> Lengths | None:
        """How long training sequences are, without padding; None where rows are packed."""
        counts = self.manifest["splits"]["train"].get("lengths")
        return Lengths(tuple(counts)) if counts else None

    def label_values(self, split: str) -> dict[str, np.ndarray]:
        """Of every sequence of a split: places in `Label.classes` as integers, numbers as they are."""
        shards = self.rows(split)
        values = shards.take_labels(np.arange(shards.rows))
        return {
            label.name: values[:, place].astype(np.int64) if label.kind == CLASS else values[:, place]
            for place, label in enumerate(self.labels)
        }

    @cached_property
    def tokenizer(self) -> Tokenizer:
        found = load_tokenizer(self.directory)
        if found.vocab_size < self.vocab_size:
            raise UserError(
                f"{self.directory / FILE} has {found.vocab_size} ids and the data {self.vocab_size}: prepare it again."
            )
        return found

    def rows(self, split: str) -> Shards:
        """The rows of `train` or `validation`."""
        facts = self.manifest["splits"].get(split)
        if facts is None or not facts["rows"]:
            raise UserError(
                f"the data {self.directory} has no {split} rows: prepare it again with a larger --split."
            )
        return Shards(
            self.directory,
            facts["name"],
            self.length,
            self.manifest["dtype"],
            self.manifest["rows_per_shard"],
            facts["first"],
            facts["rows"],
            self.layout == "lengths",
            len(self.labels),
        )

    def verify(self) -> None:
        """Compare every file with its digest."""
        files = {FILE: self.manifest["tokenizer"]["sha256"]}
        files.update({shard["file"]: shard["sha256"] for shard in self._shards()})
        for name, expected in files.items():
            if not (self.directory / name).is_file() or sha256(self.directory / name) != expected:
                raise UserError(f"{self.directory / name} is not what was written: prepare the data again.")

    def _shards(self) -> list[dict[str, Any]]:
        return [shard for facts in self.manifest["splits"].values() for shard in facts["shards"]]

    def _check_sizes(self) -> None:
        for shard in self._shards():
            path = self.directory / shard["file"]
            if not path.is_file() or path.stat().st_size != shard["bytes"]:
                raise UserError(f"{path} is missing or cut short: prepare the data again.")
