"""What work will cost, said before it starts: the counts are those of the work, and nothing about it changes."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from simplax import recipes
from simplax.cli import main
from simplax.evaluate import cost
from simplax.evaluate.cost import Cost, likelihood_cost, sampling_cost
from simplax.io.progress import duration
from simplax.pretrained.model import Model
from simplax.recipes.launch import launch
from simplax.samplers import Gibbs, Psi, Sampler, Simplax
from simplax.times import Grid
from simplax.train import first
from sudoku_models import model


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small work is measured too."""
    monkeypatch.setattr(cost, "MEASURED_FROM", 1)


@pytest.mark.parametrize("name", ["simplax", "mdlm", "ar", "candi", "flm", "langflow", "sflm", "duo"])
def test_calls_and_tokens_are_those_of_the_samples(name: str, measured: None) -> None:
    small = toy(name)
    expected = sampling_cost(small, 10, num_steps=3, batch_size=4)
    drawn = small.sample(10, num_steps=None if small.sampler().steps_for(8) else 3, seeds=0, batch_size=4)
    assert expected.batch == 4 and expected.seconds is not None and expected.seconds > 0
    assert drawn.calls <= expected.calls and drawn.nfe * 10 * small.config.task.length <= expected.tokens
    if name != "mdlm":  # which skips calls in which no mask is lifted
        assert drawn.calls == expected.calls and drawn.nfe * 10 * small.config.task.length == expected.tokens


def toy(name: str) -> Model:
    config = recipes.smoke(recipes.get(f"toy-{name}"))
    from simplax.recipes.launch import build

    return Model(build(config).eval(), config)


@pytest.mark.parametrize(
    "sampler",
    [
        Simplax(last="posterior"),
        Psi(last="greedy"),
        Psi(gibbs=Gibbs(sweeps=2, count=1)),
        Psi(gibbs=Gibbs(sweeps=1, count=1), times=Grid(end=0.1), last="greedy"),
    ],
)
def test_the_call_that_ends_a_chain_counts(sampler: Sampler[object]) -> None:
    small = toy("simplax")
    expected = sampling_cost(small, 4, sampler=sampler, repeats=[2, 5], batch_size=2)
    calls = [small.sample(4, num_steps=n, seeds=0, sampler=sampler, batch_size=2).calls for n in (2, 5)]
    assert expected.calls == sum(calls)


def test_guidance_reads_every_sequence_twice() -> None:
    small = toy("simplax")
    plain, guided = (sampling_cost(small, 4, num_steps=3, guidance=gamma) for gamma in (1.0, 2.0))
    assert (guided.calls, guided.batch, guided.tokens) == (plain.calls, 2 * plain.batch, 2 * plain.tokens)


def test_small_work_is_counted_and_not_measured() -> None:
    small = toy("simplax")

    def refuse(*arguments: object) -> None:
        raise AssertionError("the network was called")

    small.denoiser.register_forward_pre_hook(refuse)
    assert sampling_cost(small, 4, num_steps=3) == Cost(3, 4, 3 * 4 * 8)


def test_measuring_makes_three_calls_at_most_at_the_real_batch_size(measured: None) -> None:
    small = toy("simplax")
    sizes: list[int] = []
    small.denoiser.register_forward_hook(lambda module, inputs, output: sizes.append(len(output)))
    before = {name: value.clone() for name, value in small.denoiser.state_dict().items()}
    sampling_cost(small, 100, num_steps=50, batch_size=7)
    assert sizes == [7, 7] and not small.denoiser._forward_pre_hooks
    assert all(torch.equal(value, before[name]) for name, value in small.denoiser.state_dict().items())


def test_time_is_the_rate_of_one_call_times_the_calls(
    measured: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a clock that advances by one second per call and by 100 in the first."""
    small, clock = toy("simplax"), [0.0]

    def tick(module: object, inputs: object, output: object) -> None:
        clock[0] += 100.0 if clock[0] == 0 else 1.0

    small.denoiser.register_forward_hook(tick)
    monkeypatch.setattr(cost, "_now", lambda device: clock[0])
    assert sampling_cost(small, 8, num_steps=5, batch_size=4).seconds == pytest.approx(10.0)
    assert sampling_cost(small, 6, num_steps=5, batch_size=4).seconds == pytest.approx(7.5)


def test_likelihoods_are_counted_by_their_calls(measured: None) -> None:
    small = toy("udlm")
    batch = small.config.task.held_out_batch(10)
    calls = [0]
    small.denoiser.register_forward_hook(lambda *_: calls.__setitem__(0, calls[0] + 1))
    expected = likelihood_cost(small, batch, draws=3, batch_size=4)
    calls[0] = 0
    small.nll(batch.tokens, draws=3, batch_size=4)
    assert expected.calls == calls[0] and expected.seconds is not None


def test_costs_add_up_and_long_ones_are_told() -> None:
    both = Cost(3, 4, 100, 20.0, 7) + Cost(5, 2, 50, 3600.0, 9)
    assert both == Cost(8, 4, 150, 3620.0, 9)
    assert both + Cost(1, 1, 1) == Cost(9, 4, 151, 3620.0, 9)
    assert (Cost(1, 1, 1) + Cost(1, 1, 1)).seconds is None and Cost(1, 1, 1).sentence() == ""
    assert "1 h 0 min: 8 network calls on up to 4 sequences each, 150 tokens" in both.sentence()
    assert Cost(1000, 4, 100, 2.0).sentence() == ""
    assert [duration(s) for s in (5, 75, 720, 7260, 200_000)] == [
        "5 s",
        "1 min 15 s",
        "12 min",
        "2 h 1 min",
        "2 d 7 h",
    ]


def test_commands_tell_before_they_work(
    measured: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cost, "SAID_FROM", 0.0)
    monkeypatch.chdir(tmp_path)
    model("sudoku4-udlm").save_pretrained("four")
    for words in (
        ["sample", "four", "--num", "5", "--steps", "3"],
        ["evaluate", "four", "sudoku", "--num", "3", "--steps", "2", "--clues", "6", "0"],
        ["evaluate", "four", "likelihood", "--num", "4", "--draws", "2"],
        [
            "sweep",
            "four",
            "--sampler",
            "simplax",
            "--clues",
            "6",
            "--num",
            "2",
            "--eta",
            "1",
            "2",
            "--steps",
            "2",
            "3",
        ],
    ):
        assert main([*words, "--json"]) == 0
        printed = capsys.readouterr()
        assert printed.err.startswith("this will take about ") and "as just measured" in printed.err
        found = json.loads(printed.out)["cost"]
        assert found["calls"] > 0 and found["seconds"] > 0 and found["bytes"] > 1e6
    assert found["calls"] == 2 * (2 + 3) and found["tokens"] == 2 * 2 * (2 + 3) * 16


def test_a_run_reckons_from_its_first_steps_and_trains_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = recipes.smoke(recipes.get("toy-udlm"))
    config = replace(config, run=replace(config.run, steps=9))
    short = launch(replace(config, run=replace(config.run, steps=4)), tmp_path / "short", quiet=True)
    assert short.cost is None
    silent = launch(config, tmp_path / "silent")
    assert "this will take" not in capsys.readouterr().err
    monkeypatch.setattr(first, "SAID_FROM", 0.0)
    told = launch(config, tmp_path / "told")
    assert "4 more steps, 4 passes through the network and back, 128 tokens" in capsys.readouterr().err
    assert told.cost is not None and (told.cost.steps, told.cost.tokens) == (4, 4 * 4 * 8)
    assert told.loss == silent.loss and math.isfinite(told.cost.seconds)
