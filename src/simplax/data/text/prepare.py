"""Preparing data: documents to tokens to rows in shards, in bounded memory, by any number of processes and machines.

The documents are cut into chunks; chunks are encoded by whoever is free and written in their order, so that the result
does not depend on who did what, and an interrupted preparation goes on with the first chunk that is missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from simplax.data.text import labels as label_names
from simplax.data.text.chunks import Chunk, Encoded, Reader, plan
from simplax.data.text.documents import Content, Documents
from simplax.data.text.finish import finish
from simplax.data.text.labels import Label
from simplax.data.text.options import LENGTHS, LONGEST, PACKED, Options, same_options
from simplax.data.text.packing import Layout
from simplax.data.text.prepared import MANIFEST, Prepared
from simplax.data.text.shards import SHARD_BYTES, ShardWriter, id_type
from simplax.data.text.splits import held_out
from simplax.data.text.state import CHUNKS, EXPANDED, State, discard, locked, resume
from simplax.data.text.subwords import load_subwords, train_bpe
from simplax.data.text.survey import COLLECTED, combined
from simplax.data.text.tokenizers import FILE, Integers, Tokenizer, load_tokenizer
from simplax.data.text.workers import WorkerLost, in_order
from simplax.errors import UserError
from simplax.io.progress import progress as bar

_SECONDS = 5.0  # between two states on disk: what a crash costs, never what it changes
SPLITS = ("train", "validation")
Progress = Callable[[int], None]


@dataclass(frozen=True)
class Part:
    """Number `number` of `of` equal shares of the chunks, counted from 1: what one machine of several does."""

    number: int
    of: int

    @staticmethod
    def parse(text: str) -> Part:
        try:
            part = Part(*map(int, text.split("/")))
        except (ValueError, TypeError):
            part = Part(0, 0)
        if not 1 <= part.number <= part.of:
            raise UserError(f"a part is 1/4, 2/4 and so on, not {text!r}.")
        return part

    def share(self, chunks: list[Chunk]) -> list[Chunk]:
        count = len(chunks)
        return chunks[count * (self.number - 1) // self.of : count * self.number // self.of]


@dataclass(frozen=True, eq=False)
class Work:
    """A preparation that has been planned: where its chunks are, which documents are held out."""

    directory: Path
    options: Options
    reader: Reader
    chunks: list[Chunk]
    held: np.ndarray
    workers: int

    @property
    def sources(self) -> list[Documents]:
        return self.reader.sources

    def is_held(self, chunk: Chunk, documents: np.ndarray) -> np.ndarray:
        """Which of a chunk's documents, counted within it, are held out; a document that goes on counts as one."""
        if chunk.source:
            return np.ones(len(documents), dtype=bool)
        held: np.ndarray = self.held[chunk.first + documents]
        return held


