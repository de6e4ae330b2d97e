"""Tokenizers: ids and back, the published ids of GPT-2, storage in one file, pieces read as wholes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simplax.data.text import Characters, Options, load_tokenizer, prepare
from simplax.data.text import documents as documents_module
from simplax.data.text import files as files_module
from simplax.data.text.shards import ShardWriter, id_type
from simplax.data.text.sources import Reading, open_source
from simplax.data.text.tokenizers import Integers, Values
from simplax.errors import UserError


@given(st.text(min_size=1, max_size=60), st.booleans())
@settings(max_examples=200, deadline=None)
def test_characters_round_trip(text: str, end: bool) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return  # half a surrogate pair is no text
    tokenizer = Characters.of([text[: len(text) // 2], text[len(text) // 2 :]], end)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert tokenizer.vocab_size == len(set(text)) + end
    assert all(0 <= number < len(set(text)) for number in ids)
    assert tokenizer.eos == (len(set(text)) if end else None)


def test_own_tokenizers_are_stored_in_one_file(tmp_path: Path) -> None:
    for tokenizer in (Characters("abcé\n"), Values(("1", "2", "x,y"), True), Integers(7)):
        tokenizer.save(tmp_path)
        assert load_tokenizer(tmp_path) == tokenizer
    values = Values.of([["10", "9"], ["2", "9"]], end=False)
    assert values.values == ("2", "9", "10")
    cells = Values(("a", "x,y"))
    assert cells.encode(cells.decode([1, 0, 1])) == [1, 0, 1]
    with pytest.raises(UserError, match="'z' is not in this model's alphabet"):
        Characters("abc").encode("az")
    with pytest.raises(UserError, match="'z' is not one of"):
        cells.encode("z")
    (tmp_path / "tokenizer.json").write_text('{"simplax-tokenizer": "runes"}')
    with pytest.raises(UserError, match="not a tokenizer"):
        load_tokenizer(tmp_path)


def test_gpt2_by_folder_and_by_package() -> None:
    """The published ids of a published tokenizer."""
    root = os.environ.get("SIMPLAX_TEST_DATA")
    if not root:
        pytest.skip("SIMPLAX_TEST_DATA is not set: GPT-2's tokenizer is not here")
    pytest.importorskip("tokenizers", reason="needs the text extra")
    from simplax.data.text.subwords import load_subwords

    tokenizer = load_subwords(f"{root}/gpt2")
    assert tokenizer.encode("Hello world") == [15496, 995]
    assert (tokenizer.vocab_size, tokenizer.eos, tokenizer.bos) == (50257, 50256, 50256)
    assert tokenizer.decode([15496, 995, 50256]) == "Hello world<|endoftext|>"


def test_merges_may_come_in_two_files_or_in_a_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tokenizers", reason="needs the text extra")
    from simplax.data.text.subwords import load_subwords

    package = tmp_path / "merges_inside" / "data"
    package.mkdir(parents=True)
    (tmp_path / "merges_inside" / "__init__.py").write_text("raise ImportError('only its files are wanted')")
    (package / "encoder.json").write_text(json.dumps({"a": 0, "b": 1, "ab": 2}))
    (package / "vocab.bpe").write_text("#version: 0.2\na b\n")
    monkeypatch.syspath_prepend(tmp_path)
    for tokenizer in (load_subwords("merges_inside"), load_subwords(str(package))):
        assert tokenizer.encode("aabb") == [0, 2, 1]
        assert (tokenizer.vocab_size, tokenizer.eos) == (4, 3)
    with pytest.raises(UserError, match=r"neither tokenizer\.json nor"):
        load_subwords(str(tmp_path))


def test_ids_with_gaps_between_them_are_stored_as_they_are(tmp_path: Path) -> None:
    """The number of entries says nothing about the largest id: 70000 must not become 70000 - 65536."""
    library = pytest.importorskip("tokenizers", reason="needs the text extra")
    from simplax.data.text.subwords import load_subwords

    words = {"a": 0, "b": 70_000, "[UNK]": 5}
    inner = library.Tokenizer(library.models.WordLevel(words, unk_token="[UNK]"))
    inner.pre_tokenizer = library.pre_tokenizers.Whitespace()
    inner.add_special_tokens(["<|endoftext|>"])
    end = inner.token_to_id("<|endoftext|>")
    inner.save(str(tmp_path / "gaps.json"))
    tokenizer = load_subwords(str(tmp_path / "gaps.json"))
    assert tokenizer.vocab_size == max(70_001, end + 1)
    (tmp_path / "words.txt").write_text("a b b a b a a b")
    prepared = prepare(
        Options(str(tmp_path / "words.txt"), str(tmp_path / "gaps.json"), length=4, split="0"),
        tmp_path / "out",
    )
    assert prepared.vocab_size == tokenizer.vocab_size and prepared.manifest["dtype"] == "<u4"
    stored = prepared.rows("train").take(np.arange(2))[0].tolist()
    assert stored == [[0, 70_000, 70_000, 0], [70_000, 0, 0, 70_000]]


@pytest.mark.parametrize("wrong", [7, 65_536 + 3, -1])
def test_an_id_out_of_range_is_never_written(tmp_path: Path, wrong: int) -> None:
    writer = ShardWriter(tmp_path, "train", 3, vocab_size=7, per_shard=4)
    writer.write(np.array([[0, 1, 6]]))
    with pytest.raises(UserError, match=f"made the id {wrong} and says that its ids are below 7"):
        writer.write(np.array([[0, wrong, 1]]))
    writer.close()
    assert np.fromfile(tmp_path / "train-00000.bin", "<u2").tolist() == [0, 1, 6]
    with pytest.raises(UserError, match="too large"):
        id_type((1 << 31) + 1)


def test_a_trained_bpe_is_the_same_every_time_and_reads_pieces_as_wholes(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers", reason="needs the text extra")
    from simplax.data.text.subwords import train_bpe

    text = "the cat sat on the mat, the dog sat on the log; ünïcödé!\nand so on " * 30
    first, second = (train_bpe([text], 280) for _ in range(2))
    assert first.to_json() == second.to_json()
    assert (first.vocab_size, first.eos) == (280, 0)
    assert first.decode(first.encode(text)) == text
    (tmp_path / "long.txt").write_text(text, encoding="utf-8")
    first.save(tmp_path)
    assert load_tokenizer(tmp_path).encode(text) == first.encode(text)
    for module in (documents_module, files_module):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "PIECE", 40)
            pieces = [
                str(piece.content) for piece in open_source(str(tmp_path / "long.txt"), Reading()).read()
            ]
            joined = [number for ids in first.encode_batch(pieces) for number in ids.tolist()]
            assert joined == first.encode(text)
    with pytest.raises(UserError, match="at least 257"):
        train_bpe([text], 100)
