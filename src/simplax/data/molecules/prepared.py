"""A data set as rows of tokens, made once and kept in the cache."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from simplax.data.cache import cache_directory
from simplax.data.molecules.splits import SPLITS
from simplax.data.molecules.tokens import smiles_tokens
from simplax.errors import UserError
from simplax.io.files import sha256, write_tensors

FORMAT = "simplax-molecules-1"
_ROWS_AT_ONCE = 20_000


@dataclass(frozen=True, eq=False)
class Prepared:
    """One data set in one kind of tokens. Nothing but the facts is read until rows are requested."""

    path: Path
    facts: dict[str, Any]

    @staticmethod
    def open(path: Path) -> Prepared:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="np") as file:
                facts = json.loads(file.metadata()["facts"])
        except (SafetensorError, KeyError, ValueError, TypeError):
            raise UserError(f"{path} is damaged: remove it, and it is made again.") from None
        if facts.get("format") != FORMAT:
            raise UserError(f"{path} was made by another version: remove it, and it is made again.")
        return Prepared(path, facts)

    @cached_property
    def _arrays(self) -> dict[str, np.ndarray]:
        from safetensors import safe_open

        with safe_open(self.path, framework="np") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118

    def rows(self, split: str) -> np.ndarray:
        """(number, length) ids of `train`, `validation`, `test` or `scaffolds`."""
        return self._arrays[split]


def location(dataset: str, tokens: str) -> Path:
    return cache_directory() / "molecules" / f"{dataset}-{tokens}.safetensors"


def prepare(
    dataset: str,
    tokens: str = "atoms",
    *,
    file: Path | None = None,
    again: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Prepared:
    """The data set as kept in the cache; made from its installed package, or from a CSV `file`, if it is not there."""
    vocabulary = smiles_tokens(dataset, tokens)
    path = location(dataset, tokens)
    if path.is_file() and file is None and not again:
        return Prepared.open(path)
    splits = vars(SPLITS[dataset](file))
    total, done = sum(map(len, splits.values())), 0
    arrays: dict[str, np.ndarray] = {}
    for name, strings in splits.items():
        parts = []
        for start in range(0, len(strings), _ROWS_AT_ONCE):
            parts.append(vocabulary.encode(strings[start : start + _ROWS_AT_ONCE]))
            done += len(parts[-1])
            if progress is not None:
                progress(done, total)
        arrays[name] = np.concatenate([vocabulary.encode([]), *parts])
    if not len(arrays["train"]):
        raise UserError(f"{file or dataset} has no training strings: name another file.")
    facts = {
        "format": FORMAT,
        "dataset": dataset,
        "tokens": tokens,
        "length": vocabulary.length,
        "vocab_size": vocabulary.vocab_size,
        "source": "package" if file is None else file.name,
        "source_sha256": None if file is None else sha256(file),
        "splits": {name: _facts(rows, vocabulary.pad) for name, rows in arrays.items() if len(rows)},
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write_tensors(
            temporary,
            {name: torch.from_numpy(rows) for name, rows in arrays.items()},
            {"facts": json.dumps(facts)},
        )
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return Prepared.open(path)


def _facts(rows: np.ndarray, pad: int) -> dict[str, Any]:
    lengths = (rows != pad).sum(1)
    numbers = np.unique(lengths, return_counts=True)[1]
    share = numbers / numbers.sum()
    return {
        "molecules": len(rows),
        "tokens": int(lengths.sum()),
        "mean_length": float(lengths.mean()),
        "lengths": [int(lengths.min()), int(lengths.max())],
        "length_entropy_nats": float(-(share * np.log(share)).sum()),
        "padding_share": 1 - float(lengths.mean()) / rows.shape[1],
    }
