"""What the metrics need of a reference set, computed once and kept as safetensors; published ones are converted."""

from __future__ import annotations

import collections
import io
import json
import pickle
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from simplax.data.molecules.canonical import canonical
from simplax.data.molecules.packages import moses_file
from simplax.errors import UserError
from simplax.evaluate.molecules.chemistry import PROPERTIES, Molecule, describe_all
from simplax.evaluate.molecules.chemnet import Gaussian, activations
from simplax.io.files import write_tensors


@dataclass(frozen=True, eq=False)
class Counts:
    """How often each piece occurs; `cosine` compares two such vectors."""

    counts: dict[str, int]

    @cached_property
    def norm(self) -> float:
        return float(np.linalg.norm(np.fromiter(self.counts.values(), dtype=np.float64)))

    def cosine(self, other: Counts) -> float | None:
        """None if either is empty."""
        if not self.counts or not other.counts:
            return None
        shared = sum(float(number) * self.counts.get(name, 0) for name, number in other.counts.items())
        return shared / (self.norm * other.norm)


@dataclass(frozen=True, eq=False)
class Statistics:
    """A reference set: features as a Gaussian, packed fingerprints, pieces, and the sorted values of properties."""

    number: int
    gaussian: Gaussian
    fingerprints: np.ndarray
    fragments: Counts
    scaffolds: Counts
    values: dict[str, np.ndarray]

    @staticmethod
    def of(
        strings: Sequence[str], *, workers: int = 1, progress: Callable[[str, int, int], None] | None = None
    ) -> Statistics:
        """Of strings that are all molecules."""
        forms = [canonical(text) for text in strings]
        wrong = next((text for text, form in zip(strings, forms) if form is None), None)
        if wrong is not None:
            raise UserError(f"{wrong!r} is not a molecule: a reference must hold molecules only.")
        spelled = [form for form in forms if form is not None]
        tell = progress or (lambda stage, done, total: None)
        molecules = describe_all(
            spelled, workers=workers, progress=lambda done: tell("properties", done, len(spelled))
        )
        features = activations(spelled, progress=lambda done: tell("ChemNet", done, len(spelled)))
        values = np.array([molecule.values for molecule in molecules])
        return Statistics(
            len(molecules),
            Gaussian.of(features),
            packed(molecules),
            fragment_counts(molecules),
            scaffold_counts(molecules),
            {name: np.sort(values[:, place]) for place, name in enumerate(PROPERTIES)},
        )

    def save(self, path: Path) -> None:
        """Store it so that a reader sees all of it or none."""
        path.parent.mkdir(parents=True, exist_ok=True)
        arrays = {
            "mu": self.gaussian.mu,
            "sigma": self.gaussian.sigma,
            "fingerprints": self.fingerprints,
            **self.values,
        }
        counts = {"fragments": self.fragments.counts, "scaffolds": self.scaffolds.counts}
        write_tensors(
            path,
            {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()},
            {name: json.dumps(value) for name, value in counts.items()},
        )

    @staticmethod
    def load(path: Path) -> Statistics:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, framework="np") as file:
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                counts = {name: json.loads(text) for name, text in file.metadata().items()}
            return Statistics(
                len(arrays["fingerprints"]),
                Gaussian(arrays["mu"], arrays["sigma"]),
                arrays["fingerprints"],
                Counts(counts["fragments"]),
                Counts(counts["scaffolds"]),
                {name: arrays[name] for name in PROPERTIES},
            )
        except (SafetensorError, KeyError, ValueError, AttributeError):
            raise UserError(f"{path} is damaged: remove it, and it is made again.") from None


def packed(molecules: Sequence[Molecule]) -> np.ndarray:
    """(number, bytes) fingerprints."""
    return np.frombuffer(b"".join(m.bits for m in molecules), dtype=np.uint8).reshape(len(molecules), -1)


def fragment_counts(molecules: Iterable[Molecule]) -> Counts:
    return Counts(Counter(piece for molecule in molecules for piece in molecule.fragments))


def scaffold_counts(molecules: Iterable[Molecule]) -> Counts:
    return Counts(Counter(m.scaffold for m in molecules if m.scaffold is not None))


def published(split: str) -> Statistics:
    """The statistics that MOSES ships for `test` and `test_scaffolds`, which published numbers refer to.

    They are stored as a pickle. Only arrays and counters are let out of it, and only out of the published file.
    """
    with zipfile.ZipFile(moses_file(f"dataset/data/{split}_stats.npz")) as archive:
        content = io.BytesIO(archive.read("stats.npy"))
    np.lib.format.read_magic(content)
    np.lib.format.read_array_header_1_0(content)
    stored = _ArraysOnly(content, encoding="latin1").load().item()
    return Statistics(
        len(stored["SNN"]["fps"]),
        Gaussian(np.asarray(stored["FCD"]["mu"]), np.asarray(stored["FCD"]["sigma"])),
        np.packbits(stored["SNN"]["fps"], axis=1),
        Counts({str(name): int(number) for name, number in stored["Frag"]["frag"].items()}),
        Counts({str(name): int(number) for name, number in stored["Scaf"]["scaf"].items()}),
        {name: np.sort(np.asarray(stored[name]["values"], dtype=np.float64)) for name in PROPERTIES},
    )


class _ArraysOnly(pickle.Unpickler):
    """Builds arrays and counters; any other name in the stream is refused before it is looked up."""

    def find_class(self, module: str, name: str) -> Any:
        allowed: dict[tuple[str, str], Any] = {
            ("numpy.core.multiarray", "_reconstruct"): np._core.multiarray._reconstruct,  # type: ignore[attr-defined]
            ("numpy", "ndarray"): np.ndarray,
            ("numpy", "dtype"): np.dtype,
            ("_codecs", "encode"): _latin1,
            ("collections", "Counter"): collections.Counter,
        }
        if (module, name) not in allowed:
            raise UserError(f"a statistics file refers to {module}.{name}: it is not the published one.")
        return allowed[module, name]


def _latin1(text: str, encoding: str) -> bytes:
    return text.encode("latin1")
