"""Files of every kind: compressed, with marks, blank lines and letters of other programs; and files in disguise."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simplax.cli import main
from simplax.data.text import Options, load_tokenizer, prepare
from simplax.data.text.compressed import expand
from simplax.data.text.documents import Documents
from simplax.data.text.sources import Reading, open_source
from simplax.data.text.symbols import Symbols, split
from simplax.errors import UserError


def texts(path: Path, **reading: Any) -> list[Any]:
    source = open_source(str(path), Reading(**reading))
    assert source.count() == sum(piece.last for piece in source.read())
    return [np.asarray(piece.content).tolist() for piece in source.read()]


def zstd(data: bytes) -> bytes:
    library = pytest.importorskip("zstandard", reason="needs the zst extra")
    compressed: bytes = library.ZstdCompressor().compress(data)
    return compressed


COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstd,
}


@pytest.mark.parametrize("ending", COMPRESS)
def test_compressed_files_are_their_contents(tmp_path: Path, ending: str) -> None:
    content = "smiles,y\n" + "".join(f"{'C' * (1 + i % 5)}O,{i}\n" for i in range(300))
    (tmp_path / "t.csv").write_text(content)
    whole = COMPRESS[ending](content[:900].encode()) + COMPRESS[ending](
        content[900:].encode()
    )  # two, one after the other
    path = tmp_path / f"t.csv{ending}"
    path.write_bytes(whole)
    reading = {"columns": ("smiles",), "cells": False}
    assert texts(path, **reading) == texts(tmp_path / "t.csv", **reading)
    prepared = prepare(Options(str(path), "smiles", columns=("smiles",)), tmp_path / "out")
    assert (prepared.length, prepared.tokenizer) == (7, Symbols("smiles", ("C", "O")))
    assert prepared.manifest["sources"][0][0]["name"] == path.name
    assert sorted(p.name for p in (tmp_path / "out").iterdir() if p.is_dir()) == []
    for damaged in (whole[: len(whole) // 2], whole[:-3], b"plain text", whole + b"more"):
        path.write_bytes(damaged)
        if ending == ".bz2" and damaged.endswith(b"more"):
            continue  # bzip2 takes what follows the last stream for padding
        with pytest.raises(UserError, match="damaged, cut short or not compressed"):
            prepare(Options(str(path), "smiles", columns=("smiles",)), tmp_path / "bad")
        assert not (tmp_path / "bad").exists()


def test_other_kinds_compressed(tmp_path: Path) -> None:
    np.save(tmp_path / "ids.npy", np.arange(12).reshape(3, 4))
    files = {
        "ids.npy.gz": ((tmp_path / "ids.npy").read_bytes(), np.arange(12).reshape(3, 4).tolist()),
        "a.fasta.gz": (b">x\nAC\n", ["AC"]),
        "b.jsonl.gz": (b'{"text": "hi"}\n', ["hi"]),
        "c.txt.gz": (b"plain", ["plain"]),
    }
    for name, (content, documents) in files.items():
        (tmp_path / name).write_bytes(gzip.compress(content))
        assert texts(tmp_path / name) == documents


def test_byte_order_marks_are_no_text(tmp_path: Path) -> None:
    mark = b"\xef\xbb\xbf"
    for name, content, documents in (
        ("t.txt", b"one", ["one"]),
        ("t.jsonl", b'{"text": "a"}\r\n{"text": "b"}', ["a", "b"]),
        ("t.csv", b"a,b\r\n1,2\r\n", [["1", "2"]]),
        ("t.tsv", b"a\tb\n1,5\t2\n", [["1,5", "2"]]),
        ("t.fasta", b">x\nAC\n", ["AC"]),
        ("t.fastq", b"@x\nAC\n+\nII\n", ["AC"]),
        ("t.smi", b"CCO name\n", ["CCO"]),
    ):
        (tmp_path / name).write_bytes(mark + content)
        assert texts(tmp_path / name) == documents, name


def test_sequences_of_letters(tmp_path: Path) -> None:
    fasta = tmp_path / "x.fasta"
    fasta.write_text("\n\n>one first\r\nac gt\r\n\r\nACGT\r\n\n>none\n>two\nNNa-*\n")
    assert texts(fasta) == ["ACGTACGT", "", "NNA-*"]
    assert texts(fasta, alphabet="dna", ambiguous="skip") == ["ACGTACGT", ""]
    with pytest.raises(UserError, match=r"'N' at byte .* is not dna"):
        texts(fasta, alphabet="dna", ambiguous="refuse")
    with pytest.raises(UserError, match="say with --alphabet"):
        texts(fasta, ambiguous="skip")
    fastq = tmp_path / "x.fq"
    fastq.write_text("@a\nacgn\n+a\n@@@@\n\n@b x\nAC\n+\n+I\n")  # qualities may look like anything
    assert texts(fastq) == ["ACGN", "AC"]
    assert texts(fastq, ambiguous="skip") == ["AC"]
    named = tmp_path / "x.faa"
    named.write_text(">p\nMKV\n>q\nMX\n")
    assert texts(named, ambiguous="skip") == ["MKV"]
    for name, content, message in (
        ("a.fasta", "ACGT\n", "not FASTA: byte 0"),
        ("b.fasta", ">x\nAC1T\n", "has '1' at byte 5, which is no letter"),
        ("c.fastq", ">x\nAC\n", "not FASTQ: byte 0"),
        ("d.fastq", "@x\nAC\n+\nIII\n", "the record at byte 0 has no"),
        ("e.fastq", "@x\nAC\nGT\n+\nIIII\n", "four lines per record"),
        ("f.fastq", "@x\nAC\n", "four lines per record"),
    ):
        (tmp_path / name).write_text(content)
        with pytest.raises(UserError, match=message):
            texts(tmp_path / name)


def test_files_in_disguise_are_named(tmp_path: Path) -> None:
    np.save(tmp_path / "real.npy", np.arange(3))
    array = (tmp_path / "real.npy").read_bytes()
    for name, content, message in (
        ("a.csv", gzip.compress(b"a,b\n1,2\n"), r"compressed by gzip: let its name end in \.gz"),
        ("b.jsonl", b"PK\x03\x04zip", "a zip archive"),
        ("c.txt", array, r"an array of numpy: let its name end in \.npy"),
        ("d.csv", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull"),
        ("e.txt", "hé".encode("utf-16"), "UTF-16 text: convert it"),
        ("f.txt", b"ab\x00cd", "is not text: byte 2 is 0x00"),
        ("g.npy", b"1 2 3\n", r"not a readable \.npy file"),
        ("h.csv", b'a,b\n1,"2\n', "row at byte 4 of .* is not CSV"),
        ("i.csv", b'a,b\n1,"2"x\n', "is not CSV"),
        ("j.jsonl", b"[" * 100_000, "is not JSON"),
        ("k.jsonl", b'{"text": ' + b"9" * 5000 + b"}", "is not JSON"),
        ("l.smi", b"CCO\nhello\n", "'hello' is not SMILES at position 0"),
        ("m.selfies", b"[C][=O]\n[C]O\n", r"'\[C\]O' is not SELFIES at position 3"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match=message):
            prepare(
                Options(str(tmp_path / name), "characters" if name[0] in "bcefjk" else None), tmp_path / "out"
            )
        assert not (tmp_path / "out").exists(), name
    import io

    bundle = io.BytesIO()
    np.savez(bundle, a=np.arange(3))
    (tmp_path / "n.npy").write_bytes(bundle.getvalue())
    with pytest.raises(UserError, match="zip archive"):
        texts(tmp_path / "n.npy")


def test_numbers_are_never_spelled_out(tmp_path: Path) -> None:
    """How Python shows an array is no text of the user's."""
    np.save(tmp_path / "ids.npy", np.arange(12).reshape(3, 4))
    for tokenizer in ("characters", "smiles"):
        with pytest.raises(UserError, match="say --tokenizer integers"):
            prepare(Options(str(tmp_path / "ids.npy"), tokenizer), tmp_path / "out")
    (tmp_path / "ids.txt").write_text("1 -1")
    with pytest.raises(UserError, match="category -1"):
        prepare(Options(str(tmp_path / "ids.txt"), "integers", length=2), tmp_path / "out")
    (tmp_path / "ids.txt").write_text("9" * 30)
    with pytest.raises(UserError, match="not a list of whole numbers"):
        prepare(Options(str(tmp_path / "ids.txt"), "integers", length=1), tmp_path / "out")


