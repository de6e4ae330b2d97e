"""Faults of the directory of a suite: damaged files, and two processes at once."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

from kinds import damage, files_below
from processes import Child, Failure, finish


def suite(out: Path, runs: Path) -> list[str]:
    small = ["--budget-steps", "2", "--num", "2", "--precision", "float32", "--device", "cpu"]
    return ["suite", "run", "toy", "--out", str(out), "--runs", str(runs), *small]


def suite_numbers(out: Path) -> dict[str, Any]:
    """What was measured and chosen, without times."""
    found = {}
    for path in sorted((out / "results").glob("*.json")):
        record = json.loads(path.read_text())
        points = {key: point["values"] for key, point in record["points"].items()}
        scores = [[each["score"] for each in tries] for tries in record["development"].values()]
        found[path.name] = record["manifest"]["model"]["sha256"], record["chosen"], points, scores
    return found


def damage_suite(place: Path, chance: random.Random, count: int) -> Counter[str]:
    """The same command measures what was damaged again, or says which row cannot be."""
    finish(suite(place / "whole", place / "runs"), place / "words")
    expected = suite_numbers(place / "whole")
    files, outcomes = files_below(place / "whole"), Counter[str]()
    for _ in range(max(1, count // 8)):  # each may measure again: slower than the others
        shutil.rmtree(place / "toy", ignore_errors=True)
        shutil.copytree(place / "whole", place / "toy")
        path = chance.choice(files)
        how = damage(place / "toy" / path, chance)
        code, _ = finish(suite(place / "toy", place / "runs"), place / "words", allowed=(0, 1, 2))
        if code == 0 and suite_numbers(place / "toy") != expected:
            raise Failure(f"{path} {how}: the suite has other numbers")
        outcome = ("the same numbers", "the row is shown as failed", "one sentence")[code]
        outcomes[f"{path.parts[0]}/*{path.suffix} {how}: {outcome}"] += 1
    return outcomes


def two_on_suite(place: Path, chance: random.Random, count: int) -> Counter[str]:
    """Two processes share the jobs of one directory."""
    began = time.perf_counter()
    finish(suite(place / "whole", place / "runs-whole"), place / "words")
    seconds = time.perf_counter() - began
    for number in range(count):
        command = suite(place / f"toy-{number}", place / f"runs-{number}")
        first = Child(command, place / "first")
        time.sleep(chance.uniform(0.0, 0.8) * seconds)
        second = Child(command, place / "second")
        codes, said = [first.wait(), second.wait()], [first.sentence(), second.sentence()]
        if codes != [0, 0] or suite_numbers(place / f"toy-{number}") != suite_numbers(place / "whole"):
            raise Failure(f"two processes on one suite ended with {codes}: {said}")
    return Counter({"shared the jobs, the same numbers": count})
