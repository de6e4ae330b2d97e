"""What decides the bytes of prepared data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from simplax.data.text import labels as label_names
from simplax.data.text.documents import Documents
from simplax.data.text.packing import Layout, Packed, Padded
from simplax.data.text.sources import CORPORA, TEXT, Reading, kind_of, open_source
from simplax.data.text.splits import parse_split
from simplax.data.text.survey import COLLECTED
from simplax.data.text.tokenizers import Tokenizer
from simplax.errors import UserError

LONGEST = 1024
_VOCABULARY = 4096
LEARNED_END, LENGTHS, PACKED = "learned_end", "lengths", "packed"
LAYOUTS = (LEARNED_END, LENGTHS, PACKED)
_OF_SEQUENCES = ("smiles", "selfies", "values")


@dataclass(frozen=True)
class Options:
    """Everything but where the data goes. `None` leaves a choice to the kind of source; `resolved` makes them all.

    `tokenizer` is `bpe` (trained on the spot with `vocab_size` ids), `characters`, `values`, `integers`, `smiles`,
    `selfies`, or what `load_subwords` takes. `layout` is `learned_end` (a document per row, its end and padding are
    ordinary tokens), `lengths` (a document per row, padding outside the model) or `packed` (one stream, cut up).
    Without `length` rows hold the longest document, but at most 1,024 tokens. `split` holds out that many of the last
    documents, or a share such as `1%` of all; `validation` names another source to hold out instead. `labels`
    are columns that describe a document, `NAME:class` or `NAME:number`. `alphabet` and `ambiguous` are for
    FASTA and FASTQ.
    """

    source: str
    tokenizer: str | None = None
    vocab_size: int | None = None
    length: int | None = None
    layout: str | None = None
    eos: bool | None = None
    wrap: bool = False
    split: str | None = None
    validation: str | None = None
    columns: tuple[str, ...] = ()
    separator: str | None = None
    errors: str = "strict"
    labels: tuple[str, ...] = ()
    alphabet: str | None = None
    ambiguous: str = "keep"

    def resolved(self, scratch: Path | None = None) -> Options:
        for name in ("length", "vocab_size"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise UserError(f"the {name.replace('_', ' ')} must be at least 1, got {value}.")
        kind, corpus = kind_of(self.source), CORPORA.get(self.source)
        trains = kind.tokenizer == TEXT.tokenizer and (self.vocab_size is not None or corpus is not None)
        tokenizer = self.tokenizer or ("bpe" if trains else kind.tokenizer)
        width = self.open(self.source, tokenizer, scratch).width
        each = tokenizer in _OF_SEQUENCES or (kind.each and tokenizer in COLLECTED)
        if tokenizer == "integers" and width is None:  # a vector is one long document
            each = False
        layout = self.layout or (LEARNED_END if each else PACKED)
        length = self.length or width
        if length is None and layout == PACKED:
            length = 128 if corpus is not None else LONGEST
        full = width is not None and (self.length is None or self.length <= width)
        eos = {LEARNED_END: not full, LENGTHS: False}.get(layout, width is None)
        settled = replace(
            self,
            tokenizer=tokenizer,
            vocab_size=self.vocab_size or (_VOCABULARY if tokenizer == "bpe" else None),
            length=length,
            layout=layout,
            eos=eos if self.eos is None else self.eos,
            split=self.split or ("1%" if corpus is None else str(corpus.validation)),
        )
        settled._check()
        return settled

    def _check(self) -> None:
        if self.layout not in LAYOUTS:
            raise UserError(f"a layout is {', '.join(LAYOUTS[:-1])} or {LAYOUTS[-1]}, not {self.layout!r}.")
        if self.wrap and self.layout != PACKED:
            raise UserError("only packed sequences are wrapped: leave out --wrap or say --layout packed.")
        if self.wrap and not self.eos:
            raise UserError(
                "wrapped sequences begin and end with the end symbol: leave out --no-eos or --wrap."
            )
        if self.errors not in ("strict", "replace"):
            raise UserError(f"errors are strict or replace, not {self.errors!r}.")
        if self.labels and self.layout == PACKED:
            raise UserError(
                "labels describe one sequence each, and packed rows hold parts of several: say --layout learned_end."
            )
        label_names.parse(self.labels)
        if self.validation is None:
            parse_split(self.split or "")

    def open(self, source: str, tokenizer: str | None = None, scratch: Path | None = None) -> Documents:
        return open_source(
            source,
            Reading(
                self.columns,
                self.separator,
                self.errors,
                (tokenizer or self.tokenizer) == "values",
                tuple(label.name for label in label_names.parse(self.labels)),
                self.alphabet,
                self.ambiguous,
                scratch,
            ),
        )

    def rows(self, tokenizer: Tokenizer, length: int) -> Layout:
        """The layout of resolved options."""
        eos = tokenizer.eos if self.eos else None
        if self.layout != PACKED:
            return Padded(length, eos, self.layout == LEARNED_END)
        wrap = None
        if self.wrap:
            assert tokenizer.bos is not None and tokenizer.eos is not None
            wrap = (tokenizer.bos, tokenizer.eos)
        return Packed(length, eos, wrap)

    def to_json(self) -> dict[str, Any]:
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()
        }


def same_options(stored: Mapping[str, Any], mine: Mapping[str, Any]) -> bool:
    """Whether two stored forms mean the same: options that one of them does not know have their defaults."""
    defaults: dict[str, Any] = {f.name: [] if f.default == () else f.default for f in fields(Options)}
    return {**defaults, **stored} == {**defaults, **mine}
