"""Padding that a model writes itself counts in no number that is per token: likelihood, entropy, repetition."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from simplax.cli import main
from simplax.data.text import Options, lengths_before_end, prepare
from simplax.evaluate import unigram_entropies
from simplax.evaluate.text.evidence import gather
from simplax.evaluate.text.repetition import bigram_entropies, rep_n
from simplax.methods.likelihood import nll
from simplax.nn import Architecture
from simplax.pretrained import Model
from simplax.recipes.launch import build
from simplax.recipes.own import own_data
from simplax.tasks import MoleculesTask
from text_study import Counts

WORDS = ["ab", "abc", "abcdabcd", "ba", "cab"]
END = 9


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """An untrained AR model, whose likelihood is exact, of words with a learned end."""
    place = tmp_path_factory.mktemp("words")
    (place / "words.csv").write_text("word\n" + "\n".join(WORDS * 40) + "\n")
    prepare(Options(str(place / "words.csv"), "characters", columns=("word",)), place / "data")
    config = own_data("ar", place / "data")
    config = replace(config, architecture=Architecture(width=16, depth=1, heads=2))
    torch.manual_seed(0)
    return Model(build(config).eval(), config)


def test_tokens_are_counted_through_the_end(model: Model) -> None:
    task = model.config.task
    tokens = task.held_out_batch(2).tokens
    sizes = [len(text) + 1 for text in task.text(tokens)]
    assert task.end is not None and task.length > max(min(sizes), 3)
    value = model.nll(tokens)
    assert value.scored_tokens == sum(sizes) < tokens.numel()
    whole = nll(model.method, model.denoiser, tokens)  # every position is a token
    assert whole.scored_tokens == tokens.numel()
    torch.testing.assert_close(value.per_sequence, whole.per_sequence)  # padding is learned, and so it costs
    assert value.nats_per_sequence == pytest.approx(float(whole.per_sequence.mean()))
    assert value.nats_per_token == pytest.approx(float(whole.per_sequence.sum()) / sum(sizes))
    assert value.perplexity == pytest.approx(math.exp(value.nats_per_token))


def test_the_command_says_nats_per_sequence(
    model: Model, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("simplax.pretrained.model.from_pretrained", lambda *_, **__: model)
    assert main(["evaluate", "it", "likelihood", "--json", "--out", str(tmp_path / "told.json")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["scored_tokens"] == told["characters"] + told["sequences"]  # an end for each
    total = told["nats_per_sequence"] * told["sequences"]
    assert total == pytest.approx(told["nats_per_token"] * told["scored_tokens"])
    assert total == pytest.approx(told["nats_per_character"] * told["characters"])
    assert main(["evaluate", "it", "likelihood", "--out", str(tmp_path / "shown.json")]) == 0
    assert "nats per sequence" in capsys.readouterr().out.replace("_", " ")


def test_molecules_count_as_many_tokens_as_they_have() -> None:
    task = MoleculesTask(examples=True)
    rows = torch.from_numpy(task.smiles.encode(["CCO", "c1ccccc1"])).long()
    counted: Any = task.counted(rows)
    assert counted.sum(-1).tolist() == [4, 9]


rows_with_an_end = st.lists(st.integers(0, 3), min_size=0, max_size=9)


@settings(max_examples=150, deadline=None)
@given(st.lists(rows_with_an_end, min_size=1, max_size=4), st.integers(1, 3))
def test_repetition_of_a_padded_row_is_that_of_the_row(rows: list[list[int]], n: int) -> None:
    ids = torch.tensor([row + [END] * (10 - len(row)) for row in rows])
    attend = torch.arange(10) < (lengths_before_end(ids, END) + 1).unsqueeze(-1)
    found, pairs = rep_n(ids, n, attend), bigram_entropies(ids, attend)
    for row, value, pair in zip(rows, found.tolist(), pairs.tolist()):
        alone = torch.tensor([[*row, END]])
        assert value == pytest.approx(float(rep_n(alone, n)) if len(row) + 1 >= n else 0.0)
        assert pair == pytest.approx(float(bigram_entropies(alone)) if row else 0.0, abs=1e-12)


def test_columns_of_text_leave_padding_out() -> None:
    rows = [[0, 1, 0, 2, 3, 0], [1, 2], [0, 1, 2, 3, 1, 1, 1, 2, 0]]
    ids = torch.tensor([row + [END] * (10 - len(row)) for row in rows])
    texts = ["".join("abcd"[one] for one in row) for row in rows]
    found = gather(ids, texts, Counts(), end=END)
    for row, entropy, repeated in zip(rows, found.entropy.tolist(), found.rep_1.tolist()):
        alone = torch.tensor([[*row, END]])
        assert entropy == pytest.approx(float(unigram_entropies(alone)))
        assert repeated == pytest.approx(float(rep_n(alone, 1)))
    padded = gather(ids, texts, Counts())
    assert float(padded.rep_1[1]) > float(found.rep_1[1])
