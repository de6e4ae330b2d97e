"""What decides the bytes of prepared data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from simplax.data.text.documents import Documents
from simplax.data.text.packing import Layout, Packed, Padded
from simplax.data.text.sources import CORPORA, TEXT, Reading, kind_of, open_source
from simplax.data.text.tokenizers import Tokenizer
from simplax.errors import UserError

_LENGTH, _VOCABULARY = 1024, 4096
LAYOUTS = ("packed", "padded")


@dataclass(frozen=True)
class Options:
    """Everything but where the data goes. `None` leaves a choice to the kind of source; `resolved` makes them all.

    `tokenizer` is `bpe` (trained on the spot with `vocab_size` ids), `characters`, `values`, `integers`, or what
    `load_subwords` takes. `split` holds out that many of the last documents, a whole number or a share such as `1%`;
    `validation` names another source to hold out instead.
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

    def resolved(self) -> Options:
        for name in ("length", "vocab_size"):
            if (value := getattr(self, name)) is not None and value < 1:
                raise UserError(f"the {name.replace('_', ' ')} must be at least 1, got {value}.")
        corpus, natural = CORPORA.get(self.source), kind_of(self.source).tokenizer
        trains = natural == TEXT.tokenizer and (self.vocab_size is not None or corpus is not None)
        tokenizer = self.tokenizer or ("bpe" if trains else natural)
        width = self.open(self.source, tokenizer).width
        settled = Options(
            source=self.source,
            tokenizer=tokenizer,
            vocab_size=self.vocab_size or (_VOCABULARY if tokenizer == "bpe" else None),
            length=self.length or width or (128 if corpus is not None else _LENGTH),
            layout=self.layout or ("packed" if width is None else "padded"),
            eos=self.eos if self.eos is not None else width is None,
            wrap=self.wrap,
            split=self.split or ("1%" if corpus is None else str(corpus.validation)),
            validation=self.validation,
            columns=self.columns,
            separator=self.separator,
            errors=self.errors,
        )
        settled._check()
        return settled

    def _check(self) -> None:
        if self.layout not in LAYOUTS:
            raise UserError(f"a layout is packed or padded, not {self.layout!r}.")
        if self.wrap and self.layout == "padded":
            raise UserError("only packed sequences are wrapped: leave out --wrap or say --layout packed.")
        if self.wrap and not self.eos:
            raise UserError(
                "wrapped sequences begin and end with the end symbol: leave out --no-eos or --wrap."
            )
        if self.errors not in ("strict", "replace"):
            raise UserError(f"errors are strict or replace, not {self.errors!r}.")
        if self.validation is None:
            parse_split(self.split or "", 1000)

    def open(self, source: str, tokenizer: str | None = None) -> Documents:
        cells = (tokenizer or self.tokenizer) == "values"
        return open_source(source, Reading(self.columns, self.separator, self.errors, cells))

    def rows(self, tokenizer: Tokenizer) -> Layout:
        """The layout of resolved options."""
        assert self.length is not None
        eos = tokenizer.eos if self.eos else None
        if self.layout == "padded":
            return Padded(self.length, eos)
        wrap = None
        if self.wrap:
            assert tokenizer.bos is not None and tokenizer.eos is not None
            wrap = (tokenizer.bos, tokenizer.eos)
        return Packed(self.length, eos, wrap)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "columns": list(self.columns)}


def parse_split(text: str, documents: int) -> tuple[int, float]:
    """How many of the last documents are held out, and the share that was asked for (0 if a number was)."""
    try:
        if text.endswith("%"):
            share = float(text[:-1]) / 100
            if not 0 <= share < 1:
                raise ValueError
            return (max(1, round(share * documents)) if share else 0), share
        number = int(text)
        if number < 0:
            raise ValueError
    except ValueError:
        raise UserError(f"a split is a number of documents or a share such as 1%, not {text!r}.") from None
    if number >= documents:
        raise UserError(f"there are {documents} documents: hold out fewer than that, not {number}.")
    return number, 0.0
