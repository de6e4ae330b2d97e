"""Damage to low-rank adapters: the run that trains them, with the frozen weights beside it, and what it exports."""

from __future__ import annotations

import importlib.util
import random
import shutil
from collections import Counter
from pathlib import Path

import torch
from kinds import SAID, SAME, damage, damage_model, damages, files_below, reference, training
from processes import Failure, finish
from shared import weights


def _adapted(place: Path, name: str, steps: int) -> list[str]:
    small = ["--lora.rank", "2", "--init-from", str(place / "whole")]
    return [*training(place / name, steps), *small]


def damage_adapters(place: Path, chance: random.Random, count: int) -> Counter[str]:
    """Every second time a file of the run, otherwise one of the exported adapters."""
    if importlib.util.find_spec("peft") is None:
        return Counter({"skipped: peft is not installed": 1})
    import peft  # noqa: F401  (once, before the processes fork)

    reference(place, 6)
    for name, steps in (("part", 6), ("longer", 9)):
        code, said = finish(_adapted(place, name, steps), place / "words")
        if code:
            raise Failure(f"adapters without a fault ended with {code}: {said}")
    expected = weights(place / "longer")
    files = [path for path in files_below(place / "part") if path.parts[0] != "best"]
    outcomes: Counter[str] = Counter()
    for path, how in damages(files, chance, (count + 1) // 2):
        shutil.rmtree(place / "run", ignore_errors=True)
        shutil.copytree(place / "part", place / "run", symlinks=True)
        damage(place / "run" / path, how, chance)
        code, _ = finish(_adapted(place, "run", 9), place / "words")
        if code == 0 and not all(map(torch.equal, weights(place / "run"), expected)):
            raise Failure(f"{path} {how}: the adapters went on to other weights")
        outcomes[f"{path.name} {how}: {SAME if code == 0 else SAID}"] += 1
    finish(["export", str(place / "part"), str(place / "good"), "--adapter"], place / "words")
    found = damage_model(place, chance, count // 2)
    return outcomes + Counter({f"export, {outcome}": times for outcome, times in found.items()})
