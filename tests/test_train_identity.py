"""What may change when a run goes on, what may not, and what each change amounts to."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from simplax import recipes
from simplax.cli import main
from simplax.errors import UserError
from simplax.methods import UDLM
from simplax.recipes.launch import build
from simplax.train import Run, train
from simplax.train import checkpoint as checkpoints
from simplax.train.distributed import World
from simplax.train.optimizer import Optimizer
from simplax.train.run import OPERATIONS
from simplax.train.step import Stepper
from test_train_toy import FAST, SHORT, ToySource, assert_same_run, fit, newest, rows, toy, work, worker

CPU = torch.device("cpu")


def same_weights(one: Any, two: Any) -> bool:
    return all(torch.equal(value, two[name]) for name, value in one.items())


def by_hand(run: Run, factors: list[float]) -> Stepper:
    """One process, no files: the definition of a run whose learning rate is said step by step."""
    rates = iter(factors)

    class Said(Optimizer):
        def factor(self, step: int, steps: int, branch: Any = None) -> float:
            return next(rates)

    said = Said(**vars(run.optimizer))
    long = replace(run, steps=len(factors), optimizer=said)
    stepper = Stepper(UDLM(), toy(), ToySource(), long, World(0, 1, CPU))
    for step in range(len(factors)):
        stepper(step, False)
    return stepper


def test_every_field_of_a_run_is_identity_or_operation(tmp_path: Path) -> None:
    """Each changed by itself: an operation goes on, anything else is refused with the difference."""
    fit(tmp_path)
    others: dict[str, Any] = {
        "steps": 6, "batch_size": 4, "accumulate": 2, "seed": 2, "optimizer": replace(FAST, clip=2.0), "ema": 0.5,
        "precision": "bfloat16", "compile": True, "sharding": "fsdp", "log_every": 3, "save_every": 3, "keep": 3,
        "keep_every": 3, "validate_every": 3, "validation_batches": 3, "sample_every": 3,
    }  # fmt: skip
    assert others.keys() == vars(SHORT).keys() and others.keys() > OPERATIONS
    for name, value in others.items():
        run = replace(SHORT, **{name: value})
        if name in OPERATIONS:
            assert fit(tmp_path, run=run).step == 6
            assert json.loads((tmp_path / "config.json").read_text())["run"][name] == value
        else:
            with pytest.raises(UserError, match=name):
                fit(tmp_path, run=run)


def test_a_run_that_goes_on_longer_is_the_longer_run(tmp_path: Path) -> None:
    """With a rate that does not depend on the length, bit for bit; rows too, but for the one at the first end."""
    for name, steps in (("cut", 4), ("cut", 6), ("cut", 8), ("whole", 8)):
        work({"directory": tmp_path / name, "run": {"steps": steps}})
    assert_same_run(tmp_path / "cut", tmp_path / "whole")


@pytest.mark.parametrize("decay", ["cosine", "linear", "wsd"])
def test_a_rate_that_depends_on_the_length_follows_the_new_one_from_there(
    tmp_path: Path, decay: str, capsys: pytest.CaptureFixture[str]
) -> None:
    optimizer = {"decay": decay, "decay_share": 0.5}
    work({"directory": tmp_path, "run": {"steps": 4, "optimizer": optimizer}})
    capsys.readouterr()
    work({"directory": tmp_path, "run": {"steps": 8, "optimizer": optimizer}})
    schedule = replace(FAST, **optimizer)  # type: ignore[arg-type]
    factors = [schedule.factor(step, 4) for step in range(4)]
    factors += [schedule.factor(step, 8) for step in range(4, 8)]
    expected = by_hand(SHORT, factors)
    assert same_weights(expected.denoiser.state_dict(), newest(tmp_path).weights)
    assert same_weights(expected.ema.state_dict(), newest(tmp_path).ema)


def test_what_a_change_does_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    linear = replace(FAST, decay="linear")

    def told(**options: Any) -> str:
        run = replace(SHORT, optimizer=linear, **options)
        train(UDLM(), toy(), ToySource(), run, tmp_path, device="cpu")
        return capsys.readouterr().err

    assert "other settings" not in told()
    longer = told(steps=8)
    assert "run.steps: 6 -> 8" in longer and "at step 6 it is 0.333 times its peak instead of 0" in longer
    assert "last digits" not in longer
    assert "last digits" in told(steps=10, accumulate=2)
    assert "last digits" not in told(steps=12, accumulate=2)
    assert "warm-up of 2 steps is longer than the run of 1" in told(steps=1)


@pytest.mark.slow
def test_a_run_extended_and_moved_between_processes_follows_the_run_of_one(tmp_path: Path) -> None:
    """1 process, then 2 and longer, then 1 and longer still; each move is told."""
    work({"directory": tmp_path / "whole", "run": {"steps": 12}})
    moved = {"directory": str(tmp_path / "moved")}
    work({**moved, "run": {"steps": 4}})
    first = newest(tmp_path / "moved")
    two = worker([{**moved, "run": {"steps": 8, "sharding": "fsdp"}}], processes=2)
    assert two.returncode == 0, two.stderr
    assert "1 process before and 2 now" in two.stderr
    second = newest(tmp_path / "moved")
    assert (second.step, second.state["processes"]) == (8, 2)
    work({**moved, "run": {"steps": 12}})
    last = newest(tmp_path / "moved")
    assert (last.step, last.state["processes"]) == (12, 1)
    steps = [row["step"] for row in rows(tmp_path / "moved") if "loss" in row]
    assert steps == [row["step"] for row in rows(tmp_path / "whole") if "loss" in row]
    whole = newest(tmp_path / "whole")
    for mine, its in ((last.weights, whole.weights), (last.ema, whole.ema)):
        for name in its:
            torch.testing.assert_close(mine[name], its[name], rtol=2e-4, atol=2e-4)
    # the parts in one process are exact: up to the move, and from the checkpoint two processes left
    assert same_weights(by_hand(SHORT, [0, 0.5, 1, 1]).denoiser.state_dict(), first.weights)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_branch_is_the_run_that_went_on_with_a_falling_rate(tmp_path: Path, optimizer: str) -> None:
    """Weights, average and optimizer to the last bit, cut or not."""
    settings = {"decay": "wsd", "decay_share": 0.25, "name": optimizer}
    work({"directory": tmp_path / "long", "run": {"steps": 20, "keep_every": 6, "optimizer": settings}})
    long = tmp_path / "long"
    assert [int(p.name[5:]) for p in checkpoints.stored(long)] == [6, 12, 18, 20]
    start = checkpoints.at_step(long, 6)
    job = {"init_from": start, "decay_from": True, "run": {"steps": 10, "optimizer": settings}}
    work({**job, "directory": tmp_path / "branch"})
    factors = [0.0, 0.5, 1, 1, 1, 1, 1.0, 0.75, 0.5, 0.25]
    expected = by_hand(replace(SHORT, optimizer=replace(FAST, name=optimizer)), factors)
    found = newest(tmp_path / "branch")
    assert found.step == 10
    assert same_weights(expected.denoiser.state_dict(), found.weights)
    assert same_weights(expected.ema.state_dict(), found.ema)
    for name, state in expected.optimizers.state_dict().items():
        assert same_weights(state, found.optimizer[name])
    assert [row["step"] for row in rows(tmp_path / "branch") if "loss" in row] == [8, 10]

    work({**job, "directory": tmp_path / "cut", "stop_at": 9})
    assert newest(tmp_path / "cut").step == 8
    work({"directory": tmp_path / "cut", "run": job["run"]})  # that it is a branch need not be said again
    assert_same_run(tmp_path / "branch", tmp_path / "cut")


def test_a_branch_needs_a_checkpoint_after_the_warm_up_and_steps_to_go(tmp_path: Path) -> None:
    fit(tmp_path / "run")
    run = tmp_path / "run"
    for problem, options, longer in (
        ("say --run.steps above 6", {}, SHORT),
        ("inside the warm-up", {}, replace(SHORT, steps=99, optimizer=replace(FAST, warmup=50))),
        ("another optimizer than muon", {}, replace(SHORT, steps=9, optimizer=replace(FAST, name="muon"))),
        ("name that run with init_from", {"init_from": None}, replace(SHORT, steps=9)),
    ):
        with pytest.raises(UserError, match=problem):
            fit(tmp_path / problem, run=longer, decay_from=True, **{"init_from": run, **options})
    with pytest.raises(UserError, match="no checkpoint of step 5: it has 4, 6"):
        checkpoints.at_step(run, 5)


def test_a_branch_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    base = ["train", "toy-udlm", "--smoke", "--run.optimizer.decay", "wsd"]
    assert main([*base, "--out", "long", "--run.save-every", "2", "--run.keep-every", "4"]) == 0
    assert main([*base, "--out", "done", "--init-from", "long@4", "--decay-from", "--run.steps", "6"]) == 0
    assert "begins at step 4: the learning rate falls to zero at 6" in capsys.readouterr().err
    assert newest(tmp_path / "done").step == 6
    assert main([*base, "--out", "other", "--init-from", "long@3", "--decay-from"]) == 2
    assert "no checkpoint of step 3" in capsys.readouterr().err
    assert main([*base, "--out", "other", "--decay-from"]) == 2


def test_the_number_format_is_decided_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`auto` is stored as what it came to; a run keeps that, whatever `auto` would mean where it goes on."""
    config = recipes.smoke(recipes.get("toy-udlm"))
    method, task = config.method, config.task

    def go(precision: str, steps: int) -> str:
        run = replace(config.run, precision=precision, steps=steps)  # type: ignore[arg-type]
        train(method, build(config), task.train(), run, tmp_path, device="cpu", quiet=True)
        stored = json.loads((tmp_path / "config.json").read_text())["run"]["precision"]
        assert newest(tmp_path).state["progress"]["precision"] == stored
        return str(stored)

    assert go("auto", 2) == go("auto", 3) == go("float32", 4) == "float32"
    with pytest.raises(UserError, match=r"run\.precision"):
        go("bfloat16", 5)
    state = tmp_path / "config.json"
    state.write_text(
        state.read_text().replace('"precision": "float32"', '"precision": "auto"')
    )  # an older run
    with pytest.raises(UserError, match="computes in float32"):
        go("bfloat16", 5)


def test_data_smaller_than_a_batch_is_refused(tmp_path: Path) -> None:
    class Few(ToySource):
        def __len__(self) -> int:
            return 5

    with pytest.raises(UserError, match="the data has 5 sequences and a batch 8"):
        train(UDLM(), toy(), Few(), SHORT, tmp_path, device="cpu", quiet=True)
