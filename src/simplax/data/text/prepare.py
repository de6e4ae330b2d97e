"""Preparing data: documents to tokens to rows in shards, in bounded memory, to be continued after any interruption."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from simplax.data.text.documents import START, Content, Documents, Piece
from simplax.data.text.options import Options, parse_split
from simplax.data.text.packing import Layout
from simplax.data.text.prepared import FORMAT, MANIFEST, Prepared
from simplax.data.text.shards import SHARD_BYTES, ShardWriter, describe, id_type
from simplax.data.text.state import STATE, State, locked, resume
from simplax.data.text.subwords import load_subwords, train_bpe
from simplax.data.text.tokenizers import FILE, Characters, Integers, Tokenizer, Values, load_tokenizer
from simplax.errors import UserError
from simplax.io.files import sha256, write_json
from simplax.io.progress import progress as bar

_SECONDS = 5.0  # between two states on disk: what a crash costs, never what it changes
_BATCH = 1 << 20
_PIECES = 2048
_COLLECTED: dict[str, Any] = {"characters": Characters, "values": Values, "integers": Integers}
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Job:
    """`documents` of a source to be written as one split, from where the last job stopped unless `fresh`."""

    split: str
    source: Documents
    documents: int
    fresh: bool


def prepare(
    options: Options, directory: str | Path, show: bool | None = False, shard_bytes: int = SHARD_BYTES
) -> Prepared:
    """The data that `options` describe, in `directory`: made now, completed if it was begun, or found there.

    `show` draws a bar of documents, `None` only on a terminal.
    """
    directory, options = Path(directory), options.resolved()
    directory.mkdir(parents=True, exist_ok=True)
    with locked(directory):
        if (directory / MANIFEST).exists():
            found = Prepared.open(directory)
            if found.manifest["options"] != options.to_json():
                raise UserError(
                    f"{directory} holds data prepared with other options: choose another directory."
                )
            return found
        jobs = _jobs(options)
        state = resume(directory, _beginning(options, jobs))
        tokenizer = _tokenizer(directory, options, jobs)
        layout, dtype = options.rows(tokenizer), id_type(tokenizer.vocab_size)
        per_shard = max(1, shard_bytes // (layout.length * dtype.itemsize))
        with bar("documents", sum(job.documents for job in jobs), show) as progress:
            for number in range(state.job, len(jobs)):
                _write(directory, jobs, number, state, tokenizer, layout, per_shard, progress)
        _finish(directory, options, jobs, state, tokenizer, per_shard)
        return Prepared.open(directory)


def _jobs(options: Options) -> list[Job]:
    source = options.open(options.source)
    total = source.count()
    if not total:
        raise UserError(f"{options.source} holds no documents: name another source or another --separator.")
    if options.validation is not None:
        other = options.open(options.validation)
        return [Job("train", source, total, True), Job("validation", other, other.count(), True)]
    held = parse_split(options.split or "", total)[0]
    if not held or total == 1:
        return [Job("train", source, total, True)]
    return [Job("train", source, total - held, True), Job("validation", source, held, False)]


def _beginning(options: Options, jobs: list[Job]) -> State:
    return State(options.to_json(), [job.source.sizes() for job in jobs if job.fresh])


def _tokenizer(directory: Path, options: Options, jobs: list[Job]) -> Tokenizer:
    """The one stored by an earlier attempt, or built now and stored before the first row."""
    if (directory / FILE).exists():
        return load_tokenizer(directory)
    name = options.tokenizer or ""
    if name == "bpe":
        assert options.vocab_size is not None
        texts = _contents(jobs[0].source, jobs[0].documents)  # never learned from held-out documents
        tokenizer: Tokenizer = train_bpe(texts, options.vocab_size)
    elif name == "integers" and options.vocab_size is not None:
        tokenizer = Integers(options.vocab_size, bool(options.eos))
    elif name in _COLLECTED:
        sources = [job.source for job in jobs if job.fresh]
        everything = chain.from_iterable(_contents(source) for source in sources)
        tokenizer = _COLLECTED[name].of(everything, bool(options.eos))
    else:
        tokenizer = load_subwords(name)
    tokenizer.save(directory)
    return tokenizer


def _contents(source: Documents, documents: int | None = None) -> Iterator[Content]:
    done = 0
    for piece in source.read():
        if done == documents:
            return
        yield piece.content
        done += piece.last


def _write(
    directory: Path,
    jobs: list[Job],
    number: int,
    state: State,
    tokenizer: Tokenizer,
    layout: Layout,
    per_shard: int,
    progress: Progress,
) -> None:
    job = jobs[number]
    counts = state.of(job.split)
    writer = ShardWriter(directory, job.split, layout.length, tokenizer.vocab_size, per_shard, counts["rows"])
    rest, saved = np.array(state.rest, dtype=np.uint32), time.monotonic()
    for batch in _batches(job, state):
        ids = tokenizer.encode_batch([piece.content for piece in batch])
        made = layout.rows(rest, ids, [piece.last for piece in batch])
        writer.write(made.tokens, made.lengths)
        rest, ended = made.rest, sum(piece.last for piece in batch)
        counts["tokens"] += sum(map(len, ids)) + ended * (layout.eos is not None)
        counts["cut"] += made.cut
        counts["documents"] += ended
        counts["rows"] = writer.rows
        state.documents, state.cursor, state.rest = (
            state.documents + ended,
            list(batch[-1].after),
            rest.tolist(),
        )
        progress(sum(each["documents"] for each in state.splits.values()))
        if time.monotonic() - saved > _SECONDS:
            writer.sync()
            state.save(directory)
            saved = time.monotonic()
    writer.close()
    counts["dropped"] = layout.end(rest)
    state.job, state.documents, state.rest = number + 1, 0, []
    if number + 1 < len(jobs) and jobs[number + 1].fresh:
        state.cursor = list(START)
    state.save(directory)


def _batches(job: Job, state: State) -> Iterator[list[Piece]]:
    """Pieces of the documents that the job still has to write, a few at a time."""
    cursor = tuple(state.cursor)
    pieces = _until(job.source.read(cursor), job.documents - state.documents)  # type: ignore[arg-type]
    for first in pieces:
        batch, size = [first], len(first.content)
        while size < _BATCH and len(batch) < _PIECES and (more := list(islice(pieces, 1))):
            batch += more
            size += len(more[0].content)
        yield batch


def _until(pieces: Iterator[Piece], documents: int) -> Iterator[Piece]:
    while documents and (piece := next(pieces, None)) is not None:
        documents -= piece.last
        yield piece


def _finish(
    directory: Path, options: Options, jobs: list[Job], state: State, tokenizer: Tokenizer, per_shard: int
) -> None:
    from simplax.io.manifest import environment

    splits: dict[str, Any] = {
        job.split: {
            **state.of(job.split),
            "name": job.split,
            "first": 0,
            "shards": describe(directory, job.split),
        }
        for job in jobs
    }
    if len(jobs) == 1:
        splits["validation"] = _held_out_rows(options, splits["train"])
    if not splits["train"]["rows"]:
        raise UserError(
            f"{options.source} has {splits['train']['tokens']} tokens to train on, too few for one sequence of "
            f"{options.length}: give a smaller --length."
        )
    manifest = {
        "format": FORMAT,
        "length": options.length,
        "layout": options.layout,
        "wrap": options.wrap,
        "vocab_size": tokenizer.vocab_size,
        "dtype": id_type(tokenizer.vocab_size).str,
        "rows_per_shard": per_shard,
        "tokenizer": {
            "file": FILE,
            "eos": tokenizer.eos,
            "bos": tokenizer.bos,
            "sha256": sha256(directory / FILE),
        },
        "splits": splits,
        "options": options.to_json(),
        "sources": [job.source.digests() for job in jobs if job.fresh],
        "made": environment(),
    }
    write_json(directory / MANIFEST, manifest)
    (directory / STATE).unlink(missing_ok=True)


def _held_out_rows(options: Options, train: dict[str, Any]) -> dict[str, Any]:
    """A single document cannot be held out: its last rows are, as many as the share says."""
    share = parse_split(options.split or "", 1 << 30)[1]
    held = min(max(1, round(share * train["rows"])), train["rows"] - 1) if share and train["rows"] > 1 else 0
    train["rows"] -= held
    return {**dict.fromkeys(train, 0), "name": "train", "first": train["rows"], "rows": held, "shards": []}
