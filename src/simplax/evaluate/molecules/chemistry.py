"""What is measured of one molecule: its spelling, pieces, fingerprint, properties and filters; or why it is none."""

from __future__ import annotations

import csv
import importlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from simplax.data.molecules.canonical import parse, rdkit
from simplax.data.molecules.packages import moses_file
from simplax.data.molecules.tokens import PAD

BITS = 1024
PROPERTIES = ("logP", "SA", "QED", "weight")
_RADIUS = 2
_LARGEST_RING = 7
_ELEMENTS = frozenset({"C", "N", "S", "O", "F", "Cl", "Br", "H"})


@dataclass(frozen=True)
class Molecule:
    """All that the metrics need of one canonical string.

    `bits` is the packed Morgan fingerprint (radius 2, 1,024 bits); `fragments` are BRICS pieces, every occurrence;
    `scaffold` is the Murcko scaffold if it has at least two rings; `values` are the four `PROPERTIES`.
    """

    canonical: str
    bits: bytes
    fragments: tuple[str, ...]
    scaffold: str | None
    values: tuple[float, float, float, float]
    rings: int
    passes_filters: bool


def describe(canonical: str) -> Molecule:
    """The description of a canonical string."""
    mol = parse(canonical)
    if mol is None:
        raise ValueError(f"{canonical!r} is not a molecule")
    from rdkit import rdBase

    with rdBase.BlockLogs():
        return _described(canonical, mol)


def _described(canonical: str, mol: Any) -> Molecule:
    chem = rdkit()
    all_chem, crippen = _module("AllChem"), _module("Crippen")
    return Molecule(
        canonical,
        np.packbits(_morgan().GetFingerprintAsNumPy(mol)).tobytes(),
        tuple(chem.MolToSmiles(all_chem.FragmentOnBRICSBonds(mol)).split(".")),
        _scaffold(mol),
        (
            float(crippen.MolLogP(mol)),
            float(_sascorer().calculateScore(mol)),
            float(_module("QED").qed(mol)),
            float(_module("Descriptors").MolWt(mol)),
        ),
        int(mol.GetRingInfo().NumRings()),
        _passes_filters(mol),
    )


def describe_all(
    strings: Sequence[str], *, workers: int = 1, progress: Callable[[int], None] | None = None
) -> list[Molecule]:
    """Descriptions of canonical strings, each distinct one made once, by several processes if `workers` says so."""
    distinct = list(dict.fromkeys(strings))
    tell = progress or (lambda done: None)
    made: dict[str, Molecule] = {}
    if workers > 1 and len(distinct) > 1:
        import multiprocessing

        with multiprocessing.get_context("spawn").Pool(workers) as pool:
            for molecule in pool.imap_unordered(describe, distinct, chunksize=64):
                made[molecule.canonical] = molecule
                tell(len(made))
    else:
        for text in distinct:
            made[text] = describe(text)
            tell(len(made))
    return [made[text] for text in strings]


@cache
def _module(name: str) -> Any:
    return importlib.import_module(f"rdkit.Chem.{name}")


@cache
def _morgan() -> Any:
    from rdkit.Chem import rdFingerprintGenerator

    return rdFingerprintGenerator.GetMorganGenerator(radius=_RADIUS, fpSize=BITS)


@cache
def _sascorer() -> Any:
    """RDKit's own synthetic accessibility score; it lies beside the package, not inside."""
    from rdkit import RDConfig

    path = Path(RDConfig.RDContribDir) / "SA_Score" / "sascorer.py"
    spec = importlib.util.spec_from_file_location("simplax_sascorer", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _scaffold(mol: Any) -> str | None:
    from rdkit.Chem.Scaffolds import MurckoScaffold

    try:
        scaffold = MurckoScaffold.GetScaffoldForMol(mol)
    except (ValueError, RuntimeError):
        return None
    if scaffold.GetRingInfo().NumRings() < 2:
        return None
    return str(rdkit().MolToSmiles(scaffold)) or None


@cache
def _patterns() -> list[Any]:
    """The 22 MCF and 480 PAINS patterns of MOSES; 17 of RDKit's own PAINS differ."""
    chem = rdkit()
    with open(moses_file("metrics/mcf.csv"), newline="", encoding="utf-8") as file:
        smarts = [row["smarts"] for row in csv.DictReader(file)]
    with open(moses_file("metrics/wehi_pains.csv"), newline="", encoding="utf-8") as file:
        smarts += [row[0] for row in csv.reader(file)]
    return [chem.MolFromSmarts(pattern) for pattern in smarts]


def _passes_filters(mol: Any) -> bool:
    if any(len(ring) > _LARGEST_RING for ring in mol.GetRingInfo().AtomRings()):
        return False
    if any(atom.GetFormalCharge() != 0 or atom.GetSymbol() not in _ELEMENTS for atom in mol.GetAtoms()):
        return False
    explicit = rdkit().AddHs(mol)
    return not any(explicit.HasSubstructMatch(pattern) for pattern in _patterns())


ERRORS = ("pads inside", "empty", "parenthesis", "ring", "syntax", "valence", "aromaticity", "other")


def error_kind(text: str) -> str:
    """Why a string is no molecule, one of `ERRORS`; the first reason in that order."""
    if PAD in text:
        return "pads inside"
    if not text.strip():
        return "empty"
    chem = rdkit()
    from rdkit import rdBase

    with rdBase.BlockLogs():
        mol = chem.MolFromSmiles(text, sanitize=False)
        if mol is None:
            if text.count("(") != text.count(")"):
                return "parenthesis"
            return "ring" if _open_rings(text) else "syntax"
        try:
            chem.SanitizeMol(mol)
        except chem.AtomValenceException:
            return "valence"
        except (chem.KekulizeException, chem.AtomKekulizeException):
            return "aromaticity"
        except (ValueError, RuntimeError):
            return "other"
    return "other"


def _open_rings(text: str) -> bool:
    """Whether a ring is opened and not closed: outside brackets each digit must come an even number of times."""
    depth = 0
    seen: set[str] = set()
    for character in text:
        depth += (character == "[") - (character == "]")
        if depth == 0 and character.isdigit():
            seen ^= {character}
    return bool(seen)