def prepare(
    options: Options,
    directory: str | Path,
    show: bool | None = False,
    shard_bytes: int = SHARD_BYTES,
    workers: int = 1,
) -> Prepared:
    """The data that `options` describe, in `directory`: made now, completed if it was begun, or found there.

    `show` draws a bar of documents, `None` only on a terminal. `workers` processes share the work; a script that asks
    for more than one must keep its own work behind `if __name__ == "__main__"`.
    """
    directory = Path(directory)
    with _begun(directory):
        options = options.resolved(directory / EXPANDED)
        with locked(directory):
            if (directory / MANIFEST).exists():
                return _found(directory, options)
            work, state = _planned(directory, options, workers)
            with _discarding(directory):
                work, tokenizer, layout = _surveyed(work, state)
                per_shard = max(1, shard_bytes // (layout.length * id_type(tokenizer.vocab_size).itemsize))
                with bar("documents", sum(chunk.documents for chunk in work.chunks), show) as progress:
                    _write(work, state, tokenizer, layout, per_shard, progress)
                finish(
                    directory, options, work.sources, state, tokenizer, layout, work.reader.labels, per_shard
                )
            return Prepared.open(directory)


def prepare_part(
    options: Options, directory: str | Path, part: Part, show: bool | None = False, workers: int = 1
) -> int:
    """Encode one share of the documents; several machines do one each, with `directory` on a disk they share.

    When all are done, `prepare` with the same options puts them together. Returns how many chunks the part has.
    """
    directory = Path(directory)
    with _begun(directory):
        options = options.resolved(directory / EXPANDED)
        with locked(directory):
            if (directory / MANIFEST).exists():
                _found(directory, options)
                return 0
            work, state = _planned(directory, options, workers)
            with _discarding(directory):
                work, _, _ = _surveyed(work, state)
        (directory / CHUNKS).mkdir(exist_ok=True)
        mine = part.share(work.chunks)
        missing = [chunk for chunk in mine if Encoded.load(_file(directory, chunk)) is None]
        with bar("documents", sum(chunk.documents for chunk in missing), show) as progress:
            done = 0
            for chunk, encoded in zip(missing, in_order(work.reader, "encode", missing, workers)):
                encoded.save(_file(directory, chunk))
                progress(done := done + chunk.documents)
        return len(mine)


def _file(directory: Path, chunk: Chunk) -> Path:
    return directory / CHUNKS / f"{chunk.number:08d}.npz"


def _found(directory: Path, options: Options) -> Prepared:
    found = Prepared.open(directory)
    if not same_options(found.manifest["options"], options.to_json()):
        raise UserError(f"{directory} holds data prepared with other options: choose another directory.")
    return found


@contextmanager
def _begun(directory: Path) -> Iterator[None]:
    """The directory, made if need be, and removed again if nothing came of it."""
    directory.mkdir(parents=True, exist_ok=True)
    try:
        yield
    finally:
        if {path.name for path in directory.iterdir()} <= {".lock", EXPANDED}:
            discard(directory)
            (directory / ".lock").unlink(missing_ok=True)
            directory.rmdir()


@contextmanager
def _discarding(directory: Path) -> Iterator[None]:
    """Input that cannot be used leaves nothing behind that could be taken for data."""
    try:
        yield
    except WorkerLost:
        raise
    except UserError:
        discard(directory)
        raise


def _planned(directory: Path, options: Options, workers: int) -> tuple[Work, State]:
    if workers < 1:
        raise UserError(f"the number of workers must be at least 1, got {workers}.")
    names = (options.source, *([options.validation] if options.validation is not None else []))
    reader = Reader(options, names, directory / EXPANDED, directory / FILE, label_names.parse(options.labels))
    chunks, sizes = plan(reader.sources)
    if not len(sizes[0]):
        raise UserError(f"{options.source} holds no documents: name another source or another --separator.")
    held = np.zeros(len(sizes[0]), dtype=bool)
    if options.validation is None:
        held = held_out(options.split or "", sizes[0], options.layout != PACKED)
    held = np.append(held, False)  # the entry of an unfinished last document
    state = resume(directory, State(options.to_json(), [source.sizes() for source in reader.sources]))
    return Work(directory, options, reader, chunks, held, min(workers, len(chunks))), state


def _surveyed(work: Work, state: State) -> tuple[Work, Tokenizer, Layout]:
    """The tokenizer, the length of rows and the labels: found by a first pass where the options leave them open."""
    options = work.options
    if state.facts is None or not (work.directory / FILE).exists():
        tokenizer, longest, labels = _first_pass(work)
        tokenizer.save(work.directory)
        length = options.length or max(1, min(LONGEST, longest + bool(options.eos)))
        state.facts = {"length": length, "labels": [asdict(label) for label in labels]}
        state.save(work.directory)
    else:
        tokenizer = load_tokenizer(work.directory)
    stored = [{**label, "classes": tuple(label["classes"])} for label in state.facts["labels"]]
    reader = replace(work.reader, labels=tuple(Label(**label) for label in stored))
    return replace(work, reader=reader), tokenizer, options.rows(tokenizer, state.facts["length"])


def _first_pass(work: Work) -> tuple[Tokenizer, int, tuple[Label, ...]]:
    options, name = work.options, work.options.tokenizer or ""
    collected, known = COLLECTED.get(name), options.length is not None
    tokenizer: Tokenizer | None = None
    if name == "bpe":
        assert options.vocab_size is not None
        tokenizer = train_bpe(_training_texts(work), options.vocab_size)
    elif name == "integers" and options.vocab_size is not None:
        tokenizer = Integers(options.vocab_size, bool(options.eos))
    elif collected is None:
        tokenizer = load_subwords(name)
    if tokenizer is not None:
        if known and not work.reader.labels:
            return tokenizer, 0, ()
        tokenizer.save(work.directory)
    surveys = in_order(work.reader, "survey", work.chunks, work.workers)
    symbols, longest, labels = combined(surveys, work.reader.labels)
    if tokenizer is None:
        assert collected is not None
        tokenizer = collected.build(symbols, bool(options.eos))
    return tokenizer, longest, labels


def _training_texts(work: Work) -> Iterator[Content]:
    """Never learned from held-out documents."""
    for chunk in work.chunks:
        document = 0
        for piece in work.reader.pieces(chunk):
            if not work.is_held(chunk, np.array([document]))[0]:
                yield piece.content
            document += piece.last


def _encoded(work: Work, chunks: list[Chunk]) -> Iterator[Encoded]:
    """The ids of the chunks: stored by a part, or encoded now."""
    stored = {chunk.number for chunk in chunks if _file(work.directory, chunk).exists()}
    missing = [chunk for chunk in chunks if chunk.number not in stored]
    made = in_order(work.reader, "encode", missing, min(work.workers, max(1, len(missing))))
    for chunk in chunks:
        if chunk.number in stored:
            yield Encoded.load(_file(work.directory, chunk)) or work.reader.encode(chunk)
        else:
            yield next(made)


def _write(
    work: Work, state: State, tokenizer: Tokenizer, layout: Layout, per_shard: int, progress: Progress
) -> None:
    labels = len(work.reader.labels)
    writers = {
        split: ShardWriter(
            work.directory,
            split,
            layout.length,
            tokenizer.vocab_size,
            per_shard,
            state.of(split)["rows"],
            labels,
        )
        for split in SPLITS
    }
    saved, chunks = time.monotonic(), work.chunks[state.chunk :]
    for chunk, encoded in zip(chunks, _encoded(work, chunks)):
        begins = np.concatenate([[0], np.cumsum(encoded.lasts)[:-1]]).astype(np.int64)
        held = work.is_held(chunk, begins)
        pieces = np.split(encoded.ids, np.cumsum(encoded.sizes)[:-1])
        for split, chosen in zip(SPLITS, (~held, held)):
            if chosen.any():
                few = [pieces[place] for place in np.flatnonzero(chosen).tolist()]
                described = encoded.labels[chosen[encoded.lasts]] if labels else None
                _append(
                    state.of(split),
                    writers[split],
                    layout,
                    few,
                    encoded.lasts[chosen],
                    described,
                    work.options,
                )
        state.chunk = chunk.number + 1
        progress(sum(each["documents"] for each in state.splits.values()))
        if time.monotonic() - saved > _SECONDS:
            for writer in writers.values():
                writer.sync()
            state.save(work.directory)
            saved = time.monotonic()
    for split, writer in writers.items():
        writer.close()
        state.of(split)["dropped"] = layout.end(np.array(state.of(split)["rest"]))
    state.save(work.directory)


def _append(
    counts: dict[str, Any],
    writer: ShardWriter,
    layout: Layout,
    pieces: list[np.ndarray],
    lasts: np.ndarray,
    labels: np.ndarray | None,
    options: Options,
) -> None:
    """Rows of one split that these pieces complete, and the facts recorded about them."""
    made = layout.rows(np.array(counts["rest"], dtype=np.uint32), pieces, lasts.tolist())
    writer.write(made.tokens, made.lengths if options.layout == LENGTHS else None, labels)
    ended = int(lasts.sum())
    counts["tokens"] += sum(map(len, pieces)) + ended * (layout.eos is not None)
    counts["cut"] += made.cut
    counts["documents"] += ended
    counts["rows"] = writer.rows
    counts["rest"] = made.rest.tolist()
    sizes = made.lengths if options.layout == LENGTHS else made.sizes
    if sizes is not None:
        before = np.array(counts["lengths"] or [0] * (layout.length + 1))
        counts["lengths"] = (before + np.bincount(sizes, minlength=layout.length + 1)).tolist()
