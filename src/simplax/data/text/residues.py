"""Biological sequences: FASTA and FASTQ records, by byte position so that reading can go on from any of them."""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from simplax.data.text.files import ByteDocuments, Span, Spans, after_mark
from simplax.errors import UserError

ALPHABETS = {"dna": "ACGT", "rna": "ACGU", "protein": "ACDEFGHIKLMNPQRSTVWY"}
POLICIES = ("keep", "skip", "refuse")
_NO_LETTER = re.compile(rb"[^A-Za-z*.\-\s]")


def fasta_records(data: mmap.mmap, start: int, path: Path) -> Iterator[Span]:
    """Sequences behind their `>` lines; blank lines mean nothing."""
    while (begin := _skip_blank(data, start or after_mark(data))) < len(data):
        if data[begin] != ord(">"):
            raise UserError(f"{path} is not FASTA: byte {begin} should begin a record with '>'.")
        heading = data.find(b"\n", begin)
        letters = len(data) if heading < 0 else heading + 1
        found = data.find(b"\n>", max(letters - 1, begin))
        end = len(data) if found < 0 else found + 1
        yield Span(start, min(letters, end), end, end)
        start = end


def fastq_records(data: mmap.mmap, start: int, path: Path) -> Iterator[Span]:
    """Sequences of four-line records: `@` name, letters, `+`, as many qualities as letters."""
    while (begin := _skip_blank(data, start or after_mark(data))) < len(data):
        if data[begin] != ord("@"):
            raise UserError(f"{path} is not FASTQ: byte {begin} should begin a record with '@'.")
        breaks = [begin - 1]
        for _ in range(4):
            found = data.find(b"\n", breaks[-1] + 1) if breaks[-1] < len(data) else -1
            breaks.append(len(data) if found < 0 else found)
        letters, plus, qualities = (data[breaks[i] + 1 : breaks[i + 1]].rstrip() for i in (1, 2, 3))
        if not plus.startswith(b"+") or len(letters) != len(qualities):
            raise UserError(
                f"{path} is not FASTQ of four lines per record: the record at byte {begin} has no '+' line, or not as "
                "many qualities as letters."
            )
        yield Span(start, breaks[1] + 1, breaks[1] + 1 + len(letters), min(breaks[4] + 1, len(data)))
        start = min(breaks[4] + 1, len(data))


def _skip_blank(data: mmap.mmap, at: int) -> int:
    while at < len(data) and data[at] in b" \t\r\n":
        at += 1
    return at


@dataclass(frozen=True)
class Residues(ByteDocuments):
    """Letters of sequences: white space means nothing, nor does case.

    `ambiguous` says what happens to a sequence with letters outside `alphabet`, such as N for any base: `keep` makes
    them tokens of their own, `skip` leaves the sequence out, `refuse` is an error. Gaps and stops count as such.
    """

    alphabet: str | None = None
    ambiguous: str = "keep"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ambiguous not in POLICIES:
            raise UserError(
                f"ambiguous letters are kept, skipped or refused: keep, skip or refuse, not {self.ambiguous!r}."
            )
        if self.alphabet is not None and self.alphabet not in ALPHABETS:
            raise UserError(f"an alphabet is {', '.join(ALPHABETS)}, not {self.alphabet!r}.")
        if self.ambiguous != "keep" and self.alphabet is None:
            raise UserError("say with --alphabet dna, rna or protein which letters are not ambiguous.")
        object.__setattr__(self, "spans", _checked(self.spans, self.alphabet, self.ambiguous))

    def text(self, raw: bytes, path: Path, at: int) -> str:
        return b"".join(raw.split()).upper().decode("ascii")


def _checked(inner: Spans, alphabet: str | None, ambiguous: str) -> Spans:
    """The same spans, every letter looked at first."""
    letters = ALPHABETS[alphabet or "dna"]
    outside = re.compile(rf"[^{letters}{letters.lower()}\s]".encode())

    def spans(data: mmap.mmap, start: int, path: Path) -> Iterator[Span]:
        for span in inner(data, start, path):
            if wrong := _NO_LETTER.search(data, span.begin, span.end):
                what = wrong.group().decode("latin-1")
                raise UserError(
                    f"{path} has {what!r} at byte {wrong.start()}, which is no letter of a sequence."
                )
            found = outside.search(data, span.begin, span.end) if ambiguous != "keep" else None
            if found is None:
                yield span
            elif ambiguous == "refuse":
                raise UserError(
                    f"{path} has {found.group().decode()!r} at byte {found.start()}, which is not {alphabet}: say "
                    "--ambiguous keep or skip."
                )

    return spans
