"""RDKit, where it is needed: which strings are molecules, and the one spelling of each."""

from __future__ import annotations

from typing import Any

from simplax.errors import UserError


def rdkit() -> Any:
    """`rdkit.Chem`."""
    try:
        from rdkit import Chem
    except ImportError as error:
        raise UserError('molecules need RDKit: run `pip install "simplax[molecules]"`.') from error
    return Chem


def parse(text: str) -> Any | None:
    """The molecule of a string, or None: nothing is none, and what is parsed must be sanitised a second time.

    Older RDKits let some aromatic strings through the first.
    """
    if not text:
        return None
    chem = rdkit()
    from rdkit import rdBase

    with rdBase.BlockLogs():
        try:
            mol = chem.MolFromSmiles(text)
            if mol is None or mol.GetNumAtoms() == 0:  # a lone space reads as nothing with a name
                return None
            chem.SanitizeMol(mol)
        except (ValueError, RuntimeError):
            return None
    return mol


def canonical(text: str) -> str | None:
    """RDKit's canonical SMILES of a string, stereo marks kept; None for what is no molecule."""
    mol = parse(text)
    return None if mol is None else str(rdkit().MolToSmiles(mol))
