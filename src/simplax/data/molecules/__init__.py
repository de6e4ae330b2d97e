"""Molecules as SMILES strings: the data sets QM9 and MOSES, their tokens and their splits."""

from __future__ import annotations

from simplax.data.molecules.prepared import Prepared as Prepared
from simplax.data.molecules.prepared import prepare as prepare
from simplax.data.molecules.source import MoleculeSource as MoleculeSource
from simplax.data.molecules.tokens import DATASETS as DATASETS
from simplax.data.molecules.tokens import PAD as PAD
from simplax.data.molecules.tokens import TOKENS as TOKENS
from simplax.data.molecules.tokens import SmilesTokens as SmilesTokens
from simplax.data.molecules.tokens import smiles_tokens as smiles_tokens
