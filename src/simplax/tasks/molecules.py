"""The molecules task: SMILES strings of QM9 or MOSES, padded with a symbol that is a token like any other, or not."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from simplax.data.molecules.tokens import SmilesTokens, smiles_tokens, training_lengths
from simplax.data.text.labels import Label, standardised
from simplax.data.text.lengths import Lengths, attend_to
from simplax.errors import UserError
from simplax.tasks.base import Task
from simplax.typing import WHERE_SAID, Source

# everyday molecules, spelled with tokens that both data sets have
_EXAMPLES = (
    "C", "CC", "CCO", "CCN", "CCC", "CC=O", "CC#N", "C=CC=O", "CC(=O)O", "CC(N)=O", "CCOCC", "CC(C)O",
    "CC(C)=O", "C1CC1", "C1CCC1", "C1CCCC1", "C1CCCCC1", "C1CO1", "C1CCOC1", "C1CCNC1", "c1ccccc1",
    "Cc1ccccc1", "Oc1ccccc1", "Nc1ccccc1", "c1ccncc1", "c1ccoc1", "c1cncnc1", "N#Cc1ccccc1", "O=C1CCCC1",
    "CN1CCCC1=O", "CC(=O)OCC", "OCC(O)CO",
)  # fmt: skip


@dataclass(frozen=True)
class MoleculesTask(Task):
    """Strings of `dataset` (`qm9` or `moses`) as `atoms` or `characters`.

    Vocabulary and length are facts of the data set, so that a trained model needs none of its files; the data are
    prepared when first used. Training visits them in an order decided by `seed`. `labels` names properties that
    describe a molecule: `qed` is `low` or, from the 90th percentile of the training molecules on, `high`. `examples`
    trains on a few everyday molecules without labels instead, for smoke runs that need no package. With `layout`
    `lengths` padding is no token: attention leaves it out, and lengths are drawn from those of the training molecules.
    """

    dataset: str = "qm9"
    """qm9 or moses"""
    tokens: str = "atoms"
    """atoms or characters"""
    seed: int = 0
    """order in which training visits the molecules"""
    labels: tuple[str, ...] = ()
    """properties that describe a molecule: qed, rings, logp, weight; low or high, or as a number with :number"""
    examples: bool = False
    """train on a few everyday molecules, for smoke runs"""
    layout: str = field(default="learned_end", metadata=WHERE_SAID)
    """learned_end: padding is a token; lengths: it is not, and lengths are drawn from the data"""

    def __post_init__(self) -> None:
        smiles_tokens(self.dataset, self.tokens)  # its checks are ours
        self.described_by()
        if self.layout not in ("learned_end", "lengths"):
            raise UserError(f"the layout of molecules is learned_end or lengths, not {self.layout!r}.")

    @cached_property
    def smiles(self) -> SmilesTokens:
        return smiles_tokens(self.dataset, self.tokens)

    @property
    def length(self) -> int:
        return self.smiles.length

    @property
    def vocab_size(self) -> int:
        return self.smiles.vocab_size

    @property
    def padding(self) -> int | None:
        return None if self.layout == "lengths" else self.smiles.pad

    def known_lengths(self) -> Lengths | None:
        return Lengths(training_lengths(self.dataset, self.tokens)) if self.layout == "lengths" else None

    def cut(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        return torch.where(attend_to(lengths, self.length), tokens, self.smiles.pad)

    def train(self) -> Source:
        return self._source("train", self.seed)

    def validation(self) -> Source:
        return self._source("validation", None)

    def _source(self, split: str, seed: int | None) -> Source:
        from simplax.data.molecules import MoleculeSource, prepare
        from simplax.data.molecules.labels import property_values

        if self.examples:
            return MoleculeSource(self.smiles.encode(_EXAMPLES), self.vocab_size, seed, pad=self._left_out)
        prepared, labels = prepare(self.dataset, self.tokens), self.described_by()
        found = [property_values(prepared, label.name).label(split, label) for label in labels]
        described = standardised(labels, np.stack(found, axis=1)) if labels else None
        return MoleculeSource(prepared.rows(split), self.vocab_size, seed, described, self._left_out)

    @property
    def _left_out(self) -> int | None:
        """The symbol that attention and loss leave out."""
        return self.smiles.pad if self.layout == "lengths" else None

    def described_by(self) -> tuple[Label, ...]:
        from simplax.data.molecules.labels import described

        return described(self.labels)

    def text(self, tokens: Tensor) -> list[str]:
        return self.smiles.decode(tokens.tolist())

    def small(self) -> MoleculesTask:
        return replace(self, examples=True)