def test_symbols_of_molecules(tmp_path: Path) -> None:
    smiles = r"C[C@@H](Cl)c1cc(Br)cs1/C=C\N#[N+]%12"
    assert split("smiles", smiles) == [
        *[
            "C",
            "[C@@H]",
            "(",
            "Cl",
            ")",
            "c",
            "1",
            "c",
            "c",
            "(",
            "Br",
            ")",
            "c",
            "s",
            "1",
            "/",
            "C",
            "=",
            "C",
        ],
        *["\\", "N", "#", "[N+]", "%12"],
    ]
    assert split("selfies", "[C][=O].[Branch1]") == ["[C]", "[=O]", ".", "[Branch1]"]
    tokenizer = Symbols("smiles", tuple(sorted(set(split("smiles", smiles)))))
    assert tokenizer.decode(tokenizer.encode(smiles)) == smiles
    tokenizer.save(tmp_path)
    assert load_tokenizer(tmp_path) == tokenizer
    with pytest.raises(UserError, match=r"the symbol '\[Si\]' is not one"):
        tokenizer.encode("[Si]")
    with pytest.raises(UserError, match="not SMILES at position 1"):
        split("smiles", "C C")


def test_columns_of_parquet(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow", reason="Parquet needs the hub extra")
    import pyarrow.parquet

    table = arrow.table({"s": ["CC", "CO", "N"] * 20, "y": [1.5, 2.5, 0.5] * 20, "k": ["a", "b", "b"] * 20})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet", row_group_size=7)
    options = Options(
        str(tmp_path / "t.parquet"), "smiles", columns=("s",), labels=("y:number", "k"), split="0"
    )
    prepared = prepare(options, tmp_path / "out")
    assert (prepared.layout, prepared.length) == ("learned_end", 3)
    values = prepared.label_values("train")
    assert values["y"][:3].tolist() == [1.5, 2.5, 0.5] and values["k"][:3].tolist() == [0, 1, 1]
    whole = (tmp_path / "t.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError, match="not a Parquet file"):
        prepare(Options(str(tmp_path / "cut.parquet"), "smiles", columns=("s",)), tmp_path / "bad")


def test_labels_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.csv").write_text("s,y\nCC,1\nCO,heavy\n")
    (tmp_path / "t.smi").write_text("CC\n")
    (tmp_path / "t.jsonl").write_text(json.dumps({"text": "a", "y": None}) + "\n")
    for name, arguments, message in (
        ("t.csv", ["--columns", "s", "--labels", "y:number"], "'heavy' and should be a number"),
        ("t.csv", ["--columns", "s", "--labels", "z"], "no column 'z'"),
        ("t.csv", ["--columns", "s", "--labels", "y", "y:number"], "named once"),
        ("t.csv", ["--columns", "s", "--labels", "y", "--layout", "packed"], "say --layout learned_end"),
        ("t.smi", ["--labels", "y"], "no labels"),
        ("t.jsonl", ["--labels", "y"], "no label under 'y'"),
    ):
        command = ["data", "sequences", str(tmp_path / name), "--out", str(tmp_path / "out"), *arguments]
        assert main([*command, "--workers", "1", "--tokenizer", "smiles"]) == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / "out").exists()


def test_a_revision_of_a_data_set_is_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    from types import SimpleNamespace

    asked: list[Any] = []

    class Rows(list[dict[str, str]]):
        column_names = ("text",)

    def load_dataset(*arguments: Any, **more: Any) -> Rows:
        asked.append((arguments, more))
        return Rows()

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    source: Documents = open_source("hub:owner/name@train#0123abc", Reading())
    assert source.count() == 0
    assert asked == [(("owner/name", None), {"split": "train", "revision": "0123abc"})]
    assert source.sizes() == [{"name": "owner/name", "documents": 0, "revision": "0123abc"}]


def test_files_of_one_name_size_and_time_are_told_apart(tmp_path: Path) -> None:
    expanded = []
    for number, text in enumerate((b"CCO", b"CCN")):
        path = tmp_path / str(number) / "rows.smi.gz"
        path.parent.mkdir()
        path.write_bytes(gzip.compress(text, mtime=0))
        os.utime(path, (0, 0))
        expanded.append(expand(path, tmp_path / "scratch").read_bytes())
    assert expanded == [b"CCO", b"CCN"]
