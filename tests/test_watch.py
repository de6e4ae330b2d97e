"""What can be seen of a run while it trains: samples, answers to unseen puzzles, curves elsewhere."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from simplax import recipes
from simplax.cli import main
from simplax.recipes.launch import build, launch
from simplax.recipes.watch import AnswerAccuracy, KeepSamples
from simplax.train.hooks import WandB
from simplax.train.metrics import read
from simplax.typing import Batch


def small(name: str, **options: Any) -> Any:
    config = recipes.smoke(recipes.get(name))
    return replace(config, run=replace(config.run, **options))


@pytest.mark.parametrize("name", ["toy-udlm", "sudoku4-mdlm", "sudoku4-ar"])
def test_samples_are_kept_and_a_resumed_run_repeats_none(name: str, tmp_path: Path) -> None:
    config = small(name, sample_every=2, steps=6, save_every=2, validate_every=0)
    launch(config, tmp_path, quiet=True, device="cpu")
    rows = read(tmp_path / "samples.jsonl")
    assert [(row["step"], row["seed"]) for row in rows] == [(s, i) for s in (2, 4, 6) for i in range(4)]
    whole = config.task.validation().batch(torch.arange(4))
    for row in rows if name == "sudoku4-mdlm" else []:
        cells = [c for c in row["text"] if c in "1234"]
        clues = whole.given[row["seed"]]
        assert len(cells) == 16
        expected = [str(int(x) + 1) for x in whole.tokens[row["seed"]][clues]]
        assert [c for c, known in zip(cells, clues) if known] == expected

    # killed after writing samples of step 6, before its checkpoint
    (tmp_path / "latest").write_text("step-000000004\n")
    for folder in (tmp_path / "checkpoints").glob("step-000000006*"):
        folder.rename(tmp_path / "gone")
    launch(config, tmp_path, quiet=True, device="cpu")
    assert read(tmp_path / "samples.jsonl") == rows


def test_no_samples_unless_asked(tmp_path: Path) -> None:
    launch(small("toy-udlm"), tmp_path, quiet=True, device="cpu")
    assert not (tmp_path / "samples.jsonl").exists()


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    config = small("toy-udlm")
    (tmp_path / "samples.jsonl").mkdir()
    with pytest.raises(ValueError, match="could not write"):
        KeepSamples(config, tmp_path).sample(1, build(config).eval())


def test_sudoku_runs_report_accuracy_and_others_do_not(tmp_path: Path) -> None:
    launch(small("sudoku4-simplax"), tmp_path / "a", quiet=True, device="cpu")
    (row,) = (row for row in read(tmp_path / "a" / "metrics.jsonl") if "validation_loss" in row)
    assert 0 <= row["accuracy"] <= row["token_accuracy"] <= 1
    launch(small("toy-simplax"), tmp_path / "b", quiet=True, device="cpu")
    assert all("accuracy" not in row for row in read(tmp_path / "b" / "metrics.jsonl"))


class Knows(torch.nn.Module):
    """Answers some puzzles from memory."""

    def __init__(self, batch: Batch, right: int, size: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.batch, self.right, self.size, self.vocab_size = batch, right, size, size

    def forward(self, z: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        answers = self.batch.tokens.clone()
        blank = (~self.batch.given).float().argmax(-1)  # one wrong cell is enough to lose a board
        wrong = torch.arange(len(answers)) >= self.right
        answers[wrong, blank[wrong]] = (answers[wrong, blank[wrong]] + 1) % self.size
        return 50.0 * torch.nn.functional.one_hot(answers, self.size).float()


def test_accuracy_counts_whole_boards() -> None:
    config = small("sudoku4-udlm")
    batch = config.task.validation().batch(torch.arange(16))
    found = AnswerAccuracy(config, 16)(Knows(batch, 12, config.task.vocab_size))
    assert found["accuracy"] == 12 / 16
    assert found["token_accuracy"] == pytest.approx(1 - 4 / int((~batch.given).sum()))


def test_the_command_reports_the_last_validation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["train", "sudoku4-udlm", "--smoke", "--device", "cpu", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {"validation_loss", "accuracy", "token_accuracy"} <= set(told)


@pytest.mark.parametrize("flags", [["--tensorboard"], ["--wandb", "mine"]])
def test_a_missing_tracker_is_told_before_anything_is_trained(
    flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    monkeypatch.setitem(sys.modules, "wandb", None)
    assert main(["train", "toy-udlm", "--smoke", *flags]) == 2
    captured = capsys.readouterr()
    assert "not installed" in captured.err and 'pip install "simplax[track]"' in captured.err
    assert len(captured.err.splitlines()) == 1 and not (tmp_path / "runs").exists()


def test_rows_reach_the_trackers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With stand-ins for both packages, which need not be installed."""
    got: dict[str, list[Any]] = {"tensorboard": [], "wandb": []}
    texts: dict[str, list[Any]] = {"tensorboard": [], "wandb": []}

    class Writer:
        def __init__(self, directory: str, purge_step: int) -> None:
            assert directory == str(Path("runs/x/tensorboard"))

        def add_scalar(self, name: str, value: float, step: int) -> None:
            got["tensorboard"].append((name, step))

        def add_text(self, name: str, text: str, step: int) -> None:
            texts["tensorboard"].append((name, text, step))

        def flush(self) -> None: ...

    class Settings(dict[str, Any]):
        def update(self, values: dict[str, Any], allow_val_change: bool) -> None:  # type: ignore[override]
            super().update(values)

    class Remote:
        config = Settings()

        def log(self, values: dict[str, Any], step: int) -> None:
            if "samples" in values:
                texts["wandb"] += values["samples"]["data"]
            else:
                got["wandb"].extend((name, step) for name in values)

    identities = []

    def init(project: str, name: str, id: str, resume: str) -> Remote:
        assert (project, name, resume) == ("mine", "toy-udlm-smoke", "allow")
        identities.append(id)
        return Remote()

    fakes: dict[str, dict[str, Any]] = {
        "torch.utils.tensorboard": {"SummaryWriter": Writer},
        "wandb": {"init": init, "Table": dict},
    }
    for module, members in fakes.items():
        fake = ModuleType(module)
        fake.__dict__.update(members)
        monkeypatch.setitem(sys.modules, module, fake)
    monkeypatch.chdir(tmp_path)
    flags = [
        "--smoke",
        "--out",
        "runs/x",
        "--tensorboard",
        "--wandb",
        "mine",
        "--json",
        "--run.sample-every",
        "5",
    ]
    assert main(["train", "toy-udlm", *flags]) == 0
    assert got["tensorboard"] == got["wandb"]
    assert {("loss", 1), ("loss", 5), ("validation_loss", 5)} <= set(got["wandb"])
    kept = [row["text"] for row in read(Path("runs/x/samples.jsonl"))]
    assert texts["wandb"] == [[5, number, text] for number, text in enumerate(kept)] and len(kept) == 4
    written = {name: text for name, text, _ in texts["tensorboard"]}
    assert [written[f"sample {number}"].strip() for number in range(4)] == [text.strip() for text in kept]
    assert Remote.config["run"]["steps"] == 5 and "versions" in Remote.config["manifest"]
    assert json.loads(written["config"])["run"]["steps"] == 5 and "command" in json.loads(written["manifest"])
    for hook in [WandB("mine", "toy-udlm-smoke", Path("runs/x/wandb-id")) for _ in range(2)]:
        hook.log(6, {"loss": 1.0})  # the run is taken up again
    assert len(identities) == 3 and len(set(identities)) == 1


def test_characters_are_those_that_scored_tokens_spell() -> None:
    from simplax.cli.verbs.evaluations.likelihood import count_characters
    from simplax.data.text.tokenizers import Characters, Integers

    class Text:
        tokenizer: Any = Characters(" abc")  # the end symbol is 4

    tokens = torch.tensor([[1, 2, 4, 3], [3, 3, 4, 4]])
    given = torch.tensor([[True, False, False, False]] * 2)
    assert count_characters(Text, Batch.of(tokens, given)) == 3  # type: ignore[arg-type]
    Text.tokenizer = None
    assert count_characters(Text, Batch.of(tokens)) is None  # type: ignore[arg-type]
    Text.tokenizer = Integers.of([[1, 2]], False)
    assert count_characters(Text, Batch.of(tokens)) is None  # type: ignore[arg-type]
