"""Strings of molecules as drawings."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from functools import cache

from simplax.data.molecules.canonical import parse
from simplax.errors import UserError

logger = logging.getLogger(__name__)
_SIZE = (260, 200)


@cache
def can_draw() -> bool:
    """Whether RDKit is here and draws; some systems have it without the libraries that it draws with."""
    try:
        return structure("C") is not None
    except (ImportError, UserError) as error:
        logger.warning("molecules are not drawn: %s", error)
        return False


def drawings(strings: Iterable[str]) -> list[str | None]:
    """A drawing of each string; None for one that is no molecule, and for all of them where nothing can be drawn."""
    known = can_draw()
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
