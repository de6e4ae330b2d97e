"""`simplax evaluate MODEL likelihood` of networks with a carry: the bound with a first call, and that without."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simplax import recipes
from simplax.cli import main
from simplax.evaluate import cost
from simplax.methods.likelihood import has_two_bounds
from simplax.nn import Network
from simplax.pretrained import Model, from_pretrained
from simplax.recipes.launch import build, launch

ASKED = ["likelihood", "--num", "12", "--draws", "2", "--seed", "3", "--batch-size", "5"]


def trained(directory: Path, name: str, carry: str) -> Model:
    config = recipes.smoke(recipes.get(name))
    optimizer = replace(config.run.optimizer, learning_rate=0.05, warmup=1)
    config = replace(
        config,
        run=replace(config.run, optimizer=optimizer, ema=0.5, validate_every=0, sample_every=0),
        architecture=replace(config.architecture, carry=carry),
    )
    launch(config, directory, quiet=True)
    return from_pretrained(directory, device="cpu")


@pytest.mark.parametrize(("name", "carry"), [("toy-udlm", "hidden"), ("toy-mdlm", "probabilities")])
def test_both_bounds_are_said(
    name: str, carry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(cost, "MEASURED_FROM", 1)
    model = trained(tmp_path / "run", name, carry)
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "run"), *ASKED, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    tokens, calls = model.config.task.held_out_batch(12).tokens, [0]
    model.denoiser.register_forward_hook(lambda *_: calls.__setitem__(0, calls[0] + 1))
    values: list[Any] = [
        model.nll(tokens, draws=2, seed=3, batch_size=5, carry=each) for each in (True, False)
    ]
    assert said["cost"]["calls"] == calls[0]
    for found, value in zip((said, said["empty_carry"]), values):
        assert found["nats_per_token"] == value.nats_per_token > said["data_entropy"]
        assert found["standard_error"] == value.standard_error
        assert found["perplexity"] == value.perplexity
        assert found["boundary_terms"] == value.boundary_terms
    assert said["nats_per_token"] != said["empty_carry"]["nats_per_token"]

    assert main(["evaluate", str(tmp_path / "run"), *ASKED, "--out", str(tmp_path / "kept.json")]) == 0
    printed = capsys.readouterr().out
    for whose, value in zip(("own first call", "empty carry"), values):
        (line,) = (line for line in printed.splitlines() if line.startswith(f"nats_per_token, {whose}"))
        assert line.split()[-1] == f"{value.nats_per_token:.4g}"
    assert main(["compare", str(tmp_path / "kept.json"), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["likelihood"]
    assert row["values"]["nats per token"] == said["nats_per_token"]
    assert row["values"]["nats per token, empty carry"] == said["empty_carry"]["nats_per_token"]


def test_without_a_carry_there_is_one_bound(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained(tmp_path / "run", "toy-udlm", "none")
    assert main(["evaluate", str(tmp_path / "run"), *ASKED, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert "empty_carry" not in said


def test_a_bound_that_reads_no_carry_is_said_once() -> None:
    """LangFlow's samplers read the last prediction, and its likelihood is that of a flow without one."""
    config = recipes.smoke(recipes.get("toy-langflow"))
    denoiser = build(config)
    assert Network.of(denoiser).carry.carries and not has_two_bounds(config.method, denoiser)
