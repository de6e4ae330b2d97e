"""Models of sequences whose lengths are known: drawn as in the data, attended to in training and in sampling."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import failure_budget
from simplax.data.text import Options, prepare
from simplax.errors import UserError
from simplax.pretrained import Model
from simplax.recipes.launch import build
from simplax.recipes.own import own_data

WORDS = ["ab", "abc", "abcd", "ba", "cab", "dabcab"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    place = tmp_path_factory.mktemp("lengths")
    (place / "words.csv").write_text("word\n" + "\n".join(WORDS * 40) + "\n")
    source = str(place / "words.csv")
    prepare(Options(source, tokenizer="characters", layout="lengths", columns=("word",)), place / "data")
    config = own_data("mdlm", place / "data", "nano")
    denoiser = build(config)
    torch.nn.init.normal_(denoiser.head.weight)  # type: ignore[union-attr,arg-type]
    return Model(denoiser.eval(), config)


def test_lengths_of_samples_follow_the_data(model: Model) -> None:
    drawn = model.sample(3000, seeds=0, num_steps=2)
    known = model.config.task.known_lengths()
    assert known is not None and drawn.lengths is not None
    counts = torch.bincount(drawn.lengths, minlength=len(known.counts)).double()
    law = torch.tensor(known.counts, dtype=torch.float64)
    failure_budget.accept([failure_budget.chi_square(counts, law / law.sum())])
    texts = model.decode(drawn.tokens, drawn.lengths)
    assert [len(text) for text in texts] == drawn.lengths.tolist()


def test_padding_plays_no_part_in_a_sample(model: Model) -> None:
    """A sample of a short sequence does not depend on what lies behind it, nor on its companions."""
    drawn = model.sample(6, seeds=range(6), num_steps=4, lengths=[2, 3, 4, 2, 3, 6])
    alone = model.sample(1, seeds=[1], num_steps=4, lengths=3)
    assert torch.equal(drawn.tokens[1, :3], alone.tokens[0, :3])
    denoiser, task = model.denoiser, model.config.task
    z = torch.zeros(2, task.length, dtype=torch.long)
    z[1, 3:] = 1
    attend = torch.arange(task.length).expand(2, -1) < 3
    logits = denoiser(z, torch.full((2,), 0.5), attend=attend)
    torch.testing.assert_close(logits[0, :3], logits[1, :3])


def test_lengths_that_make_no_sense_are_refused(model: Model) -> None:
    with pytest.raises(UserError, match="lengths must lie between"):
        model.sample(1, lengths=model.config.task.length + 1)
    with pytest.raises(UserError, match="one per sample"):
        model.sample(3, lengths=[1, 2])
    free = replace(model, config=replace(model.config, task=replace(model.config.task, layout="packed")))
    with pytest.raises(UserError, match="it learned where sequences end"):
        free.sample(1, lengths=2)
