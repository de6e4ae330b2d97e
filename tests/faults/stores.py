"""Damage to what is stored besides runs and exports: suites, results, and shares of a checkpoint."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from kinds import SAID, SAME, damage, damages, files_below, reference, training
from processes import Failure, finish
from shared import both_end, pair, weights


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
    for path, how in damages(files, chance, count):
        shutil.rmtree(place / "toy", ignore_errors=True)
        shutil.copytree(place / "whole", place / "toy")
        damage(place / "toy" / path, how, chance)
        code, _ = finish(suite(place / "toy", place / "runs"), place / "words", allowed=(0, 1, 2))
        if code == 0 and suite_numbers(place / "toy") != expected:
            raise Failure(f"{path} {how}: the suite has other numbers")
        outcome = ("the same numbers", "the row is shown as failed", "one sentence")[code]
        outcomes[f"{path.parts[0]}/*{path.suffix} {how}: {outcome}"] += 1
    return outcomes


def damage_results(place: Path, chance: random.Random, count: int) -> Counter[str]:
    """What evaluations and sweeps wrote is compared, or refused; a line warns where a number may have changed.

    The same sweep goes on with its file if it is intact, and otherwise says what to do.
    """
    words, good, swept = place / "words", place / "likelihood.json", place / "sweep.json"
    reference(place, 6)
    evaluate = ["evaluate", str(place / "whole"), "likelihood", "--num", "8", "--draws", "2"]
    finish([*evaluate, "--device", "cpu", "--out", str(good)], words)
    boards = ["train", "sudoku4-simplax", "--smoke", "--run.steps", "2", "--device", "cpu"]
    finish([*boards, "--out", str(place / "boards")], words)
    settings = ["--clues", "6", "--steps", "2", "--num", "2", "--eta", "1", "3", "--device", "cpu"]
    sweep = ["sweep", str(place / "boards"), *settings, "--out"]
    finish([*sweep, str(swept)], words)

    def shown(said: str) -> list[Any]:
        return [row["values"] for rows in json.loads(said[said.index("{") :]).values() for row in rows]

    bad, expected = place / "bad.json", dict[Path, list[Any]]()
    for file in (good, swept):
        shutil.copy(file, bad)
        finish(["compare", str(file), str(bad), "--json"], words)
        expected[file] = shown(words.read_text(encoding="utf-8"))
    outcomes: Counter[str] = Counter()
    for number, (file, how) in enumerate(damages([good, swept], chance, count)):
        shutil.copy(file, bad)
        damage(bad, how, chance)
        if file == swept and number % 4 < 2:
            before = bad.read_bytes()
            code, _ = finish([*sweep, str(bad)], words)
            if code == 0 and _points(bad) != _points(swept):
                raise Failure(f"a sweep was {how}, and went on with other numbers")
            if code and bad.read_bytes() != before:
                raise Failure(f"a sweep was {how}, and the file was written over")
            outcomes[f"sweep {how}, and continued: {SAID if code else 'the same numbers'}"] += 1
            continue
        code, _ = finish(["compare", str(file), str(bad), "--json"], words)
        said = words.read_text(encoding="utf-8", errors="replace")
        warned = "is not as it was written" in said
        if code == 0 and not warned and shown(said) != expected[file]:
            raise Failure(f"a result was {how}, and other numbers were shown")
        what = SAID if code else "shown, and a line warns" if warned else "the same numbers"
        outcomes[f"{file.stem} {how}, and compared: {what}"] += 1
    return outcomes


def _points(file: Path) -> list[dict[str, Any]]:
    points: list[dict[str, Any]] = json.loads(file.read_text())["result"]
    return points


def damage_shares(place: Path, chance: random.Random, count: int) -> Counter[str]:
    """One file of a checkpoint that two processes wrote by FSDP2; one process goes on from it."""
    sharded = ["--run.sharding", "fsdp"]
    both_end(pair([*training(place / "part", 6), *sharded], place))
    shutil.copytree(place / "part", place / "whole", symlinks=True)
    finish(training(place / "whole", 9), place / "words")
    expected = weights(place / "whole")
    files = [path for path in files_below(place / "part") if path.parts[0] == "checkpoints"]
    outcomes: Counter[str] = Counter()
    for path, how in damages(files, chance, count):
        shutil.rmtree(place / "run", ignore_errors=True)
        shutil.copytree(place / "part", place / "run", symlinks=True)
        damage(place / "run" / path, how, chance)
        code, _ = finish(training(place / "run", 9), place / "words")
        if code == 0 and not all(
            torch.equal(a, b) for a, b in zip(weights(place / "run"), expected, strict=True)
        ):
            raise Failure(f"{path} {how}: the run went on to other weights")
        kind = "shares" if path.suffix == ".distcp" else path.name
        outcomes[f"{kind} {how}: {SAME if code == 0 else SAID}"] += 1
    return outcomes
