"""Models of sequences whose lengths are known: drawn as in the data, attended to in training and in sampling."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import failure_budget
from simplax import samplers
from simplax.cli import main
from simplax.data.text import Lengths, Options, prepare
from simplax.errors import UserError
from simplax.methods import METHODS
from simplax.nn import Architecture
from simplax.pretrained import Model
from simplax.pretrained.prompts import infilling, prompts
from simplax.random import Keys
from simplax.recipes.launch import build
from simplax.recipes.own import own_data
from simplax.typing import StepContext

WORDS = ["ab", "abc", "abcd", "ba", "cab", "dabcab"]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("lengths")
    (place / "words.csv").write_text("word\n" + "\n".join(WORDS * 40) + "\n")
    source = str(place / "words.csv")
    prepare(Options(source, tokenizer="characters", layout="lengths", columns=("word",)), place / "data")
    return place / "data"


def untrained(name: str, data: Path) -> Model:
    """A small network of the method whose weights are random everywhere."""
    config = own_data(name, data, "nano")
    small = Architecture(width=16, depth=2, heads=2, cond_dim=16, position_embedding=True)
    config = replace(config, architecture=small, sampling=replace(config.sampling, num_steps=3))
    torch.manual_seed(0)
    denoiser = build(config)
    with torch.no_grad():
        for parameter in denoiser.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape))
    return Model(denoiser.eval(), config)


@pytest.fixture(scope="module")
def model(data: Path) -> Model:
    return untrained("mdlm", data)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_padding_plays_no_part_in_a_loss(name: str, data: Path) -> None:
    model = untrained(name, data)
    batch = model.config.task.train().batch(torch.arange(6))
    assert batch.attend is not None and not bool(batch.attend.all())
    context = StepContext(Keys.from_seeds(range(6)), torch.linspace(0.2, 0.9, 6), training=False)
    loss = model.method.loss(model.denoiser, batch, context)
    changed = replace(batch, tokens=torch.where(batch.attend, batch.tokens, (batch.tokens + 1) % 4))
    other = model.method.loss(model.denoiser, changed, context)
    assert torch.equal(loss.scored, batch.attend) and bool((loss.per_token[~batch.attend] == 0).all())
    assert bool((loss.per_token[batch.attend] != 0).any())
    torch.testing.assert_close(loss.per_token, other.per_token)


@pytest.mark.parametrize("name", sorted(METHODS.keys() - {"ar"}))  # which reads nothing that lies behind
def test_what_lies_behind_a_sequence_plays_no_part_in_its_sample(name: str, data: Path) -> None:
    """Padding clamped to one symbol or another leaves the sequence as it is; the mask is what makes it so."""
    model = untrained(name, data)
    length = model.config.task.length
    attend = torch.arange(length).expand(8, -1) < torch.tensor([2, 3, 3, 4] * 2).unsqueeze(-1)
    own = model.sampler()

    def predicted(symbol: int, mask: torch.Tensor | None) -> list[torch.Tensor]:
        """The sequences, and what the network says on the way of their first two tokens, which all of them have."""
        said: list[torch.Tensor] = []

        def hear(module: Any, inputs: Any, output: Any) -> None:
            said.append((output[0] if isinstance(output, tuple) else output)[:, :2])

        hook = model.denoiser.register_forward_hook(hear)
        found = samplers.sample(
            model.denoiser,
            (8, length),
            sampler=own,
            process=model.method.process(model.denoiser),
            num_steps=4,
            vocab_size=model.config.task.vocab_size,
            seeds=range(8),
            tokens=torch.full((8, length), symbol),
            given=~attend,
            attend=mask,
        )
        hook.remove()
        return [*said, found.tokens[attend]]

    torch.testing.assert_close(predicted(0, attend), predicted(3, attend))
    assert (predicted(0, None)[0] - predicted(3, None)[0]).abs().max() > 1e-3


@pytest.mark.parametrize("name", sorted(METHODS))
def test_a_text_with_gaps_says_how_long_the_sequence_is(
    name: str, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = untrained(name, data)
    texts = ["da<gap:3>", "a<gap:1>", "<gap:4>"] if name == "ar" else ["d<gap:3>ab", "<gap:1>b", "<gap:4>"]
    sizes = [5, 2, 4] if name == "ar" else [6, 2, 4]
    asked = infilling(model, [text for text in texts for _ in range(8)])
    drawn = model.sample(
        24, seeds=0, tokens=asked.tokens, given=asked.given, lengths=asked.lengths, num_steps=_steps(model)
    )
    assert drawn.lengths is not None and drawn.lengths.tolist() == [size for size in sizes for _ in range(8)]
    words = model.decode(drawn.tokens, drawn.lengths)
    assert [len(word) for word in words] == drawn.lengths.tolist()
    assert all(word.startswith("da" if name == "ar" else "d") for word in words[:8])
    for text, size in zip(texts, sizes):  # the same by the command
        shown = _infilled(model, text, monkeypatch)
        alone = infilling(model, [text] * 8)
        expected = model.sample(
            8, seeds=0, tokens=alone.tokens, given=alone.given, lengths=size, num_steps=_steps(model)
        )
        assert shown == model.decode(expected.tokens, expected.lengths)


def _steps(model: Model) -> int | None:
    return None if model.sampler().steps_for(model.config.task.length) else 3


def _infilled(model: Model, text: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What `simplax infill` fills in."""
    printed: list[Any] = []
    monkeypatch.setattr("simplax.pretrained.model.from_pretrained", lambda *_, **__: model)
    monkeypatch.setattr("simplax.cli.verbs.infill.emit", lambda *said: printed.append(said[1]))
    steps = _steps(model)
    main(["infill", "it", text, "--num", "8", "--json", *(["--steps", str(steps)] if steps else [])])
    return [row["text"] for row in printed[0]["samples"]]


