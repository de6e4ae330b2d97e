"""Stopped, killed or interrupted, a run ends with the bits of one that was not."""

from __future__ import annotations

import signal
import subprocess
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from simplax.errors import UserError
from simplax.train import Run
from simplax.train import checkpoint as checkpoints
from test_train_toy import SHORT, ToySource, assert_same_run, fit, newest, rows, toy, work, worker

VALIDATED = {"log_every": 3, "validate_every": 2, "validation_batches": 2}


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_resumed_equals_uninterrupted(tmp_path: Path, dropout: float, optimizer: str) -> None:
    settings = {"accumulate": 2, **VALIDATED, "optimizer": {"name": optimizer}}
    job = {"run": settings, "network": {"dropout": dropout}}
    work({**job, "directory": tmp_path / "whole"})
    work({**job, "directory": tmp_path / "cut", "stop_at": 5})
    assert newest(tmp_path / "cut").step == 4
    work({**job, "directory": tmp_path / "cut", "network": {"dropout": dropout, "seed": 99}})
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


def test_rows_after_the_checkpoint_are_written_once(tmp_path: Path) -> None:
    job = {"run": {"log_every": 1}}
    work({**job, "directory": tmp_path / "whole"})
    work({**job, "directory": tmp_path / "cut", "stop_at": 5})
    assert rows(tmp_path / "cut")[-1]["step"] == 5 and newest(tmp_path / "cut").step == 4
    with open(tmp_path / "cut" / "metrics.jsonl", "a") as file:
        file.write('{"step": 6, "lo')  # a kill in the middle of a line
    work({**job, "directory": tmp_path / "cut"})
    assert_same_run(tmp_path / "whole", tmp_path / "cut")


def test_a_damaged_row_is_left_out_and_stops_nothing(tmp_path: Path) -> None:
    work({"run": {"log_every": 1}, "directory": tmp_path, "stop_at": 5})
    file, whole = tmp_path / "metrics.jsonl", rows(tmp_path, timings=True)
    lines = file.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1][:9] + b"\xff" + lines[1][10:]  # not text any more
    file.write_bytes(b"".join(lines))
    assert rows(tmp_path, timings=True) == whole[:1] + whole[2:]
    work({"run": {"log_every": 1}, "directory": tmp_path})
    assert rows(tmp_path, timings=True)[:3] == whole[:1] + whole[2:4]


def test_dropout_masks_change_with_the_step(tmp_path: Path) -> None:
    fit(tmp_path / "with", toy(dropout=0.5))
    fit(tmp_path / "without", toy(dropout=0.0))
    assert rows(tmp_path / "with") != rows(tmp_path / "without")


def test_a_finished_run_is_left_alone(tmp_path: Path) -> None:
    first = fit(tmp_path)
    before = (tmp_path / "metrics.jsonl").read_bytes()
    again = fit(tmp_path)
    assert again == first
    assert (tmp_path / "metrics.jsonl").read_bytes() == before


DROPPING = {"network": {"dropout": 0.2}}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("whole") / "run"
    work({**DROPPING, "directory": directory})
    return directory


def in_a_process(directory: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return worker([{**DROPPING, "directory": str(directory), **options}])


@pytest.mark.slow
def test_killed_while_training(tmp_path: Path, uninterrupted: Path) -> None:
    assert in_a_process(tmp_path, kill_at=5).returncode == -signal.SIGKILL
    assert newest(tmp_path).step == 4
    work({**DROPPING, "directory": tmp_path})
    assert_same_run(uninterrupted, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "left"), [("tensors", 2), ("optimizer", 2), ("rename", 2), ("pointer", 2), ("prune", 4)]
)
def test_killed_inside_a_save(tmp_path: Path, uninterrupted: Path, point: str, left: int) -> None:
    assert in_a_process(tmp_path, kill_in_save=[point, 4]).returncode == -signal.SIGKILL
    assert newest(tmp_path).step == left
    work({**DROPPING, "directory": tmp_path})
    assert_same_run(uninterrupted, tmp_path)
    assert not list((tmp_path / "checkpoints").glob(".tmp-*"))


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_exits_130(tmp_path: Path, uninterrupted: Path, number: signal.Signals) -> None:
    stopped = in_a_process(tmp_path, signal_at=2, signal=int(number))
    assert stopped.returncode == 130, stopped.stderr
    assert newest(tmp_path).step in (
        2,
        3,
    )  # data is made one step ahead, and the step that was running is finished
    assert "Traceback" not in stopped.stderr
    work({**DROPPING, "directory": tmp_path})
    assert_same_run(uninterrupted, tmp_path)


def test_the_config_is_written_before_the_first_step(tmp_path: Path) -> None:
    work({"directory": tmp_path, "stop_at": 0})
    assert (tmp_path / "config.json").exists() and not checkpoints.stored(tmp_path)


