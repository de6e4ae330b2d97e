"""Data files that no program wrote: proper ones, ones under a wrong name, and ones with bytes changed or missing."""

from __future__ import annotations

import bz2
import csv
import gzip
import importlib.util
import io
import json
import lzma
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from simplax.data.text.documents import BOM
from simplax.data.text.sources import KINDS, Reading

TOKENIZERS = ("characters", "values", "integers", "smiles", "selfies")
_HAS_PARQUET = importlib.util.find_spec("pyarrow") is not None
ENDINGS = sorted({*KINDS, ".txt"} - (set() if _HAS_PARQUET else {".parquet"}))


def _zstandard(data: bytes) -> bytes:
    import zstandard

    return bytes(zstandard.ZstdCompressor(write_checksum=True).compress(data))


SQUEEZE: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    **({".zst": _zstandard} if importlib.util.find_spec("zstandard") is not None else {}),
}

words = st.text(st.characters(codec="utf-8"), max_size=8)
letters = st.text("ACGTNacgtn-* \n", max_size=20)
molecules = st.sampled_from(
    ["CCO", "c1ccccc1", "[C][O]", "C(", "[", "Cl", "", "é", "[nH]", "C%12CC%12", "[C][=O]."]
)
classes = st.sampled_from(["a", "b", "", "1", "nan", "1e400", "é"])


def _table(rows: list[list[str]], delimiter: str) -> bytes:
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return file.getvalue().encode()


def _array(values: list[int], kind: str, width: int) -> bytes:
    file, array = io.BytesIO(), np.array(values).astype(kind)
    np.save(file, array.reshape(-1, width) if width and array.size % width == 0 else array)
    return file.getvalue()


def _parquet(rows: list[tuple[str, str]], name: str) -> bytes:
    import pyarrow
    from pyarrow import parquet

    file = io.BytesIO()
    parquet.write_table(pyarrow.table({name: [a for a, _ in rows], "n": [b for _, b in rows]}), file)
    return file.getvalue()


def _named_table(rows: list[tuple[str, str]], sign: str) -> bytes:
    return _table([["text", "n"], *map(list, rows)], sign)


described = st.lists(st.tuples(st.one_of(words, molecules), classes), min_size=1, max_size=6)
json_lines = st.lists(
    st.fixed_dictionaries({"text": st.one_of(words, molecules), "n": st.one_of(st.integers(), classes)}),
    max_size=6,
).map(lambda records: "\n".join(map(json.dumps, records)).encode())
tables = {
    sign: st.one_of(
        st.builds(
            _table, st.lists(st.lists(words, min_size=1, max_size=3), min_size=1, max_size=6), st.just(sign)
        ),
        st.builds(_named_table, described, st.just(sign)),
    )
    for sign in ",\t"
}
parquet_tables = st.builds(_parquet, described, st.sampled_from(["text", "a"]))
fasta = st.lists(letters, min_size=1, max_size=5).map(
    lambda rows: "".join(f">x\n{row}\n" for row in rows).encode()
)
fastq = st.lists(letters.map(lambda row: row.replace("\n", "")), min_size=1, max_size=5).map(
    lambda rows: "".join(f"@x\n{r}\n+\n{'I' * len(r)}\n" for r in rows).encode()
)
lines = st.lists(molecules, min_size=1, max_size=6).map(lambda rows: "\n".join(rows).encode())
arrays = st.builds(
    _array,
    st.lists(st.integers(-1, 300), min_size=1, max_size=9),
    st.sampled_from(["<i8", "u1", "<u8", "<f4", "?"]),
    st.integers(0, 3),
)
written = st.one_of(
    json_lines, *tables.values(), fasta, fastq, lines, arrays, st.binary(max_size=80), words.map(str.encode)
)
PROPER: dict[str, st.SearchStrategy[bytes]] = {
    ".jsonl": json_lines,
    ".csv": tables[","],
    ".tsv": tables["\t"],
    ".npy": arrays,
    ".parquet": parquet_tables,
    **dict.fromkeys((".fasta", ".fa", ".fna", ".faa"), fasta),
    **dict.fromkeys((".fastq", ".fq"), fastq),
    **dict.fromkeys((".smi", ".smiles", ".selfies"), lines),
}


@st.composite
def damaged(draw: st.DrawFn, contents: st.SearchStrategy[bytes]) -> bytes:
    """Bytes as they are, or with some of them changed, added or left out, or cut short."""
    content = bytearray(draw(contents))
    for _ in range(draw(st.sampled_from([0, 0, 0, 0, 0, 1, 2])) if content else 0):
        place = draw(st.integers(0, max(0, len(content) - 1)))
        content[place : place + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
    if draw(st.sampled_from([False, False, False, False, False, True])):
        content = content[: draw(st.integers(0, len(content)))]
    return bytes(content)


@st.composite
def files(draw: st.DrawFn) -> tuple[str, bytes]:
    """A name and bytes: a proper file, perhaps of another kind, damaged or compressed, and that damaged."""
    ending = draw(st.sampled_from(ENDINGS))
    proper = PROPER.get(ending, words.map(str.encode))
    data = draw(damaged(draw(st.sampled_from([proper, proper, proper, written]))))
    data = draw(st.sampled_from([b"", b"", b"", b"", BOM])) + data
    squeeze = draw(st.sampled_from(["", "", *SQUEEZE]))
    if squeeze:
        data = draw(damaged(st.just(SQUEEZE[squeeze](data))))
    return f"file{ending}{squeeze}", data


archives = st.sampled_from(list(SQUEEZE)).flatmap(
    lambda ending: st.tuples(
        st.just(ending),
        st.one_of(
            st.binary(max_size=60),
            damaged(st.binary(max_size=200).map(SQUEEZE[ending])),
            # two archives one after the other are one file
            damaged(st.binary(max_size=40).map(lambda data: 2 * SQUEEZE[ending](data))),
        ),
    )
)
readings = st.builds(
    Reading,
    columns=st.sampled_from([(), ("text",), ("text",), ("a",)]),
    separator=st.sampled_from([None, "\n", "aa"]),
    errors=st.sampled_from(["strict", "replace"]),
    cells=st.booleans(),
    labels=st.sampled_from([(), (), (), (), (), (), ("n",)]),
    alphabet=st.sampled_from([None, "dna"]),
    ambiguous=st.sampled_from(["keep", "keep", "keep", "skip", "refuse"]),
)


def _settings(tokenizer: str, layout: str | None, labels: tuple[str, ...], **others: Any) -> dict[str, Any]:
    length = others["length"] or (4 if layout == "packed" else None)
    columns = ("text",) if tokenizer != "values" else ()
    return {"tokenizer": tokenizer, "layout": layout, "labels": labels, "columns": columns} | {
        **others,
        "length": length,
    }


preparations = st.builds(
    _settings,
    st.sampled_from(TOKENIZERS),
    st.sampled_from([None, "packed", "lengths", "learned_end"]),
    st.sampled_from([(), (), (), ("n",), ("n:number",)]),
    length=st.sampled_from([None, None, 1, 3]),
    eos=st.sampled_from([None, None, False]),
    split=st.sampled_from([None, "0", "1", "50%"]),
    errors=st.sampled_from(["strict", "replace"]),
)
