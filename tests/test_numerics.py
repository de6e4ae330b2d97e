"""Another number format or a compiled network changes the logits and nothing else; batch sizes follow one rule."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from simplax import random
from simplax.cli import main
from simplax.errors import UserError
from simplax.io.manifest import write_new
from simplax.pretrained import numerics
from simplax.pretrained.model import Model, from_pretrained
from simplax.pretrained.numerics import Numerics, batch_size_for, bytes_per_sequence
from sudoku_models import model


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    one = model("sudoku4-simplax")
    for parameter in one.denoiser.parameters():  # an untrained network ends in zeros, in any format
        torch.nn.init.normal_(parameter, std=0.1)
    return one.save_pretrained(tmp_path_factory.mktemp("stored") / "model")


def logits(one: Model) -> torch.Tensor:
    tokens = torch.arange(one.config.task.length)[None] % one.config.task.vocab_size
    with torch.no_grad():
        found: torch.Tensor = one.denoiser(tokens, torch.tensor([0.5]))
    return found


def test_only_the_network_is_in_bfloat16(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, half = from_pretrained(stored), from_pretrained(stored, dtype=torch.bfloat16)
    assert (plain.dtype, half.dtype) == ("float32", "bfloat16")
    assert from_pretrained(stored, dtype="auto", device="cpu").dtype == "float32"
    assert logits(half).dtype == torch.float32
    error = (logits(half) - logits(plain)).abs().max()
    assert 0 < error < 0.1 * logits(plain).abs().max()
    drawn: list[torch.dtype] = []
    inverted = random._first_above

    def spy(cumulative: torch.Tensor, target: torch.Tensor, has_mass: torch.Tensor) -> torch.Tensor:
        drawn.extend((cumulative.dtype, target.dtype))
        return inverted(cumulative, target, has_mass)

    monkeypatch.setattr(random, "_first_above", spy)
    half.sample(2, num_steps=2, seeds=0)
    assert drawn and set(drawn) == {torch.float64}


def test_tf32_is_for_gpus_and_for_the_network(stored: Path) -> None:
    with pytest.raises(UserError, match="tf32 is a number format of GPUs"):
        from_pretrained(stored, dtype="tf32", device="cpu")
    with pytest.raises(UserError, match=r"there is no dtype 'bfloat'.*did you mean bfloat16"):
        from_pretrained(stored, dtype="bfloat")  # type: ignore[arg-type]
    before = torch.get_float32_matmul_precision()
    seen: list[str] = []
    one = from_pretrained(stored)
    fast = replace(one, numerics=Numerics(tf32=True))
    one.denoiser.register_forward_hook(lambda *_: seen.append(torch.get_float32_matmul_precision()))
    fast.sample(1, num_steps=1, seeds=0)
    assert fast.dtype == "tf32" and set(seen) == {"high"} and torch.get_float32_matmul_precision() == before


@pytest.mark.usefixtures("compiler")
def test_a_compiled_model_keeps_its_names_and_its_samples(stored: Path, tmp_path: Path) -> None:
    plain, compiled = from_pretrained(stored), from_pretrained(stored, compile=True)
    assert (
        compiled.numerics.compiled
        and compiled.denoiser.state_dict().keys() == plain.denoiser.state_dict().keys()
    )
    with torch.compiler.set_stance("force_eager"):  # what a compiler does is not tested here
        found = compiled.sample(3, num_steps=2, seeds=0)
    assert torch.equal(found.tokens, plain.sample(3, num_steps=2, seeds=0).tokens)
    again = from_pretrained(compiled.save_pretrained(tmp_path / "again"))
    assert torch.equal(logits(again), logits(plain))


def test_batches_by_memory(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = from_pretrained(stored)
    length = one.config.task.length
    fewest = -(-4096 // length)
    assert batch_size_for(one, 7, 100) == 7
    monkeypatch.setattr(numerics, "free_memory", lambda device: 1e15)
    assert batch_size_for(one, "auto", 8) == min(fewest, 256)
    assert batch_size_for(one, "auto", 1_000_000) == 256
    per = bytes_per_sequence(one)
    for room, expected in ((2.0 * 100 * per, 64), (2.0 * per, 1), (0.0, 1)):
        monkeypatch.setattr(numerics, "free_memory", lambda device, room=room: room)
        assert batch_size_for(one, "auto", 1_000_000) == expected
    with pytest.raises(UserError, match="at least 1"):
        batch_size_for(one, 0, 1)
    assert numerics.free_memory(torch.device("cpu")) == 0.0
    monkeypatch.undo()
    assert 1e6 < numerics.free_memory(torch.device("cpu")) < 1e15


def test_manifests_say_what_was_computed_in(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sample", str(stored), "--num", "2", "--steps", "2", "--device", "cpu", "--json"]
    assert main([*words, "--dtype", "bfloat16"]) == 0
    assert json.loads(capsys.readouterr().out)["manifest"]["dtype"] == {
        "network": "bfloat16",
        "noise": "float64",
    }
    assert main([*words, "--batch-size", "0"]) == 2
    assert "at least 1" in capsys.readouterr().err


def test_results_of_one_second_do_not_overwrite_each_other(tmp_path: Path) -> None:
    records: list[dict[str, Any]] = [{"n": n} for n in range(3)]
    files = [write_new(tmp_path, "sudoku-now", record) for record in records]
    assert [file.name for file in files] == ["sudoku-now.json", "sudoku-now-2.json", "sudoku-now-3.json"]
    assert [json.loads(file.read_text()) for file in files] == records
    assert sorted(tmp_path.iterdir()) == sorted(files)
