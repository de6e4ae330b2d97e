"""Properties of molecules as labels: computed by RDKit once and kept beside the rows."""

from __future__ import annotations

import hashlib
import importlib
import json
import multiprocessing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from simplax.data.molecules.canonical import parse, rdkit
from simplax.data.molecules.prepared import Prepared
from simplax.data.molecules.tokens import smiles_tokens
from simplax.data.text import labels as names
from simplax.data.text.labels import CLASS, Label
from simplax.errors import UserError, nearest
from simplax.io.files import write_tensors

QUANTILE = 0.9
LOW, HIGH = "low", "high"
SPLITS = ("train", "validation")
_AT_ONCE = 256


@dataclass(frozen=True)
class Property:
    """A number of a molecule; `mean` and `deviation` are rough ones, so that a model needs no data to standardise."""

    module: str
    function: str
    mean: float
    deviation: float

    def __call__(self, mol: Any) -> float:
        return float(getattr(importlib.import_module(f"rdkit.Chem.{self.module}"), self.function)(mol))


PROPERTIES: dict[str, Property] = {
    "qed": Property("QED", "qed", 0.5, 0.1),
    "rings": Property("rdMolDescriptors", "CalcNumRings", 2.0, 1.0),
    "logp": Property("Crippen", "MolLogP", 1.0, 1.0),
    "weight": Property("Descriptors", "MolWt", 200.0, 100.0),
}


def described(texts: Sequence[str]) -> tuple[Label, ...]:
    """Labels as a user names them: `qed` (low or high: from the 90th percentile on) or `qed:number`."""
    made = []
    for label in names.parse(texts):
        if label.name not in PROPERTIES:
            raise UserError(
                f"there is no property {label.name!r} of molecules{nearest(label.name, list(PROPERTIES))}"
            )
        known = PROPERTIES[label.name]
        classes = (LOW, HIGH) if label.kind == CLASS else ()
        made.append(Label(label.name, label.kind, classes, known.mean, known.deviation))
    return tuple(made)


def property_of(text: str, name: str) -> float:
    """The property of a SMILES string that is a molecule."""
    from rdkit import rdBase

    with rdBase.BlockLogs():
        return PROPERTIES[name](parse(text))


@dataclass(frozen=True, eq=False)
class Values:
    """A property of the molecules of each split, and where `high` begins: its 90th percentile in training."""

    by_split: dict[str, np.ndarray]
    threshold: float

    def label(self, split: str, label: Label) -> np.ndarray:
        """As it is stored for `label`: the place of a class, or the number."""
        values = self.by_split[split]
        return (values >= self.threshold).astype(np.float64) if label.size else values


def property_values(
    prepared: Prepared,
    name: str,
    *,
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Values:
    """From the cache, or computed by `workers` processes and kept there; rows that changed are computed again."""
    facts = prepared.facts
    path = prepared.path.with_name(f"{prepared.path.stem}-{name}.safetensors")
    rows = {split: prepared.rows(split) for split in SPLITS}
    digest = hashlib.sha256(b"".join(np.ascontiguousarray(part).data for part in rows.values())).hexdigest()
    if (kept := _read(path, digest)) is not None:
        return kept
    rdkit()  # a missing package is reported before the work
    tokens = smiles_tokens(facts["dataset"], facts["tokens"])
    strings = [text for part in rows.values() for text in tokens.decode(part.tolist())]
    tell = progress or (lambda done, total: None)
    made: list[float] = []
    compute = partial(property_of, name=name)
    if workers > 1:
        with multiprocessing.get_context("spawn").Pool(workers) as pool:
            for value in pool.imap(compute, strings, chunksize=_AT_ONCE):
                made.append(value)
                tell(len(made), len(strings))
    else:
        for text in strings:
            made.append(compute(text))
            tell(len(made), len(strings))
    train, validation = np.split(np.array(made), [len(rows["train"])])
    values = Values(dict(zip(SPLITS, (train, validation))), float(np.quantile(train, QUANTILE)))
    about = json.dumps({"rows": digest, "threshold": values.threshold})
    write_tensors(path, {k: torch.from_numpy(v) for k, v in values.by_split.items()}, {"facts": about})
    return values


def _read(path: Path, digest: str) -> Values | None:
    """What is kept for exactly these rows."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        return None
    try:
        with safe_open(path, framework="np") as file:
            about = json.loads(file.metadata()["facts"])
            if about["rows"] != digest:
                return None
            return Values({split: file.get_tensor(split) for split in SPLITS}, float(about["threshold"]))
    except (SafetensorError, KeyError, ValueError, TypeError):
        return None
