"""The manifest of prepared data: written last, so that a directory that has one is whole."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from simplax.data.text.documents import Documents
from simplax.data.text.labels import Label
from simplax.data.text.options import PACKED, Options
from simplax.data.text.packing import Layout
from simplax.data.text.prepared import FORMAT, MANIFEST, described
from simplax.data.text.shards import describe, id_type
from simplax.data.text.splits import parse_split
from simplax.data.text.state import CHUNKS, EXPANDED, STATE, State
from simplax.data.text.tokenizers import FILE, Tokenizer
from simplax.errors import UserError
from simplax.io.files import remove_unfinished, sha256, write_json


def finish(
    directory: Path,
    options: Options,
    sources: list[Documents],
    state: State,
    tokenizer: Tokenizer,
    layout: Layout,
    labels: tuple[Label, ...],
    per_shard: int,
) -> None:
    """Write the manifest, then remove what only the preparation needed."""
    from simplax.io.manifest import environment

    splits: dict[str, Any] = {}
    for name in ("train", "validation"):
        facts = {key: value for key, value in state.of(name).items() if key != "rest"}
        splits[name] = {**facts, "name": name, "first": 0, "shards": describe(directory, name)}
    if not splits["validation"]["documents"] and options.layout == PACKED and options.validation is None:
        splits["validation"] = _held_out_rows(options, splits["train"])
    if not splits["train"]["rows"]:
        raise UserError(
            f"{options.source} has {splits['train']['tokens']} tokens to train on, too few for one sequence of "
            f"{layout.length}: give a smaller --length."
        )
    manifest = {
        "format": FORMAT,
        "length": layout.length,
        "layout": options.layout,
        "wrap": options.wrap,
        "end": layout.eos,
        "vocab_size": tokenizer.vocab_size,
        "dtype": id_type(tokenizer.vocab_size).str,
        "rows_per_shard": per_shard,
        "tokenizer": {
            "file": FILE,
            "eos": tokenizer.eos,
            "bos": tokenizer.bos,
            "sha256": sha256(directory / FILE),
        },
        "labels": [asdict(label) for label in labels],
        "splits": splits,
        "options": options.to_json(),
        "sources": [source.digests() for source in sources],
        "made": environment(),
    }
    # what describes the data has a digest too: another length or number type would be other data
    write_json(directory / MANIFEST, {**manifest, "digest": described(json.loads(json.dumps(manifest)))})
    (directory / STATE).unlink(missing_ok=True)
    remove_unfinished(directory)
    for name in (CHUNKS, EXPANDED):
        shutil.rmtree(directory / name, ignore_errors=True)


def _held_out_rows(options: Options, train: dict[str, Any]) -> dict[str, Any]:
    """Where no document is small enough to be held out, the last rows of the stream are, as many as the share says."""
    number = parse_split(options.split or "")
    share = number if isinstance(number, float) else 0.0
    held = min(max(1, round(share * train["rows"])), train["rows"] - 1) if share and train["rows"] > 1 else 0
    train["rows"] -= held
    return {
        **dict.fromkeys(train, 0),
        "lengths": [],
        "name": "train",
        "first": train["rows"],
        "rows": held,
        "shards": [],
    }
