"""The small problem that the trainer's tests share, and the processes they start and kill.

Run as a program it trains in a process of its own, one job after the other: `python test_train_toy.py '[{...}]'`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from collectives import assert_parted, counted
from simplax.io.sharding import join
from simplax.methods import UDLM
from simplax.nn import Architecture
from simplax.nn.network import fusing
from simplax.objectives._fused_function import FusedLoss
from simplax.random import Keys
from simplax.train import Optimizer, Result, Run, train
from simplax.train import checkpoint as checkpoints
from simplax.train import metrics as metric_rows
from simplax.train.step import Stepper
from simplax.typing import Batch

VOCAB, LENGTH = 5, 6
TIMINGS = ("tokens_per_second", "time")


@dataclass(frozen=True)
class ToySource:
    """Runs of consecutive ids; the share of given positions varies, so that counts of scored tokens do too."""

    vocab_size: int = VOCAB
    length: int = LENGTH

    def batch(self, indices: Tensor) -> Batch:
        keys = Keys.from_seeds(indices)
        tokens = (keys.randint(VOCAB, 1) + torch.arange(LENGTH)) % VOCAB
        given = keys.fold_in(1).uniform(LENGTH) < keys.fold_in(2).uniform(1) * 0.8
        return Batch.of(tokens, given)


class Block(nn.Module):
    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.mix, self.out, self.drop = nn.Linear(width, width), nn.Linear(width, width), nn.Dropout(dropout)

    def forward(self, h: Tensor) -> Tensor:
        return h + self.drop(self.out(torch.tanh(self.mix(h) + h.mean(1, keepdim=True))))


class ToyDenoiser(nn.Module):
    """A foreign network: it knows nothing of `simplax.nn`."""

    def __init__(self, dropout: float = 0.0, width: int = 8, vocab_size: int = VOCAB) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        self.embed = nn.Embedding(vocab_size, width)
        self.place = nn.Parameter(torch.randn(LENGTH, width))
        self.blocks = nn.ModuleList(Block(width, dropout) for _ in range(2))
        self.head = nn.Linear(width, vocab_size)
        self.register_buffer("scale", torch.tensor(1.0))

    def forward(self, z: Tensor, t: Tensor) -> Tensor:
        h = self.embed(z) * self.place + t[:, None, None]
        for block in self.blocks:
            h = block(h)
        return self.head(h) * self.scale


def toy(seed: int = 0, **options: Any) -> ToyDenoiser:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return ToyDenoiser(**options)


FAST = Optimizer(learning_rate=0.05, warmup=2)
SHORT = Run(steps=6, batch_size=8, log_every=2, save_every=2, ema=0.9, optimizer=FAST, precision="float32")


def fit(directory: Path, denoiser: nn.Module | None = None, run: Run = SHORT, **options: Any) -> Result:
    denoiser = toy() if denoiser is None else denoiser
    return train(UDLM(), denoiser, ToySource(), run, directory, device="cpu", quiet=True, **options)


def rows(directory: Path, timings: bool = False) -> list[dict[str, Any]]:
    found = metric_rows.read(directory / "metrics.jsonl")
    return [{k: v for k, v in row.items() if timings or k not in TIMINGS} for row in found]


def newest(directory: Path) -> checkpoints.Checkpoint:
    path = checkpoints.find(directory)
    assert path is not None
    return checkpoints.load(path)


def assert_same_run(one: Path, two: Path) -> None:
    """Weights, average, optimizer state and metrics agree to the last bit."""
    a, b = newest(one), newest(two)
    assert a.step == b.step
    for left, right in ((a.weights, b.weights), (a.ema, b.ema)):
        assert left.keys() == right.keys()
        assert all(torch.equal(left[name], right[name]) for name in left)
    for name, state in a.optimizer.items():
        assert all(torch.equal(value, b.optimizer[name][key]) for key, value in state.items())
    assert rows(one) == rows(two)
    without = lambda state: {k: v for k, v in state["progress"].items() if k != "seconds"}  # noqa: E731
    assert without(a.state) == without(b.state)


def worker(jobs: list[dict[str, Any]], processes: int = 1) -> subprocess.CompletedProcess[str]:
    """Do jobs in other processes, started by torchrun if there is more than one; starting them is what takes time."""
    launcher = [sys.executable]
    if processes > 1:
        launcher += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    return subprocess.run(
        [*launcher, __file__, json.dumps(jobs)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
    )


class Stop(Exception):
    """Raised in the middle of a run by a source that was told to."""


def _stop() -> None:
    raise Stop


def _kill_myself(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _signal_myself(number: int) -> None:
    os.kill(os.getpid(), number)


class _At:
    """A source that does something to its own process when a chosen step's data is asked for."""

    def __init__(self, step: int, action: Callable[[], None]) -> None:
        self.step, self.action = step, action
        self.vocab_size, self.length = VOCAB, LENGTH

    def batch(self, indices: Tensor) -> Batch:
        if int(indices[0]) // SHORT.batch_size == self.step:
            self.action()
        return ToySource().batch(indices)


