"""Faults of stored results: damaged suites, evaluations and shares of a checkpoint, and two processes at once."""

from __future__ import annotations

import json
import random
import shutil
import time
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from kinds import SAID, SAME, damage, files_below, reference, training
from processes import Child, Failure, finish
from shared import both_end, count_letters, frontier_result, pair, study, weights


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


def two_on_frontier(place: Path, chance: random.Random, count: int) -> Counter[str]:
    """Two processes share the points of one directory."""
    command = study(place)
    began = time.perf_counter()
    finish([*command, "--out", str(place / "whole")], place / "words", count_letters)
    seconds, expected = time.perf_counter() - began, frontier_result(place / "whole")
    for number in range(count):
        out = place / f"study-{number}"
        first = Child([*command, "--out", str(out)], place / "first", count_letters)
        time.sleep(chance.uniform(0.0, 0.8) * seconds)
        second = Child([*command, "--out", str(out)], place / "second", count_letters)
        codes, said = [first.wait(), second.wait()], [first.sentence(), second.sentence()]
        if codes != [0, 0] or frontier_result(out) != expected:
            raise Failure(f"two processes on one frontier ended with {codes}: {said}")
    return Counter({"shared the points, the same numbers": count})


def damage_evaluation(place: Path, chance: random.Random, count: int) -> Counter[str]:
    """What an evaluation wrote is compared, or refused; a line warns where a number may have changed."""
    reference(place, 6)
    good, bad, words = place / "good.json", place / "bad.json", place / "words"
    evaluate = ["evaluate", str(place / "whole"), "likelihood", "--num", "8", "--draws", "2"]
    finish([*evaluate, "--device", "cpu", "--out", str(good)], words)
    compare = ["compare", str(good), str(bad), "--json"]

    def shown() -> list[Any]:
        said = words.read_text(encoding="utf-8")
        return [row["values"] for rows in json.loads(said[said.index("{") :]).values() for row in rows]

    shutil.copy(good, bad)
    finish(compare, words)
    expected = shown()
    outcomes: Counter[str] = Counter()
    for _ in range(count):
        shutil.copy(good, bad)
        how = damage(bad, chance)
        code, _ = finish(compare, words)
        warned = "is not as it was written" in words.read_text(encoding="utf-8", errors="replace")
        if code == 0 and not warned and shown() != expected:
            raise Failure(f"a result was {how}, and other numbers were shown")
        outcomes[
            f"{how}: {SAID if code else 'shown, and a line warns' if warned else 'the same numbers'}"
        ] += 1
    return outcomes


def damage_shares(place: Path, chance: random.Random, count: int) -> Counter[str]:
    """One file of a checkpoint that two processes wrote by FSDP2; one process goes on from it."""
    sharded = ["--run.sharding", "fsdp"]
    both_end(pair([*training(place / "part", 6), *sharded], place))
    shutil.copytree(place / "part", place / "whole", symlinks=True)
    finish(training(place / "whole", 9), place / "words")
    expected = weights(place / "whole")
    files = [path for path in files_below(place / "part") if path.parts[0] == "checkpoints"]
    outcomes: Counter[str] = Counter()
    for _ in range(max(1, count // 4)):
        shutil.rmtree(place / "run", ignore_errors=True)
        shutil.copytree(place / "part", place / "run", symlinks=True)
        path = chance.choice(files)
        how = damage(place / "run" / path, chance)
        code, _ = finish(training(place / "run", 9), place / "words")
        if code == 0 and not all(
            torch.equal(a, b) for a, b in zip(weights(place / "run"), expected, strict=True)
        ):
            raise Failure(f"{path} {how}: the run went on to other weights")
        kind = "shares" if path.suffix == ".distcp" else path.name
        outcomes[f"{kind} {how}: {SAME if code == 0 else SAID}"] += 1
    return outcomes
