"""Labels: what describes whole sequences reaches the network, and what the network knows comes back when asked."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from failure_budget import accept, chi_square
from simplax.cli import main
from simplax.data.text import Options, prepare
from simplax.data.text.labels import Label, chosen
from simplax.errors import UserError
from simplax.methods import METHODS, Method
from simplax.nn import Architecture, Chain
from simplax.nn.labels import drop_labels
from simplax.pretrained import Model, from_pretrained
from simplax.processes.prediction import GuidedPrediction
from simplax.random import Keys
from simplax.recipes.launch import launch
from simplax.recipes.own import own_data
from simplax.samplers import LeftToRight
from simplax.train.resume import put
from simplax.train.step import Objective
from simplax.typing import Batch, StepContext

K, LENGTH = 5, 6
PLAIN = Architecture(width=16, depth=2, heads=2, cond_dim=16)
LABELLED = replace(PLAIN, labels=(3, 0))  # a class and a number


def built(method: Method, architecture: Architecture, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return method.build(K, LENGTH, architecture)


def stirred(denoiser: Any) -> Any:
    """Random weights everywhere, so that nothing is hidden behind a zero."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in denoiser.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return denoiser.eval()


def batch_of(labels: Tensor | None) -> Batch:
    return Batch.of(torch.arange(4 * LENGTH).view(4, LENGTH) % K, labels=labels)


def value(method: Method, denoiser: Any, labels: Tensor | None, training: bool = False) -> Tensor:
    context = StepContext(Keys.from_seeds(range(4)), torch.linspace(0.5, 0.9, 4), training=training)
    return method.loss(denoiser, batch_of(labels), context).per_token.detach()


SOME = torch.tensor([[0.0, -1.0], [1.0, 0.5], [2.0, 2.0], [1.0, 0.0]])
NONE = torch.full((4, 2), torch.nan)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_reads_labels(name: str) -> None:
    method = METHODS[name]()
    plain, labelled = built(method, PLAIN), built(method, LABELLED)
    own, more = set(plain.state_dict()), set(labelled.state_dict())
    assert own < more and all("label" in key for key in more - own)
    labelled.load_state_dict(stirred(plain).state_dict(), strict=False)
    labelled.eval()
    untrained = value(method, labelled, SOME)  # they change nothing
    torch.testing.assert_close(untrained, value(method, plain, None), rtol=1e-4, atol=1e-5)
    stirred(labelled)
    described, free = value(method, labelled, SOME), value(method, labelled, NONE)
    torch.testing.assert_close(free, value(method, labelled, None), rtol=1e-3, atol=1e-4)
    other = SOME.clone()
    other[0, 0], other[1, 1] = 2.0, -0.5
    changed = (value(method, labelled, other) != described).any(-1)
    assert changed.tolist() == [True, True, False, False]  # each sequence reads its own


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_weight_of_labels_is_trained(name: str) -> None:
    method = METHODS[name]()
    denoiser = stirred(built(method, LABELLED)).train()
    context = StepContext(Keys.from_seeds(range(4)), torch.linspace(0.1, 0.9, 4))
    Objective(method, denoiser)(batch_of(SOME), context)[1].backward()
    missing = [key for key, p in denoiser.named_parameters() if "label" in key and p.grad is None]
    assert not missing


def test_labels_are_hidden_from_a_share_of_the_sequences() -> None:
    keys = Keys.from_seeds(range(20_000)).stream("labels")
    kept = ~drop_labels(torch.zeros(20_000, 2), 0.1, keys).isnan()
    both, first, second = kept.all(-1), kept[:, 0] & ~kept[:, 1], ~kept[:, 0] & kept[:, 1]
    counts = [int(part.sum()) for part in (both, first, second, ~kept.any(-1))]
    law = [0.9**3, 0.9**2 * 0.1, 0.9**2 * 0.1, 0.1 + 0.9 * 0.1**2]
    accept([chi_square(counts, law)])
    few = drop_labels(torch.zeros(3, 2), 0.1, Keys.from_seeds([7, 5, 19_999]).stream("labels"))
    assert torch.equal(~few.isnan(), kept[[7, 5, 19_999]])
    assert torch.equal(drop_labels(SOME, 0.0, Keys.from_seeds(range(4))), SOME)


