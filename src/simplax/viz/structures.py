"""Strings of molecules as drawings."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable

from simplax.data.molecules.canonical import parse

_SIZE = (260, 200)


def drawings(strings: Iterable[str]) -> list[str | None]:
    """A drawing of each string; None for one that is no molecule, and for all of them without RDKit."""
    known = importlib.util.find_spec("rdkit") is not None
    return [structure(text) if known else None for text in strings]


def structure(text: str) -> str | None:
    """The drawing of a SMILES string as SVG; None for one that RDKit cannot read."""
    molecule = parse(text)
    if molecule is None:
        return None
    from rdkit.Chem.Draw import rdMolDraw2D

    drawer = rdMolDraw2D.MolDraw2DSVG(*_SIZE)
    rdMolDraw2D.PrepareAndDrawMolecule(drawer, molecule)
    drawer.FinishDrawing()
    picture: str = drawer.GetDrawingText()
    return picture