def _patch_save(point: str, step: int) -> None:
    """Die inside the save of one step: before a file is written, before the rename, or before `latest` moves."""
    module, name = {
        "tensors": (checkpoints, "write_tensors"),
        "optimizer": (checkpoints, "_write_optimizer"),
        "rename": (checkpoints, "_replace_directory"),
        "pointer": (checkpoints, "write_text"),
        "prune": (checkpoints, "_prune"),
    }[point]
    original = getattr(module, name)

    def deadly(*arguments: Any, **options: Any) -> Any:
        if f"{step:09d}" in repr(arguments) or (point == "prune" and step in arguments):
            _kill_myself()
        return original(*arguments, **options)

    setattr(module, name, deadly)


def source_of(job: dict[str, Any]) -> Any:
    actions = {
        "kill_at": _kill_myself,
        "stop_at": _stop,
        "signal_at": lambda: _signal_myself(job["signal"]),
    }
    for name, action in actions.items():
        if name in job:
            return _At(job[name], action)
    return ToySource()


def float32_orthogonal(
    gradient: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensor:
    """Muon's Newton-Schulz iteration without its rounding to bfloat16, so that runs can be compared closely."""
    a, b, c = coefficients
    tall = gradient.shape[0] > gradient.shape[1]
    x = gradient.T if tall else gradient
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x


def own_network() -> nn.Module:
    """A network whose loss can be fused with its projection; no weight starts at zero."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        shape = Architecture(width=16, depth=2, heads=2, cond_dim=8, soft_cap=20.0)
        denoiser = UDLM().build(VOCAB, LENGTH, shape)
        for parameter in denoiser.parameters():
            nn.init.normal_(parameter, std=0.2)
    return denoiser


@contextmanager
def fused_losses(fused: bool | None) -> Iterator[None]:
    """Fuse losses of any vocabulary, or none; and see to it that this is what happens. None leaves all as it is."""
    if fused is None:
        yield
        return
    calls, apply = [], FusedLoss.apply
    FusedLoss.apply = lambda *arguments: calls.append(arguments) or apply(*arguments)  # type: ignore
    try:
        with fusing(1 if fused else None):
            yield
    finally:
        FusedLoss.apply = apply  # type: ignore[method-assign]
    assert bool(calls) == fused
    assert not any(hasattr(weight, "placements") for _, weight, *_ in calls)


def work(job: dict[str, Any]) -> None:
    """One call of `train` as a job describes it, with one thread, in this process."""
    options = dict(job.get("run", {}))
    optimizer = replace(FAST, **options.pop("optimizer", {}))
    run = replace(SHORT, optimizer=optimizer, **options)
    if "kill_in_save" in job:
        _patch_save(*job["kill_in_save"])
    validation = ToySource() if run.validate_every else None
    denoiser: nn.Module = own_network() if "fused" in job else toy(**job.get("network", {}))
    if job.get("asks_late"):
        ask_late()
    rounded = torch.optim._muon._zeropower_via_newtonschulz
    if job.get("float32_muon"):
        torch.optim._muon._zeropower_via_newtonschulz = float32_orthogonal
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # sums are split by thread, so bits are compared at one number of them
    try:
        with fused_losses(job.get("fused")), counted(Path(job["directory"]) if job.get("counted") else None):
            train(
                UDLM(),
                denoiser,
                source_of(job),
                run,
                job["directory"],
                validation=validation,
                config={},
                init_from=job.get("init_from"),
                decay_from=job.get("decay_from", False),
                device="cpu",
            )
    except Stop:
        assert "stop_at" in job
    finally:
        torch.set_num_threads(threads)
        torch.optim._muon._zeropower_via_newtonschulz = rounded
        Stepper.__init__ = _INIT  # type: ignore[method-assign]


_INIT = Stepper.__init__


def ask_late() -> None:
    """Let steps behave as on a GPU: whether numbers are finite is asked only when somebody looks."""

    def late(self: Stepper, *arguments: Any) -> None:
        _INIT(self, *arguments)
        self.asks_at_once = False

    Stepper.__init__ = late  # type: ignore[method-assign]


def main(jobs: list[dict[str, Any]]) -> int:
    shared = len(jobs) > 1 and "WORLD_SIZE" in os.environ
    if shared:  # a group that is already there is used and left alone
        join("gloo")
    status = 0
    try:
        for job in jobs:
            work(job)
    except SystemExit as end:
        status = int(end.code or 0)
    if shared:
        torch.distributed.destroy_process_group()
    assert_parted()
    return status


def test_training_learns_the_toy_problem(tmp_path: Path) -> None:
    optimizer = replace(FAST, learning_rate=0.02)
    run = replace(SHORT, steps=150, batch_size=64, log_every=25, save_every=0, optimizer=optimizer)
    result = fit(tmp_path, toy(width=32), run)
    losses = [row["loss"] for row in rows(tmp_path) if "loss" in row]
    assert result.step == 150 and len(losses) == 6
    assert losses[-1] < 0.7 * losses[0]
    assert result.loss == losses[-1]


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_training_is_a_function_of_its_arguments(tmp_path: Path, name: str) -> None:
    run = replace(SHORT, optimizer=replace(FAST, name=name))
    torch.manual_seed(1)
    fit(tmp_path / "a", run=run)
    torch.manual_seed(2)
    fit(tmp_path / "b", run=run)
    assert_same_run(tmp_path / "a", tmp_path / "b")


def test_the_callers_random_state_is_its_own(tmp_path: Path) -> None:
    torch.manual_seed(3)
    expected = torch.rand(3)
    torch.manual_seed(3)
    fit(tmp_path)
    assert torch.equal(torch.rand(3), expected)


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
