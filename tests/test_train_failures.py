"""What goes wrong is said in one sentence, and nothing good is lost."""

from __future__ import annotations

import errno
import math
import os
import resource
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from simplax.errors import UserError
from simplax.methods import UDLM
from simplax.train import checkpoint as checkpoints
from simplax.train.distributed import World
from simplax.train.step import NonFinite, Stepper
from test_train_toy import _INIT, SHORT, ToySource, ask_late, assert_same_run, fit, newest, toy


def one_sentence(error: pytest.ExceptionInfo[UserError]) -> bool:
    text = str(error.value)
    return "\n" not in text and text.endswith((".", "undo")) and text.count(". ") == 0


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    fit(tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize("name", ["weights.safetensors", "ema.safetensors", "optimizer.pt", "state.json"])
def test_a_truncated_file_is_named(finished: Path, name: str) -> None:
    path = finished / "checkpoints" / "step-000000006" / name
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UserError, match=name) as error:
        fit(finished)
    assert one_sentence(error)


@pytest.mark.parametrize("name", ["weights.safetensors", "optimizer.pt", "state.json"])
def test_a_missing_file_is_named(finished: Path, name: str) -> None:
    (finished / "checkpoints" / "step-000000006" / name).unlink()
    with pytest.raises(UserError, match=name) as error:
        fit(finished)
    assert one_sentence(error)


def test_a_foreign_file_is_refused(finished: Path) -> None:
    newest_folder = finished / "checkpoints" / "step-000000006"
    shutil.copy(newest_folder.parent / "step-000000004" / "optimizer.pt", newest_folder / "optimizer.pt")
    with pytest.raises(UserError, match=r"optimizer\.pt is truncated or was changed"):
        fit(finished)
    (newest_folder / "state.json").write_text('{"format": "something else"}')
    with pytest.raises(UserError, match="was not written by this version") as error:
        fit(finished)
    assert one_sentence(error)


def test_a_missing_checkpoint_is_named(finished: Path) -> None:
    shutil.rmtree(finished / "checkpoints" / "step-000000006")
    with pytest.raises(UserError, match="step-000000006 is missing") as error:
        fit(finished)
    assert one_sentence(error)


def test_an_older_checkpoint_is_used_only_when_asked(finished: Path, tmp_path: Path) -> None:
    fit(tmp_path / "other")
    path = finished / "checkpoints" / "step-000000006" / "weights.safetensors"
    path.write_bytes(b"nonsense")
    with pytest.raises(UserError, match="allow-older"):
        fit(finished)
    fit(finished, allow_older=True)
    assert_same_run(finished, tmp_path / "other")


def test_no_intact_checkpoint_at_all(finished: Path) -> None:
    for path in (finished / "checkpoints").glob("*/weights.safetensors"):
        path.write_bytes(b"nonsense")
    with pytest.raises(UserError, match=r"no checkpoint in .* is intact"):
        fit(finished, allow_older=True)


def test_the_optimizer_file_cannot_run_code(finished: Path) -> None:
    state = torch.load(finished / "checkpoints" / "step-000000006" / "optimizer.pt", weights_only=True)
    assert all(isinstance(value, Tensor) for values in state.values() for value in values.values())


@pytest.mark.parametrize("writer", ["write_tensors", "_write_optimizer", "write_json", "write_text"])
def test_a_full_disk_stops_the_run_and_spares_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: str
) -> None:
    original = getattr(checkpoints, writer)

    def full_disk(path: Path, value: Any) -> None:
        if "000000004" in f"{path}{value}":
            path.write_bytes(b"the first few bytes")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(path, value)

    if writer == "write_text":  # the pointer must not be half written, so this one fails before it begins
        full_disk_before = full_disk

        def full_disk(path: Path, value: Any) -> None:
            if "000000004" in f"{value}":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            full_disk_before(path, value)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, writer, full_disk)
        with pytest.raises(UserError, match="No space left on device") as error:
            fit(tmp_path / "full")
    assert one_sentence(error)
    assert newest(tmp_path / "full").step == 2
    fit(tmp_path / "full")
    fit(tmp_path / "roomy")
    assert_same_run(tmp_path / "full", tmp_path / "roomy")


LIMITED = """
import resource, sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from test_train_toy import fit, toy
from simplax.errors import UserError
from simplax.methods import UDLM
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    fit(Path(sys.argv[1]), toy(width=64))
except UserError as error:
    print(error)
    sys.exit(2)
"""


