"""Whole files damaged as disks, downloads and editors do: what is read is what plain readers find there."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from fuzzed_files import SQUEEZE
from simplax.data.text import Options, prepare
from simplax.data.text.documents import BOM
from simplax.data.text.sources import Reading, open_source
from simplax.errors import UserError

_ROWS = 60
Found = list[str] | list[list[int]]


@dataclass(frozen=True)
class Kind:
    """A file, and its documents by a reader that shares no code with ours."""

    content: bytes
    documents: Callable[[bytes], Found]


def _smiles(random_: random.Random) -> str:
    parts = ["C", "N", "O", "c1ccccc1", "C(=O)", "C(Cl)", "[nH]", "C=C", "C#N"]
    return "".join(random_.choices(parts, k=random_.randint(1, 12)))


def _parquet(rows: list[str]) -> bytes:
    import pyarrow
    from pyarrow import parquet

    file = io.BytesIO()
    parquet.write_table(pyarrow.table({"text": rows}), file, write_page_checksum=True)
    return file.getvalue()


def _parquet_rows(data: bytes) -> list[str]:
    from pyarrow import parquet

    return list(parquet.read_table(io.BytesIO(data)).column("text").to_pylist())


def _array(rows: list[list[int]]) -> bytes:
    file = io.BytesIO()
    np.save(file, np.array(rows, dtype=np.int32))
    return file.getvalue()


def _table_rows(data: bytes, delimiter: str) -> list[str]:
    rows = list(csv.reader(io.StringIO(data.decode("utf-8-sig"), newline=""), delimiter=delimiter))
    return [row[rows[0].index("text")] for row in rows[1:] if row]


def _without_mark(data: bytes) -> bytes:
    return data.removeprefix(BOM)


def _json_rows(data: bytes) -> list[str]:
    return [json.loads(line)["text"] for line in _without_mark(data).split(b"\n") if line.strip()]


def _fasta_rows(data: bytes) -> list[str]:
    records: list[list[bytes]] = []
    for line in _without_mark(data).split(b"\n"):
        if line.startswith(b">"):
            records.append([])
        elif line.strip():
            # white space before a record is no part of it
            if not records:
                assert line.lstrip().startswith(b">")
                records.append([])
            else:
                records[-1].append(b"".join(line.split()))
    return [b"".join(record).decode().upper() for record in records]


def _fastq_rows(data: bytes) -> list[str]:
    lines = [line.strip() for line in _without_mark(data).split(b"\n")]
    rows, at = [], 0
    while at < len(lines):
        if not lines[at]:
            at += 1
            continue
        rows.append(b"".join(lines[at + 1].split()).decode().upper())
        at += 4
    return rows


def _first_words(data: bytes) -> list[str]:
    return [line.split()[0].decode() for line in _without_mark(data).split(b"\n") if line.split()]


def _lines(data: bytes) -> list[str]:
    return [line.strip("\r\n") for line in data.decode("utf-8-sig").split("\n") if line.strip("\r\n")]


def _kinds() -> dict[str, Kind]:
    random_ = random.Random(0)
    molecules = [_smiles(random_) for _ in range(_ROWS)]
    genes = ["".join(random_.choices("ACGTacgtN", k=random_.randint(3, 90))) for _ in range(_ROWS)]
    texts = [f'{molecule} é, "{gene[:9]}"' for molecule, gene in zip(molecules, genes)]
    grid = [[random_.randint(0, 20) for _ in range(7)] for _ in range(_ROWS)]

    def table(sign: str) -> bytes:
        file = io.StringIO()
        csv.writer(file, delimiter=sign, lineterminator="\n").writerows(
            [["text", "n"], *([t, "1"] for t in texts)]
        )
        return file.getvalue().encode()

    fasta = "".join(f">gene {n}\n{g[:40]}\n{g[40:]}\n" for n, g in enumerate(genes)).encode()
    kinds = {
        ".txt": Kind("\n".join(texts).encode(), _lines),
        ".jsonl": Kind("\n".join(json.dumps({"text": t, "n": 1}) for t in texts).encode(), _json_rows),
        ".csv": Kind(table(","), lambda data: _table_rows(data, ",")),
        ".tsv": Kind(table("\t"), lambda data: _table_rows(data, "\t")),
        ".fasta": Kind(fasta, _fasta_rows),
        ".fastq": Kind("".join(f"@r\n{g}\n+\n{'I' * len(g)}\n" for g in genes).encode(), _fastq_rows),
        ".smi": Kind("\n".join(f"{m} {n}" for n, m in enumerate(molecules)).encode(), _first_words),
        ".npy": Kind(_array(grid), lambda data: np.load(io.BytesIO(data)).tolist()),
    }
    with contextlib.suppress(ImportError):  # an extra
        kinds[".parquet"] = Kind(_parquet(texts), _parquet_rows)
    return kinds


KINDS = _kinds()
DAMAGE: dict[str, Callable[[bytes, random.Random], bytes]] = {}


def _damage(function: Callable[[bytes, random.Random], bytes]) -> Callable[[bytes, random.Random], bytes]:
    DAMAGE[function.__name__.strip("_").replace("_", " ")] = function
    return function


def _block(data: bytes, random_: random.Random) -> tuple[int, int]:
    begin = random_.randrange(len(data))
    return begin, min(len(data), begin + random_.choice([1, 2, 16, 300]))


@_damage
def _nothing(data: bytes, random_: random.Random) -> bytes:
    return data


@_damage
def _a_changed_bit(data: bytes, random_: random.Random) -> bytes:
    at = random_.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << random_.randrange(8)]) + data[at + 1 :]


@_damage
def _zeros(data: bytes, random_: random.Random) -> bytes:
    begin, end = _block(data, random_)
    return data[:begin] + bytes(end - begin) + data[end:]


@_damage
def _other_bytes(data: bytes, random_: random.Random) -> bytes:
    begin, end = _block(data, random_)
    return data[:begin] + random_.randbytes(end - begin) + data[end:]


@_damage
def _bytes_missing(data: bytes, random_: random.Random) -> bytes:
    begin, end = _block(data, random_)
    return data[:begin] + data[end:]


@_damage
def _bytes_twice(data: bytes, random_: random.Random) -> bytes:
    begin, end = _block(data, random_)
    return data[:end] + data[begin:]


@_damage
def _cut_short(data: bytes, random_: random.Random) -> bytes:
    return data[: random_.randrange(len(data))]


@_damage
def _bytes_behind(data: bytes, random_: random.Random) -> bytes:
    return data + random_.randbytes(random_.choice([1, 8, 100]))


@_damage
def _windows_line_breaks(data: bytes, random_: random.Random) -> bytes:
    return data.replace(b"\n", b"\r\n")


@_damage
def _a_byte_order_mark(data: bytes, random_: random.Random) -> bytes:
    return BOM + data


@_damage
def _utf_16(data: bytes, random_: random.Random) -> bytes:
    return data.decode("latin-1").encode(random_.choice(["utf-16", "utf-16-le", "utf-16-be"]))


@_damage
def _latin_1(data: bytes, random_: random.Random) -> bytes:
    return data.replace("é".encode(), b"\xe9")


@_damage
def _another_file(data: bytes, random_: random.Random) -> bytes:
    return random_.choice([kind.content for kind in KINDS.values()])


# where damage is done: to the file, to what is compressed, or to the archive
real_files = st.tuples(
    st.sampled_from([f"{ending}{squeeze}" for ending in KINDS for squeeze in ("", "", *SQUEEZE)]),
    st.sampled_from(list(DAMAGE)),
    st.booleans(),
    st.integers(0, 2**32),
)


def real(ending: str, damage: str, inside: bool, number: int) -> str:
    """Documents as a plain reader finds them in the damaged bytes, or one sentence and nothing written."""
    kind, squeeze = next(
        (KINDS[e], ending[len(e) :]) for e in KINDS if ending.removeprefix(e) in ("", *SQUEEZE)
    )
    change, random_ = DAMAGE[damage], random.Random(number)
    inner, outer = kind.content, kind.content
    if inside or not squeeze:
        inner = outer = change(inner, random_)
    outer = SQUEEZE[squeeze](inner) if squeeze else outer
    if squeeze and not inside:
        outer = change(outer, random_)
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / f"file{ending}", Path(folder) / "out"
        path.write_bytes(outer)
        numbers = ".npy" in ending
        columns = ("text",) if any(e in ending for e in (".csv", ".tsv", ".jsonl", ".parquet")) else ()
        separator = "\n" if ".txt" in ending else None
        try:
            reading = Reading(columns, separator, cells=False, scratch=Path(folder) / "scratch")
            pieces = [piece.content for piece in open_source(str(path), reading).read()]
        except UserError as error:
            assert len(str(error).splitlines()) == 1 and len(str(error)) < 1000
            assert damage != "nothing"
            pieces = None
        if pieces is not None:
            found = [np.asarray(p).tolist() if numbers else p for p in pieces]
            assert found == kind.documents(inner)
        options = Options(
            str(path), "integers" if numbers else "characters", layout="learned_end", columns=columns,
            separator=separator,
        )  # fmt: skip
        try:
            prepared = prepare(options, out)
        except UserError as error:
            assert len(str(error).splitlines()) == 1 and len(str(error)) < 1000
            assert {each.name for each in Path(folder).iterdir()} <= {path.name, "scratch"}
            return "refused"
        prepared.verify()
        assert pieces is not None
        return "prepared"
