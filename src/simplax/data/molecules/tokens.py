"""SMILES strings as tokens: atoms or characters, padded with one more symbol that is a token like any other."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files

import numpy as np

from simplax.errors import UserError

TOKENS = ("atoms", "characters")
# No SMILES contains it, so a string with padding inside stays one that nobody can read as a molecule. A space would not
# do: readers take what follows a space for the molecule's name.
PAD = "_"

_ATOMS = re.compile(
    r"\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\(|\)|\.|=|#|-|\+|\\|\/|:|~|@|\?|>|\*|\$|\%[0-9]{2}|[0-9]"
)


def split_atoms(text: str) -> list[str]:
    """Atom-wise tokens, which join back to the string; one that cannot be cut so is refused."""
    pieces = _ATOMS.findall(text)
    if "".join(pieces) != text:
        raise UserError(f"{text!r} is not a SMILES string: it holds symbols that no SMILES has.")
    return pieces


_SPLIT: dict[str, Callable[[str], list[str]]] = {"atoms": split_atoms, "characters": list}


@dataclass(frozen=True)
class SmilesTokens:
    """A vocabulary of tokens (`atoms` or `characters`) and the number of positions every string is padded to.

    The padding symbol comes last in the vocabulary.
    """

    kind: str
    vocabulary: tuple[str, ...]
    length: int

    @property
    def pad(self) -> int:
        return len(self.vocabulary)

    @property
    def vocab_size(self) -> int:
        return len(self.vocabulary) + 1

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {token: number for number, token in enumerate(self.vocabulary)}

    def encode(self, strings: Sequence[str]) -> np.ndarray:
        """(number, length) ids, padded on the right."""
        rows = np.full((len(strings), self.length), self.pad, dtype=np.uint8)
        for row, text in zip(rows, strings):
            pieces = _SPLIT[self.kind](text)
            if len(pieces) > self.length:
                raise UserError(
                    f"{text!r} has {len(pieces)} tokens and this data at most {self.length}: leave it out."
                )
            try:
                row[: len(pieces)] = [self._ids[piece] for piece in pieces]
            except KeyError as error:
                raise UserError(
                    f"the token {error.args[0]!r} of {text!r} is not in this vocabulary: leave the string out."
                ) from None
        return rows

    def decode(self, rows: Iterable[Sequence[int]]) -> list[str]:
        """Strings without the padding at their end; padding inside a string stays, as `PAD`."""
        symbols = (*self.vocabulary, PAD)
        return ["".join(symbols[i] for i in row).rstrip(PAD) for row in rows]


# Facts of the data sets, written down so that a trained model needs none of their files. Most frequent first.
_MOSES_SHARED = tuple("cC()1O2Nn=3F-Sso")
_QM9_CHARGED = ("[NH+]", "[NH3+]", "[n-]", "[C-]", "[c-]", "[nH+]", "[cH-]", "[CH-]", "[N-]")
_QM9_ATOMS = (*"C1O2()N=c#3no", "[nH]", *"4F", "[O-]", "[NH2+]", "5", "[N+]", "-", *_QM9_CHARGED)
_VOCABULARIES: dict[tuple[str, str], tuple[tuple[str, ...], int]] = {
    ("qm9", "atoms"): (_QM9_ATOMS, 22),
    ("qm9", "characters"): (tuple("C1O2()N=cn#3[]oH4F-+5"), 34),
    ("moses", "atoms"): ((*_MOSES_SHARED, "Cl", "[nH]", "#", "4", "Br", "5", "[H]", "6"), 54),
    ("moses", "characters"): ((*_MOSES_SHARED, *"l[H]#4Br56"), 57),
}
DATASETS = ("qm9", "moses")


def smiles_tokens(dataset: str, kind: str = "atoms") -> SmilesTokens:
    """The vocabulary and length of a data set, known without reading it."""
    if dataset not in DATASETS:
        raise UserError(f"the data set must be {' or '.join(DATASETS)}, not {dataset!r}.")
    if kind not in TOKENS:
        raise UserError(f"tokens must be {' or '.join(TOKENS)}, not {kind!r}.")
    vocabulary, length = _VOCABULARIES[dataset, kind]
    return SmilesTokens(kind, vocabulary, length)


@cache
def training_lengths(dataset: str, kind: str) -> tuple[int, ...]:
    """How many training molecules have 0, 1, 2, ... tokens: a fact of the data set, known without reading it."""
    facts = json.loads((files("simplax.data.molecules") / "lengths.json").read_text(encoding="utf-8"))
    return tuple(facts[f"{dataset}-{kind}"])
