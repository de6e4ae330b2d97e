"""Prepared data: its bytes, whatever interrupted the work; its splits; rows read from disk."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simplax.cli import main
from simplax.data.text import Options, Prepared, Tokenizer, prepare
from simplax.data.text import chunks as chunks_module
from simplax.data.text import files as files_module
from simplax.data.text import prepare as prepare_function
from simplax.data.text.splits import held_out
from simplax.data.text.tokenizers import Characters
from simplax.errors import UserError

prepare_module = sys.modules[prepare_function.__module__]
WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog"]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Forty documents of many lengths, one much longer than a piece."""
    documents = [" ".join(WORDS[(i * j) % 9] for j in range(1 + i % 7)) for i in range(39)]
    documents.insert(20, " ".join(WORDS[(3 * j) % 9] for j in range(200)))
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps({"text": d}) + "\n" for d in documents))
    return tmp_path / "corpus.jsonl"


def characters(corpus: Path, **changes: Any) -> Options:
    return replace(Options(str(corpus), "characters", length=16, split="4"), **changes)


def contents(directory: Path) -> dict[str, bytes]:
    """Every file whose bytes are promised: not the manifest, which has a date."""
    return {
        p.name: p.read_bytes()
        for p in directory.iterdir()
        if p.suffix in (".bin", ".len", ".lab") or p.stem == "tokenizer"
    }


def rows(prepared: Prepared, split: str) -> list[list[int]]:
    shards = prepared.rows(split)
    tokens: list[list[int]] = shards.take(np.arange(shards.rows))[0].tolist()
    return tokens


def test_the_stream_is_that_of_the_documents(corpus: Path, tmp_path: Path) -> None:
    prepared = prepare(characters(corpus), tmp_path / "out", shard_bytes=200)
    texts = [json.loads(line)["text"] for line in corpus.read_text().splitlines()]
    tokenizer = prepared.tokenizer
    assert tokenizer == Characters("".join(sorted(set("".join(texts)))))
    for split, part in (("train", texts[:-4]), ("validation", texts[-4:])):
        stream = [token for text in part for token in [*tokenizer.encode(text), tokenizer.eos]]
        full = len(stream) // 16
        assert rows(prepared, split) == np.array(stream[: full * 16]).reshape(full, 16).tolist()
        facts = prepared.manifest["splits"][split]
        assert (facts["documents"], facts["tokens"], facts["rows"]) == (len(part), len(stream), full)
        assert facts["dropped"] == len(stream) - full * 16
    assert len(list((tmp_path / "out").glob("train-*.bin"))) > 3
    prepared.verify()


def test_the_wrap_of_stored_rows(corpus: Path, tmp_path: Path) -> None:
    plain = prepare(characters(corpus, length=14), tmp_path / "plain")
    wrapped = prepare(characters(corpus, wrap=True), tmp_path / "wrapped")
    end = wrapped.tokenizer.eos
    assert rows(wrapped, "train") == [[end, *row, end] for row in rows(plain, "train")]


class Crash(Exception):
    pass


def spoil(out: Path, per_shard: int) -> None:
    """Add what a crash may leave behind: rows written after the last state, in its shard and in the next."""
    state = json.loads((out / "state.json").read_text())
    for split in ("train", "validation"):
        number = state["splits"].get(split, {"rows": 0})["rows"] // per_shard
        for shard in (number, number + 1):
            for ending in (".bin", ".len"):
                if ending == ".bin" or any(out.glob("*.len")):
                    with (out / f"{split}-{shard:05d}{ending}").open("ab") as file:
                        file.write(b"half a row")