@pytest.mark.slow
def test_a_write_the_system_refuses_is_reported_too(tmp_path: Path) -> None:
    """The same with the operating system's own refusal, which the tensor writers wrap in errors of theirs."""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    command = [sys.executable, "-c", LIMITED, str(tmp_path / "run"), str(Path(__file__).parent)]
    refused = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert refused.returncode == 2, refused.stderr
    assert "could not save" in refused.stdout and refused.stdout.count("\n") == 1


class Exploding(nn.Module):
    """A network whose output is not a number from some call on."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self.inner, self.calls = toy(), calls
        self.vocab_size = self.inner.vocab_size

    def forward(self, z: Tensor, t: Tensor) -> Tensor:
        self.calls -= 1
        return self.inner(z, t) * (1.0 if self.calls >= 0 else float("nan"))


def test_a_non_finite_loss_names_the_step_and_saves_the_batch(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not finite at step 3") as error:
        fit(tmp_path, Exploding(calls=6), replace(SHORT, accumulate=2))
    assert one_sentence(error)
    (path,) = tmp_path.glob("nonfinite-*.safetensors")
    batch = load_file(path)
    assert batch["counters"].tolist() == list(range(24, 32))
    assert torch.equal(batch["tokens"], ToySource().batch(batch["counters"]).tokens)
    assert newest(tmp_path).step == 2


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_numbers_that_are_not_finite_stop_the_weights_before_anybody_asks(optimizer: str) -> None:
    """As on a GPU: the device leaves the update out by itself, and the next look names the step it happened at."""
    run = replace(SHORT, optimizer=replace(SHORT.optimizer, name=optimizer))
    stepper = Stepper(UDLM(), Exploding(calls=3), ToySource(), run, World(0, 1, torch.device("cpu")))
    stepper.asks_at_once = False
    for step in range(3):
        stepper(step, False)
    stepper.check()
    before = [p.clone() for p in stepper.denoiser.parameters()]
    moments = {
        name: {k: v.clone() for k, v in s.items()} for name, s in stepper.optimizers.state_dict().items()
    }
    stepper(3, False)
    stepper.denoiser.calls = 99  # finite again: still nothing moves
    stepper(4, False)
    assert all(map(torch.equal, stepper.denoiser.parameters(), before))
    for name, state in stepper.optimizers.state_dict().items():
        assert all(torch.equal(value, moments[name][key]) for key, value in state.items())
    with pytest.raises(NonFinite) as error:
        stepper.check()
    assert error.value.step == 3


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_a_first_step_that_is_left_out_leaves_the_optimizer_as_new(optimizer: str) -> None:
    run = replace(SHORT, optimizer=replace(SHORT.optimizer, name=optimizer, warmup=0))
    left_out, new = (run.optimizer.build(toy()) for _ in range(2))
    for optimizers, calls in ((left_out, (True, False)), (new, (False,))):
        for skip in calls:
            for number, p in enumerate(optimizers.parameters.values()):
                p.grad = torch.full_like(p, math.nan) if skip else torch.sin(number + p.detach())
            optimizers.step(3, 10, torch.tensor(skip))
    assert all(map(torch.equal, left_out.parameters.values(), new.parameters.values()))
    for name, state in new.state_dict().items():
        assert all(torch.equal(value, left_out.state_dict()[name][key]) for key, value in state.items())


@pytest.mark.parametrize("every", ["log_every", "save_every", "validate_every", "sample_every"])
def test_a_late_question_comes_before_anything_is_written(tmp_path: Path, every: str) -> None:
    ask_late()
    never = {"log_every": 99, "save_every": 0}
    run = replace(SHORT, steps=99, **{**never, every: 6})
    try:
        with pytest.raises(UserError, match="not finite at step 3") as error:
            fit(tmp_path, Exploding(calls=3), run)
    finally:
        Stepper.__init__ = _INIT  # type: ignore[method-assign]
    assert one_sentence(error) and not checkpoints.stored(tmp_path)
    assert load_file(next(tmp_path.glob("nonfinite-*")))["counters"].tolist() == list(range(24, 32))


def test_data_of_another_vocabulary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="3 categories and the data has 5"):
        fit(tmp_path, toy(vocab_size=3))


def test_a_directory_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match="choose another directory"):
        fit(tmp_path / "file" / "run")
