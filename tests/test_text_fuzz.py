"""Every parser on files that no program wrote: one sentence or the documents, never a traceback or half an output."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simplax.data.text import Options, prepare
from simplax.data.text.compressed import expand
from simplax.data.text.documents import START
from simplax.data.text.sources import KINDS, Reading, open_source
from simplax.errors import UserError

ENDINGS = sorted({*KINDS, ".txt"} - {".parquet"})
TOKENIZERS = ("characters", "values", "integers", "smiles", "selfies")
words = st.text(st.characters(codec="utf-8"), max_size=8)
letters = st.text("ACGTNacgtn-* \n", max_size=20)
molecules = st.sampled_from(["CCO", "c1ccccc1", "[C][O]", "C(", "[", "Cl", "", "é"])


def _table(rows: list[list[str]], delimiter: str) -> bytes:
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return file.getvalue().encode()


def _array(values: list[int], kind: str) -> bytes:
    file = io.BytesIO()
    np.save(file, np.array(values).astype(kind))
    return file.getvalue()


json_lines = st.lists(st.fixed_dictionaries({"text": words, "n": st.integers()}), max_size=6).map(
    lambda records: "\n".join(map(json.dumps, records)).encode()
)
tables = {
    sign: st.builds(
        _table, st.lists(st.lists(words, min_size=1, max_size=3), min_size=1, max_size=6), st.just(sign)
    )
    for sign in ",\t"
}
fasta = st.lists(letters, max_size=5).map(lambda rows: "".join(f">x\n{row}\n" for row in rows).encode())
fastq = st.lists(letters, max_size=5).map(
    lambda rows: "".join(f"@x\n{r}\n+\n{'I' * len(r)}\n" for r in rows).encode()
)
lines = st.lists(molecules, max_size=6).map(lambda rows: "\n".join(rows).encode())
arrays = st.builds(
    _array, st.lists(st.integers(-1, 300), max_size=9), st.sampled_from(["<i8", "u1", "<f4", "<u8", "?"])
)
written = st.one_of(
    json_lines, *tables.values(), fasta, fastq, lines, arrays, st.binary(max_size=80), words.map(str.encode)
)
PROPER = {
    ".jsonl": json_lines,
    ".csv": tables[","],
    ".tsv": tables["\t"],
    ".npy": arrays,
    **dict.fromkeys((".fasta", ".fa", ".fna", ".faa"), fasta),
    **dict.fromkeys((".fastq", ".fq"), fastq),
    **dict.fromkeys((".smi", ".smiles", ".selfies"), lines),
}


@st.composite
def files(draw: st.DrawFn) -> tuple[str, bytes]:
    """A name and bytes: a proper file, perhaps of another kind, perhaps with some of its bytes changed or missing."""
    ending = draw(st.sampled_from(ENDINGS))
    content = bytearray(draw(st.one_of(PROPER.get(ending, written), written)))
    for _ in range(draw(st.integers(0, 2))):
        if content:
            place = draw(st.integers(0, len(content) - 1))
            content[place : place + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
    squeeze = draw(st.sampled_from(["", "", ".gz", ".bz2", ".xz"]))
    data = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}.get(squeeze, bytes)(
        bytes(content)
    )
    if squeeze and draw(st.booleans()):
        data = data[: draw(st.integers(0, len(data)))]
    return f"file{ending}{squeeze}", data


readings = st.builds(
    Reading,
    columns=st.sampled_from([(), ("text",), ("a",)]),
    separator=st.sampled_from([None, "\n", "aa"]),
    errors=st.sampled_from(["strict", "replace"]),
    cells=st.booleans(),
    alphabet=st.sampled_from([None, "dna"]),
    ambiguous=st.sampled_from(["keep", "skip", "refuse"]),
)


def parse(file: tuple[str, bytes], reading: Reading) -> str:
    """Read it whole, and again from the middle: the same pieces, which are those of the outline. What became of it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / file[0]
        path.write_bytes(file[1])
        try:
            source = open_source(str(path), Reading(**{**vars(reading), "scratch": Path(folder) / "s"}))
            pieces = list(source.read())
        except UserError as error:
            assert "\n" not in str(error) and len(str(error)) < 1000
            return "refused"
        outline = list(source.outline())
        assert [extent.after for extent in outline if extent.last] == [p.after for p in pieces if p.last]
        middle = pieces[len(pieces) // 2 - 1].after if len(pieces) > 1 else START
        rest = pieces[len(pieces) // 2 :] if len(pieces) > 1 else pieces
        again = list(source.read(middle))
        assert [np.asarray(p.content).tolist() for p in again] == [
            np.asarray(p.content).tolist() for p in rest
        ]
        return "read"


def make(file: tuple[str, bytes], tokenizer: str, layout: str | None) -> str:
    """Prepared data that is whole, or nothing at all."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / file[0], Path(folder) / "out"
        path.write_bytes(file[1])
        try:
            found = prepare(
                Options(str(path), tokenizer, layout=layout, length=4 if layout == "packed" else None), out
            )
        except UserError:
            assert not out.exists()
            return "refused"
        found.verify()
        assert not (out / "state.json").exists()
        tokens = found.rows("train").take(np.arange(found.rows("train").rows))[0]
        assert tokens.shape[1] == found.length and int(tokens.max()) < found.vocab_size
        found.tokenizer.decode(tokens[0].tolist())
        return "prepared"


def squeezed(ending: str, data: bytes) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"x.txt{ending}"
        path.write_bytes(data)
        try:
            expand(path, Path(folder) / "s")
        except UserError:
            assert not [file for file in (Path(folder) / "s").rglob("*") if file.is_file()]
            return "refused"
        return "expanded"


def over(examples: st.SearchStrategy[Any], check: Callable[..., str]) -> Callable[[], None]:
    """`check` on every example; hypothesis wants no result."""

    @given(examples)
    def checked(example: tuple[Any, ...]) -> None:
        check(*example)

    return checked


parsing = st.tuples(files(), readings)
making = st.tuples(
    files(), st.sampled_from(TOKENIZERS), st.sampled_from([None, "packed", "lengths", "learned_end"])
)
squeezing = st.tuples(st.sampled_from([".gz", ".bz2", ".xz", ".zst"]), st.binary(max_size=60))
few = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))


def test_any_file_is_read_or_refused() -> None:
    few(over(parsing, parse))()


def test_any_file_is_prepared_whole_or_not_at_all() -> None:
    settings(few, max_examples=120)(over(making, make))()


def test_any_compressed_file_is_expanded_whole_or_not_at_all() -> None:
    pytest.importorskip("zstandard", reason="needs the zst extra")
    few(over(squeezing, squeezed))()