def test_a_sequence_is_never_shorter_than_what_is_given(model: Model) -> None:
    """Lengths after a prompt are those of the data that leave room for it, in the data's proportions."""
    known = model.config.task.known_lengths()
    assert known is not None
    clamped = prompts(model, ["dab"] * 3000)
    drawn = model.sample(3000, seeds=0, num_steps=1, tokens=clamped.tokens, given=clamped.given)
    assert drawn.lengths is not None and int(drawn.lengths.min()) == 3
    law = torch.tensor(known.counts, dtype=torch.float64)
    law[:3] = 0
    counts = torch.bincount(drawn.lengths, minlength=len(law)).double()
    failure_budget.accept([failure_budget.chi_square(counts[law > 0], law[law > 0] / law.sum())])
    assert counts[law == 0].sum() == 0
    assert all(word.startswith("dab") for word in model.decode(drawn.tokens, drawn.lengths))
    with pytest.raises(UserError, match="length of 2 is too short for the 3 positions"):
        model.sample(3000, lengths=2, tokens=clamped.tokens, given=clamped.given)


def test_a_server_tells_the_model_the_same_lengths(model: Model) -> None:
    pytest.importorskip("greenlet")
    from simplax.serve import text
    from simplax.serve.schemas import TextRequest
    from simplax.serve.served import Served

    class Job:
        logits = None

        def emit(self, name: str, data: dict[str, Any]) -> None:
            cells = [place for row in data["changed"] for place, _ in row]
            assert max(cells, default=0) < planned.start["length"]

    for asked, size in (("d<gap:3>ab", 6), ("<gap:1>b", 2)):
        planned = text.plan(Served("words", "text", model), TextRequest(text=asked, num=8, seed=5, steps=3))
        clamped = infilling(model, [asked] * 8)
        drawn = model.sample(
            8, seeds=5, tokens=clamped.tokens, given=clamped.given, lengths=size, num_steps=3
        )
        job: Any = Job()
        assert planned.work(job, model)["texts"] == model.decode(drawn.tokens, drawn.lengths)
    planned = text.plan(Served("words", "text", model), TextRequest(text="dab", num=8, seed=5, steps=3))
    clamped = prompts(model, ["dab"] * 8)
    drawn = model.sample(8, seeds=5, tokens=clamped.tokens, given=clamped.given, num_steps=3)
    assert planned.work(job, model)["texts"] == model.decode(drawn.tokens, drawn.lengths)


def test_a_length_depends_on_its_seed_and_its_own_prompt() -> None:
    known, seeds = Lengths((0, 1, 2, 0, 3)), torch.arange(50)
    least = torch.arange(50) % 8
    drawn = known.draw(seeds, least)
    assert torch.equal(known.draw(seeds, torch.zeros(50, dtype=torch.long)), known.draw(seeds))
    assert torch.equal(known.draw(seeds[7:9], least[7:9]), drawn[7:9])
    assert bool((drawn >= least).all())
    assert torch.equal(drawn[least > 4], least[least > 4])  # the data have none that long


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