def test_training_hides_labels_and_measuring_does_not() -> None:
    method = METHODS["udlm"]()
    denoiser = stirred(built(method, replace(LABELLED, label_dropout=0.999)))
    context = StepContext(Keys.from_seeds(range(4)), torch.linspace(0.5, 0.9, 4))
    hidden = Objective(method, denoiser)(batch_of(SOME), context)[0]
    assert torch.isclose(hidden, value(method, denoiser, None, training=True).double().sum())
    assert not torch.isclose(hidden, value(method, denoiser, SOME, training=True).double().sum())


def test_rows_and_devices_carry_labels() -> None:
    batch = batch_of(SOME)
    rows = torch.tensor([2, 0])
    part = batch.rows(rows).labels
    assert part is not None and torch.equal(part, SOME[rows])
    moved = batch.to("meta").labels
    assert moved is not None and moved.device.type == "meta"


@pytest.mark.parametrize("carry", ["none", "probabilities", "hidden"])
def test_a_guided_reading_is_two_readings_with_carries_of_their_own(carry: Any) -> None:
    method = METHODS["udlm"]()
    denoiser = stirred(built(method, replace(LABELLED, carry=carry)))
    z, t = torch.arange(4 * LENGTH).view(4, LENGTH) % K, torch.tensor(0.6)
    rows = torch.tensor([3, 1])
    chains = [
        Chain(denoiser, K, batch=4, labels=SOME, guided_by=2.0),
        Chain(denoiser, K, batch=4, labels=SOME),
        Chain(denoiser, K, batch=4, labels=NONE),
    ]
    with torch.no_grad():
        for where in (None, rows, None):
            state = z if where is None else z[where]
            both, labelled, free = (chain.read(state, t, rows=where) for chain in chains)
            assert isinstance(both, GuidedPrediction)
            torch.testing.assert_close(both.conditional.logits, labelled.logits, rtol=1e-3, atol=1e-3)
            torch.testing.assert_close(both.unconditional.logits, free.logits, rtol=1e-3, atol=1e-3)
    assert chains[0].sequences == 2 * chains[1].sequences and chains[0].calls == 3


def test_a_guided_autoregressive_model_uses_its_cache() -> None:
    method = METHODS["ar"]()
    denoiser = stirred(built(method, LABELLED))
    from simplax import sample

    tokens = [
        sample(
            denoiser, (4, LENGTH), sampler=LeftToRight(cache=cache), process=method.process(denoiser),
            vocab_size=K, labels=SOME, guidance=3.0, seeds=range(4),
        )
        for cache in (True, False)
    ]  # fmt: skip
    assert torch.equal(tokens[0].tokens, tokens[1].tokens)
    assert tokens[0].nfe == 2 * LENGTH


def test_labels_as_people_name_them() -> None:
    labels = (Label("kind", "class", ("a", "b")), Label("mass", "number", (), 10.0, 2.0))
    made = chosen(labels, {"mass": [8, 12.0, None], "kind": "b"}, 3)
    torch.testing.assert_close(made, torch.tensor([[1, -1], [1, 1], [1, torch.nan]]), equal_nan=True)
    assert chosen(labels, {"mass": torch.tensor([10.0])}, 1).tolist()[0][1] == 0.0
    with pytest.raises(UserError, match="did you mean kind"):
        chosen(labels, {"kid": "a"}, 1)
    with pytest.raises(UserError, match="one each"):
        chosen(labels, {"kind": ["a", "b"]}, 3)
    with pytest.raises(UserError, match="no class of kind"):
        chosen(labels, {"kind": "c"}, 1)