@pytest.mark.parametrize("layout", ["packed", "lengths", "learned_end"])
def test_stopped_anywhere_it_continues_to_the_same_bytes(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    monkeypatch.setattr(chunks_module, "CHUNK", 60)
    monkeypatch.setattr(prepare_module, "_SECONDS", -1.0)
    options = characters(corpus, layout=layout)
    prepare(options, tmp_path / "whole", shard_bytes=500)
    expected = contents(tmp_path / "whole")
    encode, calls = Characters.encode_batch, 0
    for stop in range(1, 100):
        out, calls = tmp_path / f"out-{stop}", 0

        def failing(self: Tokenizer, texts: Any, stop: int = stop) -> Any:
            nonlocal calls
            calls += 1
            if calls == stop:
                raise Crash
            return encode(self, texts)  # type: ignore[arg-type]

        monkeypatch.setattr(Characters, "encode_batch", failing)
        try:
            prepare(options, out, shard_bytes=500)
            break
        except Crash:
            spoil(out, 500 // 32)
        monkeypatch.setattr(Characters, "encode_batch", encode)
        prepare(options, out, shard_bytes=500)
        assert contents(out) == expected, stop
        assert not (out / "state.json").exists()
    assert stop > 8


@pytest.mark.slow
def test_a_killed_process_is_continued_to_the_same_bytes(tmp_path: Path) -> None:
    lines = (json.dumps({"text": f"document number {i} " * (i % 50)}) + "\n" for i in range(12_000))
    (tmp_path / "big.jsonl").write_text("".join(lines))
    options = Options(str(tmp_path / "big.jsonl"), "characters", length=64)
    script = (
        "import sys, simplax.data.text as t; m = sys.modules['simplax.data.text.prepare']; m._SECONDS = 0.0;"
        f"t.prepare(t.Options({options.source!r}, 'characters', length=64), {str(tmp_path / 'killed')!r})"
    )
    process = subprocess.Popen([sys.executable, "-c", script])
    while not any((tmp_path / "killed").glob("train-*.bin")):
        assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert (tmp_path / "killed" / "state.json").exists()
    prepare(options, tmp_path / "killed")
    prepare(options, tmp_path / "whole")
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


def test_what_a_killed_process_had_begun_to_write_is_removed(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / ".state.json.123-abc.tmp").write_text("{")
    prepare(characters(corpus), tmp_path / "out")
    prepare(characters(corpus), tmp_path / "whole")
    names = [{path.name for path in (tmp_path / each).iterdir()} for each in ("out", "whole")]
    assert names[0] == names[1]


def test_the_same_command_finds_its_result_and_another_is_refused(corpus: Path, tmp_path: Path) -> None:
    options = characters(corpus)
    before = prepare(options, tmp_path / "out").manifest
    assert prepare(options, tmp_path / "out").manifest == before
    with pytest.raises(UserError, match="prepared with other options"):
        prepare(replace(options, length=8), tmp_path / "out")
    (tmp_path / "out" / "manifest.json").unlink()
    with pytest.raises(UserError, match="holds other data"):
        prepare(options, tmp_path / "out")


def test_a_source_that_changed_in_between_is_not_mixed(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*arguments: Any) -> Any:
        raise Crash

    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr(prepare_module, "finish", crash)
        prepare(characters(corpus), tmp_path / "out")
    corpus.write_text(corpus.read_text() + '{"text": "more"}\n')
    with pytest.raises(UserError, match="source has changed"):
        prepare(characters(corpus), tmp_path / "out")


def test_documents_longer_than_a_piece_are_streamed(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "long.txt").write_text("lorem ipsum dolor sit amet " * 4000)
    options = Options(str(tmp_path / "long.txt"), "characters", length=32)
    prepare(options, tmp_path / "whole")
    monkeypatch.setattr(files_module, "PIECE", 1000)
    monkeypatch.setattr(chunks_module, "CHUNK", 3000)
    prepare(options, tmp_path / "pieces")
    assert contents(tmp_path / "pieces") == contents(tmp_path / "whole")


def test_splits(corpus: Path, tmp_path: Path) -> None:
    def documents(name: str, **changes: Any) -> tuple[int, int]:
        facts = prepare(characters(corpus, **changes), tmp_path / name).manifest["splits"]
        return facts["train"]["documents"], facts["validation"]["documents"]

    assert documents("sequences", split="10%", layout="learned_end") == (36, 4)
    assert documents("sequence", split=None, layout="lengths") == (39, 1)  # one per cent, and at least one
    assert documents("other", split=None, validation=str(corpus)) == (40, 40)
    for wrong, message in (
        ("40", "hold out fewer"),
        ("most", "a split is"),
        ("-1", "a split is"),
        ("100%", "a split"),
    ):
        with pytest.raises(UserError, match=message):
            prepare(characters(corpus, split=wrong), tmp_path / "wrong")


def test_a_share_is_one_of_documents_and_of_their_size(tmp_path: Path) -> None:
    """One per cent of two books is not one of the books; of many pages it is some of the pages, from everywhere."""
    sizes = np.random.default_rng(0).integers(1, 200, 5000)
    for split in (0.01, 0.2):
        held = held_out(f"{100 * split}%", sizes, each=False)
        assert sizes[held].sum() / sizes.sum() == pytest.approx(split, rel=0.03)
        assert held.mean() == pytest.approx(split, rel=0.3)
        assert abs(np.flatnonzero(held).mean() / len(held) - 0.5) < 0.15
        assert held_out(f"{100 * split}%", sizes, each=True).sum() == round(split * len(sizes))
    skewed = np.array([1000, 1, 1, 1, 500_000, 3, 2, 1, 40])
    held = held_out("0.001%", skewed, each=False)
    assert 0.5 <= skewed[held].sum() / (1e-5 * skewed.sum()) <= 2.0
    assert not held_out("1%", np.array([100, 100]), each=False).any()
    assert held_out("3", np.ones(9), each=True).tolist() == [False] * 6 + [True] * 3

    books = tmp_path / "books"
    books.mkdir()
    for name in ("one", "two"):
        (books / f"{name}.txt").write_text("abcdefghij" * 500)
    facts = prepare(Options(str(books), "characters", length=10), tmp_path / "out").manifest["splits"]
    assert (facts["train"]["rows"], facts["validation"]["rows"]) == (990, 10)


def test_a_single_document_gives_up_its_last_rows(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("abcdefghij" * 100)
    prepared = prepare(
        Options(str(tmp_path / "one.txt"), "characters", length=10, split="5%"), tmp_path / "out"
    )
    train, valid = rows(prepared, "train"), rows(prepared, "validation")
    assert (len(train), len(valid)) == (95, 5)
    none = prepare(Options(str(tmp_path / "one.txt"), "characters", length=10, split="0"), tmp_path / "none")
    assert len(rows(none, "train")) == 100
    with pytest.raises(UserError, match="no validation rows"):
        none.rows("validation")
    with pytest.raises(UserError, match="there are 1 documents: hold out fewer"):
        prepare(Options(str(tmp_path / "one.txt"), "characters", length=10, split="1"), tmp_path / "one")
    with pytest.raises(UserError, match="too few for one sequence"):
        prepare(Options(str(tmp_path / "one.txt"), "characters", length=5000), tmp_path / "long")


def test_damage_is_noticed(corpus: Path, tmp_path: Path) -> None:
    prepare(characters(corpus), tmp_path / "out")
    shard = tmp_path / "out" / "train-00000.bin"
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(UserError, match="not what was written"):
        Prepared.open(tmp_path / "out").verify()
    shard.write_bytes(whole[:-2])
    with pytest.raises(UserError, match="missing or cut short"):
        Prepared.open(tmp_path / "out")
    with pytest.raises(UserError, match=r"has no manifest\.json"):
        Prepared.open(tmp_path)


def test_the_command(corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out")
    command = ["data", "text", str(corpus), "--tokenizer", "characters", "--length", "16", "--split", "4"]
    assert main([*command, "--out", out, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["length"], told["splits"]["validation"]["documents"]) == (16, 4)
    assert told["sources"][0][0]["name"] == "corpus.jsonl"
    assert main([*command, "--out", out]) == 0
    assert "36 documents" in capsys.readouterr().out
    assert main(["data", "text", out]) == 0  # a prepared directory is checked
    assert "whole" in capsys.readouterr().err
    assert main(command) == 2
    assert "--out" in capsys.readouterr().err
    (tmp_path / "stories.txt").write_text("one\n\ntwo\n\nthree")
    separated = [
        "data",
        "text",
        str(tmp_path / "stories.txt"),
        "--separator",
        r"\n\n",
        "--tokenizer",
        "characters",
    ]
    assert main([*separated, "--length", "4", "--out", str(tmp_path / "s"), "--json"]) == 0
    splits = json.loads(capsys.readouterr().out)["splits"]
    assert (splits["train"]["documents"], splits["validation"]["rows"]) == (
        3,
        1,
    )  # too few to hold out a whole one
