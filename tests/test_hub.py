"""Models: loaded, exported and used; what is missing, damaged or foreign is refused in one sentence."""

from __future__ import annotations

import dataclasses
import json
import math
import pickle
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import simplax
from simplax import config, recipes, samplers
from simplax.errors import UserError
from simplax.io.manifest import environment
from simplax.methods import HasLikelihood, Method
from simplax.methods.likelihood import nll
from simplax.pretrained import model as hub
from simplax.pretrained.model import Model, from_pretrained
from simplax.recipes.launch import build, launch
from simplax.samplers.adjust import adjusted
from simplax.samplers.kappa import Plateau
from simplax.times import Grid
from simplax.typing import Batch, Loss, StepContext


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a few steps, with averaged weights that differ from the last ones."""
    directory = tmp_path_factory.mktemp("runs") / "toy"
    launch(recipes.smoke(recipes.get("toy-simplax")), directory, quiet=True)
    return directory


@pytest.fixture
def exported(run: Path, tmp_path: Path) -> Path:
    return from_pretrained(run).save_pretrained(tmp_path / "model")


@pytest.mark.parametrize("name", sorted(recipes.RECIPES))
def test_every_recipe_trains_five_steps_and_samples(name: str, tmp_path: Path) -> None:
    small = recipes.smoke(recipes.get(name))
    result = launch(small, tmp_path / "run", quiet=True)
    assert result.step == 5
    assert math.isfinite(result.loss)
    model = from_pretrained(tmp_path / "run")
    assert model.config == small
    held = small.task.validation().batch(torch.arange(3))
    drawn = model.sample(3, seeds=0, tokens=held.tokens, given=held.given)
    assert torch.equal(drawn.tokens[held.given], held.tokens[held.given])
    assert drawn.tokens.min() >= 0 and drawn.tokens.max() < small.task.vocab_size
    assert len(small.task.text(drawn.tokens)) == 3


@pytest.mark.parametrize("kind", sorted(simplax.methods.METHODS))
def test_every_method_trains_stores_and_samples_on_the_toy(kind: str, tmp_path: Path) -> None:
    small = config.resolve(recipes.smoke(recipes.get("toy-udlm")), None, [("method", kind)])
    launch(small, tmp_path / "run", quiet=True)
    model = from_pretrained(tmp_path / "run")
    assert model.config == small
    tokens = model.sample(3, seeds=0).tokens
    assert tokens.shape == (3, small.task.length)
    assert tokens.min() >= 0 and tokens.max() < small.task.vocab_size
    if isinstance(model.method, HasLikelihood):
        assert math.isfinite(model.nll(tokens, draws=2).nats_per_token)


def test_both_kinds_of_weights_are_those_of_the_last_checkpoint(run: Path) -> None:
    folder = run / "checkpoints" / (run / "latest").read_text().strip()
    states = {}
    for kind, file in (("ema", "ema.safetensors"), ("raw", "weights.safetensors")):
        states[kind] = from_pretrained(run, weights=kind).denoiser.state_dict()  # type: ignore[arg-type]
        for name, tensor in load_file(folder / file).items():
            assert torch.equal(states[kind][name], tensor)
    assert any(not torch.equal(states["ema"][name], states["raw"][name]) for name in states["ema"])


def test_an_export_is_the_same_model(run: Path, exported: Path) -> None:
    before, after = from_pretrained(run), simplax.from_pretrained(exported)
    assert after.config == before.config
    assert torch.equal(before.sample(4, seeds=1).tokens, after.sample(4, seeds=1).tokens)
    assert sorted(path.name for path in exported.iterdir()) == [
        "config.json",
        "manifest.json",
        "weights.safetensors",
    ]
    assert json.loads((exported / "manifest.json").read_text())["model"]["sha256"] == after.origin["sha256"]


def test_samples_belong_to_their_seeds_not_to_their_batch(run: Path) -> None:
    model = from_pretrained(run)
    whole = model.sample(7, seeds=range(10, 17), trajectory=True)
    parts = model.sample(7, seeds=10, batch_size=3, trajectory=True)
    assert torch.equal(whole.tokens, parts.tokens)
    assert whole.trajectory is not None and parts.trajectory is not None
    assert torch.equal(whole.trajectory, parts.trajectory)
    assert torch.equal(whole.seeds, parts.seeds)
    assert whole.nfe == parts.nfe == model.config.sampling.num_steps
    assert (whole.calls, parts.calls) == (4, 12)


def test_defaults_come_from_the_configuration_and_arguments_win(run: Path) -> None:
    model = from_pretrained(run)
    sampler = model.method.sampler(eta=5.0)
    sampling = dataclasses.replace(model.config.sampling, sampler=sampler, num_steps=3)
    changed = dataclasses.replace(model, config=dataclasses.replace(model.config, sampling=sampling))
    assert changed.sampler() == sampler
    assert changed.sampler(eta=2.0) == model.method.sampler(eta=2.0)
    assert changed.sample(1, seeds=0).nfe == 3
    assert changed.sample(1, seeds=0, num_steps=2).nfe == 2


def test_bad_requests_for_samples_are_refused(run: Path) -> None:
    model = from_pretrained(run)
    with pytest.raises(UserError, match="at least 1"):
        model.sample(0)
    with pytest.raises(UserError, match="one seed per sample"):
        model.sample(3, seeds=[1, 2])
    with pytest.raises(UserError, match="negative"):
        model.sample(1, eta=-1.0)
    udlm = dataclasses.replace(model, config=config.resolve(model.config, None, [("method", "udlm")]))
    with pytest.raises(UserError, match="no concentration"):
        udlm.sample(1, eta=1.0)


class Uniform(nn.Module):
    """Knows nothing: every category is equally likely."""

    vocab_size = 5

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, z: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return self.weight * torch.zeros(*z.shape, 5)


@dataclasses.dataclass(frozen=True)
class Known(HasLikelihood):
    """Nats that are 1 + index mod 2 for each token, exactly."""

    exact_likelihood = True

    def nll(self, denoiser: nn.Module, batch: Batch, context: StepContext, *, carry: bool = True) -> Loss:
        value = 1.0 + (batch.tokens[:, :1] % 2).double().expand(batch.tokens.shape)
        return Loss(torch.where(batch.scored, value, 0.0), batch.scored)

    def boundary_terms(
        self, denoiser: nn.Module, batch: Batch, context: StepContext, *, carry: bool = True
    ) -> Loss:
        return Loss(torch.zeros(batch.tokens.shape), batch.scored)


def test_exact_likelihood_is_the_mean_per_scored_token() -> None:
    tokens = torch.arange(8)[:, None].expand(8, 3)
    given = torch.zeros(8, 3, dtype=torch.bool)
    given[1::2, 1:] = True  # odd sequences: one scored token of 2 nats, even ones: three of 1
    value = nll(Known(), Uniform(), tokens, given=given, draws=5, batch_size=3)  # type: ignore[arg-type]
    assert value.nats_per_token == pytest.approx((4 * 3 * 1 + 4 * 1 * 2) / 16)
    assert (value.exact, value.draws, value.monte_carlo_error, value.scored_tokens) == (True, 1, 0.0, 16)
    assert value.standard_error > 0
    assert value.perplexity == pytest.approx(math.exp(value.nats_per_token))


def test_the_bound_of_a_network_that_knows_nothing_is_log_k() -> None:
    """With uniform predictions the reverse process is the uniform one, whose samples cost log K nats each."""
    model = recipes.get("toy-udlm")
    tokens = model.task.validation().batch(torch.arange(2000)).tokens
    value = nll(model.method, Uniform(), tokens, draws=64, seed=3)
    assert abs(value.nats_per_token - math.log(5)) < 6 * value.monte_carlo_error
    assert value.monte_carlo_error < 0.02
    assert 0 < value.boundary_terms < 0.02
    assert not value.exact


def test_likelihood_depends_on_neither_batch_size_nor_order_of_calls(run: Path) -> None:
    model = from_pretrained(run)
    tokens = model.config.task.validation().batch(torch.arange(10)).tokens
    whole, parts = model.nll(tokens, draws=2), model.nll(tokens, draws=2, batch_size=3)
    torch.testing.assert_close(whole.per_sequence, parts.per_sequence)
    assert model.nll(tokens, draws=2, seed=1).nats_per_token != whole.nats_per_token
    assert model.nll(tokens, draws=2).nats_per_token > model.config.task.entropy()  # type: ignore[operator]


def test_methods_without_likelihood_say_so() -> None:
    class Silent:
        pass

    with pytest.raises(UserError, match="Silent has no likelihood"):
        nll(Silent(), Uniform(), torch.zeros(2, 3).long())  # type: ignore[arg-type]


def test_initial_weights_belong_to_the_seed_and_leave_the_generator_alone() -> None:
    small = recipes.smoke(recipes.get("toy-udlm"))
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    first, second = build(small), build(small)
    assert torch.equal(torch.rand(1), expected)
    assert all(torch.equal(a, b) for a, b in zip(first.state_dict().values(), second.state_dict().values()))
    other = build(dataclasses.replace(small, run=dataclasses.replace(small.run, seed=2)))
    assert any(
        not torch.equal(a, b) for a, b in zip(first.state_dict().values(), other.state_dict().values())
    )


def refused(path: Path | str, **options: str) -> str:
    with pytest.raises(UserError) as caught:
        from_pretrained(path, **options)  # type: ignore[arg-type]
    return str(caught.value)


def test_what_is_no_model_is_refused(tmp_path: Path, run: Path) -> None:
    assert "there is no model 'nowhere'" in refused("nowhere")
    assert "is a file" in refused(run / "config.json")
    assert "has no config.json" in refused(tmp_path)
    (tmp_path / "checkpoints").mkdir()
    assert "no checkpoint yet" in refused(tmp_path)
    assert "ema or raw" in refused(run, weights="best")
    assert "cannot be used" in refused(run, device="abacus")


def test_damaged_or_foreign_weights_are_refused(exported: Path) -> None:
    weights = exported / "weights.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    assert "not a readable safetensors file" in refused(exported)
    weights.write_bytes(pickle.dumps({"a": 1}))
    assert "not a readable safetensors file" in refused(exported)
    save_file({"a": torch.zeros(1)}, weights)
    assert "does not fit its config.json" in refused(exported)
    weights.unlink()
    assert "holds no weights" in refused(exported)


def test_weights_of_another_vocabulary_are_refused(exported: Path) -> None:
    data = json.loads((exported / "config.json").read_text())
    data["task"]["categories"] = 6
    (exported / "config.json").write_text(json.dumps(data))
    assert "has shape" in refused(exported)
    data["surprise"] = 1
    (exported / "config.json").write_text(json.dumps(data))
    assert "surprise is not a setting" in refused(exported)


def test_a_damaged_checkpoint_of_a_run_is_refused(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "run"
    shutil.copytree(run, copy, symlinks=True)
    file = copy / "checkpoints" / (copy / "latest").read_text().strip() / "ema.safetensors"
    file.write_bytes(file.read_bytes()[:-8])
    assert "truncated" in refused(copy)


def test_the_recipe_samples_as_the_bundled_model_does() -> None:
    shipped, recipe = from_pretrained("sudoku", device="cpu"), recipes.get("sudoku-carry-simplax")
    assert (recipe.sampling, recipe.unconditional) == (shipped.config.sampling, shipped.config.unconditional)
    assert recipe.architecture == shipped.config.architecture


def test_bundled_models_are_found_by_name(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "bundled", lambda: {"sudoku": exported})
    assert isinstance(from_pretrained("sudoku"), Model)
    assert "did you mean sudoku?" in refused("sudoko")


def test_a_directory_does_not_take_the_place_of_a_bundled_model(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    bundled = hub.bundled()["sudoku"]
    (tmp_path / "sudoku").mkdir()
    assert hub.find("sudoku") == bundled and not caplog.messages  # any directory
    shutil.copytree(exported, tmp_path / "sudoku", dirs_exist_ok=True)
    for _ in range(2):
        assert hub.find("sudoku") == bundled
    (line,) = caplog.messages  # a model: said once
    assert "comes with simplax" in line and "./sudoku" in line
    for path in ("./sudoku", "sudoku/", str(tmp_path / "sudoku"), Path("sudoku")):
        assert hub.find(path).resolve() == tmp_path / "sudoku"
        assert not hub.is_bundled(path)
    assert from_pretrained(Path("sudoku")).config.name == "toy-simplax-smoke"
    assert len(caplog.messages) == 1


def test_methods_are_methods() -> None:
    for kind in simplax.methods.METHODS.values():
        assert issubclass(kind, Method)


def test_samplers_with_times_of_their_own_refuse_a_power() -> None:
    for sampler in (samplers.Psi(times=Plateau()), samplers.FirstHitting()):
        with pytest.raises(UserError, match="times of its own"):
            adjusted(sampler, time_power=2.0)
    bent = adjusted(samplers.Ancestral(), time_power=2.0)
    assert bent == samplers.Ancestral(times=Grid(power=2.0))
    with pytest.raises(UserError, match="no concentration"):
        adjusted(bent, eta=1.0)


@pytest.mark.parametrize(
    ("called", "expected"),
    [
        ("/somewhere/bin/simplax", "simplax a 'b c'"),
        ("/somewhere/simplax/__main__.py", "simplax a 'b c'"),
        ("benchmarks/bench_train.py", "benchmarks/bench_train.py a 'b c'"),
    ],
)
def test_manifests_say_the_command_and_not_where_it_is_installed(
    called: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", [called, "a", "b c"])
    assert environment()["command"] == expected
