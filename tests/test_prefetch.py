"""The next batch is made while a step trains, in a thread that ends."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from simplax.methods import UDLM
from simplax.train import train
from simplax.train.prefetch import Part, Prefetch
from simplax.typing import Batch
from test_train_toy import SHORT, ToySource, newest, toy

CPU = torch.device("cpu")
PATIENCE = 60.0  # of a test that would otherwise hang where the code is wrong


def workers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("batches")]


def test_the_next_batch_is_made_during_a_step_and_no_further_one() -> None:
    made: dict[int, threading.Event] = {step: threading.Event() for step in range(4)}
    names: list[str] = []

    def make(step: int) -> list[Part]:
        names.append(threading.current_thread().name)
        made[step].set()
        return [(torch.tensor([step]),)]

    batches = Prefetch(make, 4, CPU)
    for step in range(4):
        ((tensor,),) = batches(step)
        assert tensor.tolist() == [step]
        if step < 3:  # nobody has asked for it
            assert made[step + 1].wait(PATIENCE)
        assert not any(made[later].is_set() for later in range(step + 2, 4))
    assert len(names) == 4 and all(name.startswith("batches") for name in names)
    batches.close()
    assert not workers()


def test_a_run_makes_the_batch_of_the_next_step_while_one_trains(tmp_path: Path) -> None:
    """The source sees, in its thread, the steps that the network has begun: one fewer than batches, not more."""
    begun, seen = [threading.Event() for _ in range(6)], []

    class Watched(ToySource):
        def batch(self, indices: Tensor) -> Batch:
            step = int(indices[0]) // 8
            seen.append((step, threading.current_thread() is threading.main_thread()))
            begun[step].set()
            return super().batch(indices)

    class Waits(torch.nn.Module):
        """Its pass of step n ends only when the batch of step n + 1 is under way."""

        def __init__(self) -> None:
            super().__init__()
            self.inner, self.vocab_size, self.passes = toy(), 5, 0

        def forward(self, z: Tensor, t: Tensor) -> Tensor:
            self.passes += 1
            if self.passes < 6:
                assert begun[self.passes].wait(PATIENCE)
            return self.inner(z, t)

    train(UDLM(), Waits(), Watched(), SHORT, tmp_path, device="cpu", quiet=True)
    assert seen == [(step, False) for step in range(6)] and not workers()


def test_an_error_is_raised_at_its_step_and_not_before() -> None:
    def make(step: int) -> list[Part]:
        if step == 2:
            raise OSError("the disk of step 2")
        return [(torch.tensor([step]),)]

    batches = Prefetch(make, 5, CPU)
    assert [int(part[0]) for step in (0, 1) for part in batches(step)] == [0, 1]
    with pytest.raises(OSError, match="step 2"):
        list(batches(2))
    batches.close()
    assert not workers()


def test_a_run_that_fails_ends_its_thread(tmp_path: Path) -> None:
    class Failing(ToySource):
        def batch(self, indices: Tensor) -> Batch:
            if int(indices[0]) // 8 == 3:
                raise OSError("gone")
            return super().batch(indices)

    with pytest.raises(OSError, match="gone"):
        train(UDLM(), toy(), Failing(), SHORT, tmp_path, device="cpu", quiet=True)
    assert newest(tmp_path).step == 2 and not workers()


def test_close_does_not_wait_for_batches_that_nobody_wants() -> None:
    gate, made = threading.Event(), []

    def make(step: int) -> list[Part]:
        made.append(step)
        if step == 1:
            assert gate.wait(PATIENCE)
        return [(torch.zeros(1),)]

    batches = Prefetch(make, 10, CPU)
    list(batches(0))
    batches._submit(5)  # behind the one that is being made
    closing = threading.Thread(target=batches.close)
    closing.start()
    gate.set()
    closing.join(PATIENCE)
    assert not closing.is_alive() and not workers() and 5 not in made


@pytest.mark.parametrize(("device", "pinned"), [("cuda", 4), ("cpu", 0)])
def test_memory_is_pinned_for_a_gpu(monkeypatch: pytest.MonkeyPatch, device: str, pinned: int) -> None:
    """Every tensor of a part, also those inside a batch, in the worker thread; and it is sent without waiting."""
    pins: list[str] = []
    sent: list[tuple[Any, bool]] = []

    def pin(self: Tensor) -> Tensor:
        pins.append(threading.current_thread().name)
        return self

    def to(self: Tensor, place: Any, non_blocking: bool = False) -> Tensor:
        sent.append((place, non_blocking))
        return self

    tokens = torch.zeros(2, 3, dtype=torch.long)
    batch = Batch(tokens, tokens > 0, tokens == 0)
    monkeypatch.setattr(Tensor, "pin_memory", pin)
    monkeypatch.setattr(Tensor, "to", to)
    batches = Prefetch(lambda step: [(batch, torch.zeros(2), "a word")], 1, torch.device(device))
    ((moved, _, word),) = batches(0)
    batches.close()
    assert len(pins) == pinned and all(name.startswith("batches") for name in pins)
    assert sent == [(torch.device(device), True)] * 4
    assert isinstance(moved, Batch) and word == "a word"
