"""Sequences with a learned end: an exact network writes lengths as often as the data have them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import failure_budget
from simplax.data.text import Options, has_interior_end, prepare
from simplax.pretrained import Model
from simplax.recipes.own import own_data
from simplax.samplers import Ancestral, FirstHitting

WORDS = {"ab": 3, "abc": 2, "abca": 4, "b": 1, "cabca": 2, "c": 2}
END = 3


class Exact(nn.Module):
    """The law of each token of a few known rows given all other noisy ones, under uniform or masked noise."""

    def __init__(self, rows: Tensor, vocab_size: int, masked: bool) -> None:
        super().__init__()
        self.rows, counts = rows.unique(dim=0, return_counts=True)
        self.often = counts.double().log()[:, None]
        self.vocab_size, self.masked = vocab_size, masked
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, z: Tensor, t: Tensor) -> Tensor:
        same = z[:, None, :] == self.rows  # (batch, rows, length)
        if self.masked:
            chance = torch.where(z[:, None, :] == self.vocab_size, 1.0, same.double())
        else:
            alpha = 1 - 0.999 * t.double()[:, None, None]  # of the log-linear schedule
            chance = alpha * same + (1 - alpha) / self.vocab_size
        chance = chance.clamp(min=1e-30).log()
        others = chance.sum(-1, keepdim=True) - chance + self.often  # all positions but one
        posterior = torch.softmax(others, dim=1)
        values = nn.functional.one_hot(self.rows, self.vocab_size).double()
        return torch.einsum("brl,rlk->blk", posterior, values).clamp(min=1e-30).log()


@pytest.mark.parametrize("name", ["mdlm", "udlm"])
def test_lengths_of_samples_follow_the_data(name: str, tmp_path: Path) -> None:
    """First-hitting times lift one mask after the other, which is exact; 150 uniform steps are nearly so."""
    listed = [word for word, count in WORDS.items() for _ in range(count)]
    (tmp_path / "words.csv").write_text("word\n" + "\n".join(listed * 10) + "\n")
    options = Options(str(tmp_path / "words.csv"), "characters", split="0", columns=("word",))
    prepare(options, tmp_path / "data")
    config = own_data(name, tmp_path / "data")
    rows = config.task.train().batch(torch.arange(10 * len(listed))).tokens
    model = Model(Exact(rows, config.task.vocab_size, name == "mdlm"), config)
    assert config.task.end == END
    number = 2000
    sampler, steps = (FirstHitting(), None) if name == "mdlm" else (Ancestral(), 150)
    drawn = model.sample(number, seeds=0, sampler=sampler, num_steps=steps, batch_size=number)
    texts = model.decode(drawn.tokens)
    unheard = sum(text not in WORDS for text in texts) + int(has_interior_end(drawn.tokens, END).sum())
    assert unheard <= (0 if name == "mdlm" else number // 200)  # steps of finite size mix words
    counts = torch.bincount(torch.tensor([len(text) for text in texts])).double()[1:]
    law = torch.zeros(len(counts), dtype=torch.float64)
    for word, count in WORDS.items():
        law[len(word) - 1] += count / sum(WORDS.values())
    failure_budget.accept([failure_budget.chi_square(counts, law)])
    even = torch.full_like(law, 1 / len(law))  # the test has the power to see another law
    failure_budget.reject(failure_budget.chi_square(counts, even))
