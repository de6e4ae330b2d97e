"""What a stored model remembers: which weights, from which run, and what may still be changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from simplax import recipes
from simplax.cli import main
from simplax.concentration import PerToken
from simplax.config.run import SamplingDefaults, Unconditional
from simplax.data.text.tokenizers import Characters
from simplax.errors import UserError
from simplax.evaluate.answers import answer, compiled
from simplax.methods import CANDI, MDLM, METHODS, UDLM, Duo
from simplax.methods import Simplax as SimplaxMethod
from simplax.pretrained import model as hub
from simplax.pretrained.model import Model, from_pretrained
from simplax.processes.masked import MaskedProcess
from simplax.recipes.launch import build, launch, repeats
from simplax.samplers import Ancestral, Psi, Simplax, sample
from simplax.samplers.adjust import adjusted
from simplax.train import checkpoint as checkpoints
from simplax.train import resume
from sudoku_models import Arbitrary, model

TOY = recipes.smoke(recipes.get("toy-simplax"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("runs") / "toy"
    launch(TOY, directory, quiet=True)
    return directory


def state(one: Model) -> list[torch.Tensor]:
    return list(one.denoiser.state_dict().values())


def test_an_export_holds_one_kind_of_weights_and_needs_no_word_to_load(run: Path, tmp_path: Path) -> None:
    for kind in ("raw", "ema"):
        whole = from_pretrained(run, weights=kind)  # type: ignore[arg-type]
        again = from_pretrained(whole.save_pretrained(tmp_path / kind))
        assert again.origin["weights"] == kind
        assert all(map(torch.equal, state(whole), state(again)))
    with pytest.raises(UserError, match="ema weights only"):
        from_pretrained(tmp_path / "ema", weights="raw")
    with pytest.raises(UserError, match="raw weights only"):
        from_pretrained(tmp_path / "raw", weights="ema")


def test_the_best_checkpoint_and_any_other_is_a_model(run: Path) -> None:
    best = from_pretrained(run / "best")
    assert best.config == from_pretrained(run).config and best.home == run.resolve()
    folder = run / "checkpoints" / (run / "best").resolve().name
    for kind, file in (("ema", "ema.safetensors"), ("raw", "weights.safetensors")):
        kept = load_file(folder / file)
        for one in (run / "best", folder):
            loaded = from_pretrained(one, weights=kind).denoiser.state_dict()  # type: ignore[arg-type]
            assert loaded.keys() == kept.keys()
            assert all(torch.equal(loaded[name], kept[name]) for name in kept)


def test_a_run_remembers_whose_weights_it_began_with(run: Path, tmp_path: Path) -> None:
    second = replace(TOY, run=replace(TOY.run, seed=9))
    launch(second, tmp_path / "second", init_from=run, quiet=True)
    launch(second, tmp_path / "second", init_from=run, quiet=True)  # taken up again
    began = from_pretrained(tmp_path / "second").origin["started_from"]
    assert began == {"path": str(run), "sha256": from_pretrained(run, weights="raw").origin["sha256"]}
    assert "started_from" not in from_pretrained(run).origin
    assert repeats(TOY, run) == repeats(TOY, run / "best") == "data and noise"
    assert repeats(second, run) == "data" and repeats(TOY, tmp_path) is None
    assert repeats(replace(TOY, task=replace(TOY.task, seed=3)), run) is None  # type: ignore[type-var]
    exported = from_pretrained(tmp_path / "second").save_pretrained(tmp_path / "model")
    again = from_pretrained(exported).save_pretrained(tmp_path / "again")
    assert from_pretrained(again).origin["started_from"] == began


@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_bytes(file.read_bytes()[:-1])])
def test_taking_up_a_run_tells_damage_of_its_source_from_another_source(
    run: Path, tmp_path: Path, damage: Callable[[Path], Any]
) -> None:
    second = replace(TOY, run=replace(TOY.run, seed=9))
    launch(second, tmp_path / "second", init_from=run, quiet=True)
    elsewhere = shutil.copytree(run, tmp_path / "elsewhere", symlinks=True)
    launch(second, tmp_path / "second", init_from=elsewhere, quiet=True)  # the same weights at another place
    damage(checkpoints.newest(elsewhere) / "weights.safetensors")
    with pytest.raises(UserError) as told:
        launch(second, tmp_path / "second", init_from=elsewhere, quiet=True)
    assert "elsewhere" in str(told.value) and "holds a run that began" not in str(told.value)


def test_a_start_from_a_model_of_the_package_is_remembered_by_name(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hub.bundled()["sudoku"].parent == resume._PACKAGED
    exported = from_pretrained(run).save_pretrained(tmp_path / "small")
    monkeypatch.setattr(resume, "_PACKAGED", tmp_path)
    second = replace(TOY, run=replace(TOY.run, seed=9))
    for _ in range(2):  # the second time it is taken up again
        launch(second, tmp_path / "second", init_from=exported, quiet=True)
    assert from_pretrained(tmp_path / "second").origin["started_from"]["path"] == "small"


def test_weights_may_be_read_by_whoever_may_read_their_configuration(run: Path, tmp_path: Path) -> None:
    exported = from_pretrained(run).save_pretrained(tmp_path / "model")
    for folder, files in (
        (exported, ["weights"]),
        (next((run / "checkpoints").iterdir()), ["weights", "ema"]),
    ):
        beside = next(folder.glob("*.json")).stat().st_mode
        for name in files:
            assert (folder / f"{name}.safetensors").stat().st_mode == beside


def test_every_second_phase_sees_other_batches_than_the_first() -> None:
    for name, one in recipes.RECIPES.items():
        if one.follows is not None:
            first, second = recipes.get(one.follows), recipes.get(name)
            assert second.run.seed != first.run.seed
            assert second.task.seed != first.task.seed  # type: ignore[attr-defined]


def test_weights_that_speak_other_tokens_are_refused(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tokenizer(self: Any, near: Path | None = None) -> Characters:
        return Characters("abc" if near is None else "abd")

    monkeypatch.setattr(type(TOY.task), "tokenizer", tokenizer)
    with pytest.raises(UserError, match="another tokenizer"):
        launch(TOY, tmp_path / "x", init_from=run, quiet=True)
    assert not (tmp_path / "x").exists()


def test_how_a_run_is_sampled_may_change_while_it_trains(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    launch(TOY, tmp_path / "x", quiet=True)
    other = replace(TOY, sampling=SamplingDefaults(num_steps=7), unconditional=Unconditional(0.5))
    assert launch(other, tmp_path / "x").step == 5
    assert "sampling.num_steps" in capsys.readouterr().err
    assert from_pretrained(tmp_path / "x").config == from_pretrained(tmp_path / "x" / "best").config == other
    with pytest.raises(UserError, match=r"run\.seed: 1 -> 2"):
        launch(replace(TOY, run=replace(TOY.run, seed=2)), tmp_path / "x", quiet=True)


@pytest.mark.parametrize("wrong", [{"temperature": 0.0}, {"temperature": float("inf")}, {"top_p": 0.0}])
def test_settings_that_would_stop_a_run_later_are_refused_at_once(wrong: dict[str, float]) -> None:
    with pytest.raises(UserError):
        SamplingDefaults(**wrong)  # type: ignore[arg-type]
    if "temperature" in wrong:
        with pytest.raises(UserError):
            Unconditional(**wrong)


def test_a_row_is_drawn_alike_whatever_the_others_hold() -> None:
    config = recipes.get("sudoku-cpu-simplax")
    one = Model(Arbitrary(config.task.vocab_size), config)
    tokens = torch.randint(0, 9, (4, 81), generator=torch.Generator().manual_seed(0))
    given = torch.zeros(4, 81, dtype=torch.bool)
    given[[0, 2], :40] = True
    both = one.sample(4, seeds=0, num_steps=5, tokens=tokens, given=given, trajectory=True)
    assert both.seeds.tolist() == [0, 1, 2, 3] and both.trajectory is not None
    for row in range(4):
        span = slice(row, row + 1)
        alone = one.sample(1, seeds=row, num_steps=5, tokens=tokens[span], given=given[span])
        assert torch.equal(both.tokens[row], alone.tokens[0])
        assert torch.equal(both.trajectory[-1, row], alone.tokens[0])
    blank = replace(config, unconditional=None)
    other = Model(one.denoiser, blank).sample(4, seeds=0, num_steps=5, tokens=tokens, given=given)
    assert torch.equal(other.tokens[0], both.tokens[0]) and not torch.equal(other.tokens[1], both.tokens[1])
    with pytest.raises(UserError, match="not both"):
        one.sample(1, sampler=Simplax(eta=1.0), eta=2.0)


def test_held_out_sequences_are_counted_once() -> None:
    four = recipes.get("sudoku4-udlm").task
    most = len(four.validation())  # type: ignore[arg-type]
    assert len(four.held_out_batch().tokens) == min(most, 1024)
    assert len(four.held_out_batch(3).tokens) == 3
    with pytest.raises(UserError, match=f"holds out {most}"):
        four.held_out_batch(most + 1)
    assert len(recipes.get("toy-udlm").task.held_out_batch(2000).tokens) == 2000  # endless


def test_a_sampler_with_steps_of_its_own_can_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "compile", lambda network: network)
    one = compiled(model("sudoku4-ar"), [2], 2)
    assert answer(one, np.zeros((2, 16), np.int8), [0, 1]).boards.shape == (2, 16)


def test_a_start_that_repeats_itself_is_told(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["train", "toy-simplax", "--smoke", "--init-from", str(run)]
    assert main([*arguments, "--out", "same"]) == 0
    assert "began with the same data and noise" in capsys.readouterr().err
    assert main([*arguments, "--out", "other", "--task.seed", "5"]) == 0
    assert "began with the same" not in capsys.readouterr().err
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "config.json").write_text('{"run": {}}')  # not a recipe's, but weights are weights
    assert repeats(TOY, tmp_path / "old") is None


@pytest.mark.parametrize("name", ["toy-flm", "toy-candi"])
def test_an_export_keeps_tables_in_their_own_precision(name: str, tmp_path: Path) -> None:
    config = recipes.smoke(recipes.get(name))
    whole = Model(build(config), config)
    again = from_pretrained(whole.save_pretrained(tmp_path / "half", torch.float16))
    tables = dict(whole.denoiser.named_buffers())
    assert any(table.dtype == torch.float64 for table in tables.values())
    for key, table in again.denoiser.named_buffers():
        assert torch.equal(table, tables[key])


def test_the_number_of_steps_is_what_was_asked_for() -> None:
    for name in ("toy-flm", "toy-simplax"):
        config = recipes.smoke(recipes.get(name))
        drawn = Model(build(config).eval(), config).sample(3, num_steps=5, seeds=0, batch_size=2)
        assert drawn.num_steps == 5 and drawn.nfe == 5


def test_samplers_of_another_process_are_refused() -> None:
    """By type: every pair of a method and a sampler of another family, all of the vector ones among them."""
    own = {name: cls().sampler() for name, cls in METHODS.items()}
    for name, cls in METHODS.items():
        method = cls()
        method.check_sampler(own[name])
        for other, sampler in own.items():
            if METHODS[other].process_type is not cls.process_type:
                with pytest.raises(ValueError, match=f"the sampler {type(sampler).__name__} undoes"):
                    method.check_sampler(sampler)
    for method in (MDLM(), UDLM(), Duo()):
        method.check_sampler(Psi())
    with pytest.raises(ValueError, match="choose a sampler of its own"):
        sample(lambda z, t: z, (1, 2), sampler=Ancestral(), process=MaskedProcess, vocab_size=3, num_steps=1)


def test_settings_that_would_be_misread_are_refused() -> None:
    with pytest.raises(ValueError, match="counts the steps of a sampler"):
        SimplaxMethod(concentration=PerToken(2.0))
    with pytest.raises(ValueError, match="its time power is 1"):
        adjusted(CANDI().sampler(), time_power=2.0)


def test_an_export_that_fails_leaves_nothing_behind(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = from_pretrained(run)
    whole.save_pretrained(tmp_path / "old")
    before = {path.name: path.read_bytes() for path in (tmp_path / "old").iterdir()}

    def full_disk(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    for place in ("new", "old"):
        with monkeypatch.context() as patch:
            patch.setattr(hub, "write_json", full_disk)  # weights are written before the configuration
            with pytest.raises(OSError, match="No space"):
                replace(whole, config=replace(TOY, name="other")).save_pretrained(tmp_path / place)
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert {path.name: path.read_bytes() for path in (tmp_path / "old").iterdir()} == before


EXPORTS = sorted(path.parent for path in (Path(__file__).parents[1] / "results").rglob("weights.safetensors"))


@pytest.mark.parametrize("folder", EXPORTS, ids=lambda folder: f"{folder.parents[1].name}-{folder.name}")
def test_models_behind_published_numbers_load_without_a_warning(
    folder: Path, caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    from_pretrained(folder)
    assert [record.getMessage() for record in caplog.records] == [] and list(recwarn) == []
