"""A step reads nothing of the device: on a GPU it would wait for it. The CPU stands for the device here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from simplax.errors import UserError
from simplax.methods import METHODS
from simplax.nn import Architecture, Network
from simplax.random import Keys
from simplax.train import session, step, train
from simplax.train.distributed import World
from simplax.train.step import Stepper
from test_train_failures import Exploding
from test_train_toy import _INIT, LENGTH, SHORT, VOCAB, ToySource, ask_late, fit

READS = {"_local_scalar_dense", "equal", "nonzero", "masked_select", "_unique2", "unique_dim"}
NANO = Architecture(width=16, depth=1, heads=2, cond_dim=8)


class Read(Exception):
    """A number of the device was wanted."""


class NoReads(TorchDispatchMode):
    """Refuses what needs a value, or the number of true elements, before the next operation can be asked for."""

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        name = function._schema.name.removeprefix("aten::")
        by_mask = name in ("index", "index_put", "index_put_") and any(
            isinstance(index, Tensor) and index.dtype == torch.bool for index in arguments[1]
        )
        fills = by_mask and name != "index" and arguments[2].numel() == 1  # where the mask holds
        if name in READS or (by_mask and not fills):
            raise Read(name)
        return function(*arguments, **(options or {}))


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """As on a GPU: what only a CPU does is not done, and numbers of the host's own are made beforehand."""
    ask_late()
    monkeypatch.setattr(step, "dropout_seed", lambda *place: hash(place))
    monkeypatch.setattr(Network, "_static_shapes", lambda self: True)
    monkeypatch.setattr(torch.nn.functional, "one_hot", one_hot)
    monkeypatch.setattr(
        Keys, "log_gamma", unwatched(Keys.log_gamma)
    )  # stops early on a CPU alone: see test_devices
    yield monkeypatch
    Stepper.__init__ = _INIT  # type: ignore[method-assign]


def one_hot(tokens: Tensor, size: int) -> Tensor:
    """As torch makes it on a GPU, where it does not look at the tokens first."""
    return torch.zeros(*tokens.shape, size, dtype=torch.long).scatter(-1, tokens.unsqueeze(-1), 1)


def unwatched(original: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def call(*arguments: Any) -> Tensor:
        with _disable_current_modes():
            return original(*arguments)

    return call


def watched(original: Callable[..., Any], due: Callable[[Any], bool]) -> Callable[..., Any]:
    def call(self: Any, *arguments: Any) -> Any:
        if due(self):
            return original(self, *arguments)
        with NoReads():
            return original(self, *arguments)

    return call


@pytest.mark.parametrize(
    ("name", "optimizer"), [*((name, "adamw") for name in METHODS), ("simplax", "muon"), ("ar", "muon")]
)
def test_a_step_that_does_not_log_reads_nothing(
    tmp_path: Path, refusing: pytest.MonkeyPatch, name: str, optimizer: str
) -> None:
    """The step itself and what surrounds it in a run, once constants of the method are there."""
    run = replace(SHORT, log_every=3, save_every=0, steps=8, accumulate=2)
    run = replace(run, optimizer=replace(run.optimizer, name=optimizer))
    method: Any = METHODS[name]()
    denoiser = method.build(VOCAB, LENGTH, NANO)
    logs = lambda self: self._due(run.log_every)  # noqa: E731
    first = lambda self: self.progress.step == 0  # noqa: E731
    refusing.setattr(session.Session, "_step", watched(session.Session._step, first))
    refusing.setattr(session.Session, "_between_steps", watched(session.Session._between_steps, logs))
    result = train(method, denoiser, ToySource(), run, tmp_path, device="cpu", quiet=True)
    assert result.step == 8 and result.loss > 0


def test_reads_are_noticed(tmp_path: Path, refusing: pytest.MonkeyPatch) -> None:
    """The refusal is no idle one: asking at once, as on a CPU, is found."""
    stepper = Stepper(
        METHODS["udlm"](), METHODS["udlm"]().build(VOCAB, LENGTH, NANO), ToySource(), SHORT, WORLD
    )
    stepper.asks_at_once = True
    with pytest.raises(Read, match="_local_scalar_dense"), NoReads():
        stepper(0, False)
    stepper.batches.close()
    with pytest.raises(Read, match="index"), NoReads():
        torch.ones(3)[torch.ones(3) > 0]
    refusing.setattr(session.Session, "_step", watched(session.Session._step, lambda self: False))
    with pytest.raises(UserError, match="not finite at step 3"):  # which is asked for where it logs
        fit(tmp_path, Exploding(calls=3), replace(SHORT, save_every=0, log_every=5))


WORLD = World(0, 1, torch.device("cpu"))
