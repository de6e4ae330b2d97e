"""Starting from another run reads what it needs once, and keeps nothing of it."""

from __future__ import annotations

import gc
import hashlib
import weakref
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

from simplax.io.files import sha256
from simplax.train import checkpoint as checkpoints
from test_train_toy import SHORT, fit, newest, toy

STEP = "step-000000006"
WAYS: dict[str, dict[str, Any]] = {
    "run": {"init_from": "first"},
    "checkpoint": {"init_from": f"first/checkpoints/{STEP}"},
    "decay": {"init_from": "first", "decay_from": True},
}


@pytest.fixture
def first(tmp_path: Path) -> Path:
    fit(tmp_path / "first")
    return tmp_path


@pytest.mark.parametrize("way", WAYS)
def test_each_file_is_hashed_once(first: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    counted: Counter[str] = Counter()
    original = hashlib.file_digest

    def digest(file: Any, kind: str) -> Any:
        path = Path(file.name).resolve()
        if path.is_relative_to(first / "first"):
            counted[path.name] += 1
        return original(file, kind)  # type: ignore[arg-type]

    monkeypatch.setattr(hashlib, "file_digest", digest)
    options = {**WAYS[way], "init_from": first / WAYS[way]["init_from"]}
    fit(first / "second", toy(seed=1), replace(SHORT, steps=10), **options)
    assert counted == {"weights.safetensors": 1, "ema.safetensors": 1, "optimizer.pt": 1}
    began = newest(first / "second").state["progress"]["started_from"]
    assert began["sha256"] == sha256(first / "first" / "checkpoints" / STEP / "weights.safetensors")


def test_the_digest_of_shares_is_that_of_their_directory(tmp_path: Path) -> None:
    (tmp_path / "weights").mkdir()
    digests = {"ema/shard-1": "of the average", "optimizer/shard-1": "of the optimizer"}
    for name in ("shard-2", "shard-1"):
        (tmp_path / "weights" / name).write_text(name)
        digests[f"weights/{name}"] = sha256(tmp_path / "weights" / name)
    assert checkpoints.weights_digest(tmp_path, {"sha256": digests}) == sha256(tmp_path / "weights")


class Watcher:
    """Looks, when the first row is written, which of the loaded tensors are still there."""

    def __init__(self) -> None:
        self.loaded: dict[str, list[weakref.ref[Tensor]]] = {"tensors": [], "optimizer": []}
        self.alive: dict[str, int] | None = None

    def log(self, step: int, values: dict[str, float]) -> None:
        if self.alive is None and "loss" in values:
            gc.collect()
            self.alive = {kind: sum(ref() is not None for ref in refs) for kind, refs in self.loaded.items()}


@pytest.mark.parametrize("way", [*WAYS, "resume"])
def test_nothing_loaded_stays_alive(first: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """But the optimizer's state where the run goes on with it: it is used as it was read, not copied."""
    watcher, original = Watcher(), checkpoints.load

    def load(*arguments: Any, **options: Any) -> checkpoints.Checkpoint:
        found = original(*arguments, **options)
        watcher.loaded["tensors"] += map(weakref.ref, [*found.weights.values(), *found.ema.values()])
        states = found.optimizer.values()
        watcher.loaded["optimizer"] += [weakref.ref(value) for state in states for value in state.values()]
        return found

    monkeypatch.setattr(checkpoints, "load", load)
    options = {**WAYS[way], "init_from": first / WAYS[way]["init_from"]} if way in WAYS else {}
    fit(first / ("second" if options else "first"), run=replace(SHORT, steps=10), hooks=[watcher], **options)
    assert watcher.loaded["tensors"] and watcher.alive is not None
    kept = len(watcher.loaded["optimizer"]) if way in ("decay", "resume") else 0
    assert watcher.alive == {"tensors": 0, "optimizer": kept}