WORDS = {"up": "abcd", "down": "dcba"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("labels")
    rows = "".join(f"{WORDS[way]},{way},{number % 7}\n" for number in range(200) for way in WORDS)
    (place / "words.csv").write_text("word,way,size\n" + rows)
    options = Options(
        str(place / "words.csv"), "characters", columns=("word",), labels=("way", "size:number")
    )
    prepare(options, place / "data")
    return place / "data"


@pytest.fixture(scope="module")
def trained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained on labelled words, exported, and the data moved away."""
    place = tmp_path_factory.mktemp("trained")
    config = own_data("udlm", data)
    assert config.architecture.labels == (2, 0)
    optimizer = replace(config.run.optimizer, warmup=5)
    small = replace(
        config.run, steps=250, batch_size=32, validate_every=0, save_every=0, ema=0.9, optimizer=optimizer
    )
    launch(replace(config, run=small), place / "run", quiet=True)
    hidden = data.with_name("hidden")
    shutil.move(data, hidden)
    try:
        from_pretrained(place / "run").save_pretrained(place / "model")
        assert from_pretrained(place / "model").config.task.described_by()[0].classes == ("down", "up")
    finally:
        shutil.move(hidden, data)
    return place / "model"


@pytest.fixture(scope="module")
def model(trained: Path) -> Model:
    return from_pretrained(trained)


def test_a_label_decides_what_is_drawn(model: Model) -> None:
    for way, word in WORDS.items():
        drawn = model.sample(100, seeds=0, num_steps=16, labels={"way": way}, guidance=2.0)
        assert sum(text == word for text in model.decode(drawn.tokens)) > 80
    free = model.decode(model.sample(200, seeds=0, num_steps=16).tokens)
    assert 50 < sum(text == WORDS["up"] for text in free) < 150
    mixed = model.sample(4, seeds=0, num_steps=16, labels={"way": ["up", "down", "up", "down"]}, guidance=2.0)
    assert [text[0] for text in model.decode(mixed.tokens)] == ["a", "d", "a", "d"]
    tokens = torch.tensor([model.encode("dcba")] * 50).repeat(1, 2)[:, : model.config.task.length]
    given = torch.zeros_like(tokens, dtype=torch.bool)
    given[:, 0] = True
    told = model.sample(
        50, seeds=0, num_steps=16, tokens=tokens, given=given, labels={"way": "down"}, guidance=3.0
    )
    assert bool((told.tokens[:, 0] == tokens[:, 0]).all())
    with pytest.raises(ValueError, match="needs labels"):
        model.sample(1, guidance=2.0)
    plain = replace(model, config=replace(model.config, architecture=PLAIN))
    with pytest.raises(UserError, match="reads no labels"):
        plain.sample(1, labels={"way": "up"})


def test_a_likelihood_is_better_with_the_right_label(model: Model, data: Path) -> None:
    held = model.config.task.held_out_batch()
    right = model.nll(held.tokens, labels=held.labels, draws=8).nats_per_token
    free = model.nll(held.tokens, draws=8).nats_per_token
    ways = ["up" if text.startswith("a") else "down" for text in model.decode(held.tokens)]
    named = model.nll(held.tokens, labels={"way": ways}, draws=8).nats_per_token
    wrong = {"way": ["down" if way == "up" else "up" for way in ways]}
    assert max(right, named) + 0.05 < free < model.nll(held.tokens, labels=wrong, draws=8).nats_per_token


def test_the_command_line_takes_labels(
    trained: Path, model: Model, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["sample", str(trained), "--num", "3", "--steps", "16", "--label", "way=up", "--label", "size=2"]
    assert main([*asked, "--guidance", "2", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    drawn = model.sample(3, seeds=0, num_steps=16, labels={"way": "up", "size": 2}, guidance=2.0)
    assert [row["tokens"] for row in made["samples"]] == drawn.tokens.tolist()
    assert made["manifest"]["labels"] == {"way": "up", "size": "2"} and made["manifest"]["nfe"] == drawn.nfe
    assert main(["infill", str(trained), "a<gap:3>", "--label", "way=up", "--guidance", "2"]) == 0
    assert capsys.readouterr().out.strip() == "abcd"
    for wrong, message in (
        (["--label", "way"], "NAME=VALUE"),
        (["--label", "way=left"], "no class of way"),
        (["--label", "size=big"], "should be a number"),
        (["--label", "way=up", "--label", "way=down"], "given once"),
        (["--guidance", "2"], "needs labels"),
        (["--label", "way=up", "--guidance", "-2"], "must not be negative"),
    ):
        assert main(["sample", str(trained), *wrong]) == 2
        assert message in capsys.readouterr().err


def test_the_likelihood_command_uses_the_labels_of_the_data(
    trained: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked, values = ["evaluate", str(trained), "likelihood", "--draws", "4", "--json"], []
    for more in ([], ["--no-labels"]):
        assert main([*asked, *more]) == 0
        values.append(json.loads(capsys.readouterr().out))
    assert [value["labels"] for value in values] == [["way", "size"], None]
    assert values[0]["nats_per_token"] < values[1]["nats_per_token"]


def test_a_network_for_other_labels_is_refused(data: Path, tmp_path: Path) -> None:
    config = own_data("udlm", data)
    wrong = replace(config, architecture=replace(config.architecture, labels=(3,)))
    with pytest.raises(UserError, match=r"--architecture\.labels 2,0"):
        launch(wrong, tmp_path / "run", quiet=True)
    with pytest.raises(UserError, match="label_dropout"):
        replace(config.architecture, label_dropout=1.0)


@pytest.mark.parametrize("name", ["udlm", "langflow"])
def test_a_network_with_labels_starts_from_one_without(name: str) -> None:
    method = METHODS[name]()
    plain, labelled = stirred(built(method, PLAIN)), built(method, LABELLED, seed=9).eval()
    put(labelled.state_dict(), plain.state_dict(), labelled)
    torch.testing.assert_close(
        value(method, labelled, SOME), value(method, plain, None), rtol=1e-4, atol=1e-5
    )
    with pytest.raises(UserError, match="another architecture"):
        put(plain.state_dict(), labelled.state_dict(), plain)


@pytest.mark.slow
def test_two_processes_read_the_labels_of_one(data: Path, tmp_path: Path) -> None:
    train = [
        "-m",
        "simplax",
        "train",
        "simplax",
        "--data",
        str(data),
        "--run.steps",
        "4",
        "--run.batch-size",
        "8",
    ]
    train += ["--run.validate-every", "4", "--device", "cpu", "--architecture.carry", "hidden"]
    pair = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    for name, start in (("one", []), ("two", pair)):
        command = [sys.executable, *start, *train, "--out", str(tmp_path / name)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    runs = [from_pretrained(tmp_path / name) for name in ("one", "two")]
    states = [run.denoiser.state_dict() for run in runs]
    assert any("label" in key for key in states[0])
    for key, tensor in states[0].items():
        torch.testing.assert_close(tensor, states[1][key], rtol=2e-3, atol=2e-4)


def test_numbers_that_no_network_can_read_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    source = tmp_path / "rows.csv"
    source.write_text("text,mass\n" + "".join(f"C,{mass}\n" for mass in ("1e300", "-1e300", "3", "2")))
    with pytest.raises(UserError, match="'1e300', which is too large"):
        prepare(Options(str(source), "smiles", columns=("text",), labels=("mass:number",)), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(UserError, match="the label mass is 1e\\+90, too far from those of the training"):
        chosen([Label("mass", "number", (), 2.0, 0.5)], {"mass": 1e90}, 2)