def test_never_resuming_refuses_an_old_directory(tmp_path: Path) -> None:
    fit(tmp_path)
    with pytest.raises(UserError, match="already holds a run"):
        fit(tmp_path, resume="never")


def test_checkpoints_are_pruned_but_for_the_best(tmp_path: Path) -> None:
    values = iter([1.0, 3.0, 2.0, 0.0, 0.0, 0.0])
    run = replace(SHORT, save_every=1, keep=2, validate_every=1)
    fit(tmp_path, run=run, metric=lambda denoiser: {"score": next(values)})
    assert [path.name for path in checkpoints.stored(tmp_path)] == [f"step-{n:09d}" for n in (2, 5, 6)]
    assert (tmp_path / "best").resolve().name == "step-000000002"
    assert (tmp_path / "latest").read_text().strip() == "step-000000006"


def test_validation_uses_the_average_and_training_goes_on_with_the_weights(tmp_path: Path) -> None:
    seen: list[dict[str, torch.Tensor]] = []

    def metric(denoiser: nn.Module) -> dict[str, float]:
        assert not denoiser.training
        seen.append({name: value.clone() for name, value in denoiser.state_dict().items()})
        return {"n": len(seen)}

    run = replace(SHORT, validate_every=6, save_every=0)
    denoiser = toy()
    fit(tmp_path / "with", denoiser, run, metric=metric, validation=ToySource())
    fit(tmp_path / "without", run=replace(run, validate_every=0), config={"run": asdict(run)})
    saved = newest(tmp_path / "with")
    assert all(torch.equal(saved.ema[name], value) for name, value in seen[0].items())
    assert any(not torch.equal(saved.weights[name], value) for name, value in seen[0].items())
    plain = newest(tmp_path / "without")
    assert all(torch.equal(saved.weights[name], plain.weights[name]) for name in saved.weights)
    row = next(row for row in rows(tmp_path / "with") if "validation_loss" in row)
    assert row["n"] == 1 and row["validation_loss"] > 0


def test_samples_are_asked_for_on_schedule(tmp_path: Path) -> None:
    class Recorder:
        def __init__(self) -> None:
            self.steps: list[int] = []
            self.rows: list[tuple[int, dict[str, float]]] = []

        def log(self, step: int, values: dict[str, float]) -> None:
            self.rows.append((step, values))

        def sample(self, step: int, denoiser: nn.Module) -> None:
            assert not denoiser.training and not torch.is_grad_enabled()
            self.steps.append(step)

    recorder = Recorder()
    fit(tmp_path, run=replace(SHORT, sample_every=4), hooks=[recorder])
    assert recorder.steps == [4, 6]
    assert [step for step, values in recorder.rows if "loss" in values] == [2, 4, 6]


def test_starting_from_another_run_takes_weights_and_average_but_not_the_optimizer(tmp_path: Path) -> None:
    fit(tmp_path / "first")
    first = newest(tmp_path / "first")
    frozen: Run = replace(
        SHORT, steps=1, optimizer=replace(SHORT.optimizer, warmup=5)
    )  # its only step has rate 0
    fit(tmp_path / "second", toy(seed=7), frozen, init_from=tmp_path / "first")
    second = newest(tmp_path / "second")
    assert all(torch.equal(first.weights[name], second.weights[name]) for name in first.weights)
    decay = min(frozen.ema, 8 / 17)  # the seventh update: six happened in the first run
    for name, old in first.ema.items():
        torch.testing.assert_close(second.ema[name], decay * old + (1 - decay) * first.weights[name])
    assert {float(state["step"]) for state in second.optimizer.values()} == {1.0}


def test_starting_from_a_model_directory_uses_its_weights_twice(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    model = tmp_path / "model"
    model.mkdir()
    save_file(toy(seed=7).state_dict(), model / "weights.safetensors")
    frozen = replace(SHORT, steps=1, optimizer=replace(SHORT.optimizer, warmup=5))
    fit(tmp_path / "run", run=frozen, init_from=model)
    saved = newest(tmp_path / "run")
    for name, value in toy(seed=7).state_dict().items():
        assert torch.equal(saved.weights[name], value) and torch.equal(saved.ema[name], value)


def test_starting_from_another_vocabulary_is_refused(tmp_path: Path) -> None:
    fit(tmp_path / "first")
    with pytest.raises(UserError, match="trained on 5 categories and this run has 9"):
        fit(tmp_path / "second", toy(vocab_size=9), init_from=tmp_path / "first")
    with pytest.raises(UserError, match="another architecture"):
        fit(tmp_path / "third", toy(width=16), init_from=tmp_path / "first")
    with pytest.raises(UserError, match="does not exist"):
        fit(tmp_path / "fourth", init_from=tmp_path / "nowhere")
