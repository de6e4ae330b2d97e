"""Two processes that are given the same command, with the same place to write to, one a moment after the other."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from kinds import bits, content, reference, text_command, training
from processes import Child, Failure, finish
from shared import count_letters, frontier_result, study
from stores import suite, suite_numbers

LIKELIHOOD = ["likelihood", "--num", "64", "--draws", "8", "--batch-size", "16", "--device", "cpu", "--out"]


def _nothing() -> None:
    pass


def _timed(command: list[str], place: Path, before: Callable[[], None] = _nothing) -> float:
    began = time.perf_counter()
    code, said = finish(command, place / "words", before)
    if code:
        raise Failure(f"without a fault it ended with {code}: {said}")
    return time.perf_counter() - began


def _both(
    command: list[str], place: Path, delay: float, before: Callable[[], None] = _nothing
) -> tuple[list[int], list[str]]:
    """Exit codes, in order of size, and last words."""
    first = Child(command, place / "first", before)
    time.sleep(delay)
    second = Child(command, place / "second", before)
    codes = sorted((first.wait(), second.wait()))
    return codes, [child.sentence() for child in (first, second)]


def two_on_run(place: Path, chance: random.Random, count: int) -> Counter[str]:
    expected, seconds = reference(place)
    outcomes: Counter[str] = Counter()
    for number in range(count):
        run = place / f"run-{number}"
        codes, said = _both(training(run), place, chance.uniform(0.0, 0.5) * seconds)
        if bits(run) != expected:
            raise Failure("two processes on one run spoiled its weights")
        if codes == [0, 2] and any("is working in" in line for line in said):
            outcomes["one trained, the other got one sentence"] += 1
        elif codes == [0, 0]:
            outcomes["one after the other"] += 1
        else:
            raise Failure(f"two processes on one run ended with {codes}: {said}")
    return outcomes


def two_on_data(place: Path, chance: random.Random, count: int) -> Counter[str]:
    """One prepares, the other waits for it and finds it."""
    seconds = _timed([*text_command(place), "--out", str(place / "whole")], place)
    for number in range(2 * count):
        out = place / f"data-{number}"
        codes, said = _both(
            [*text_command(place), "--out", str(out)], place, chance.uniform(0.0, 1.0) * seconds
        )
        if codes != [0, 0] or content(out) != content(place / "whole"):
            raise Failure(f"two preparations of one directory ended with {codes}: {said}")
    return Counter({"both ended well, the same bits": 2 * count})


def two_on_export(place: Path, chance: random.Random, count: int) -> Counter[str]:
    """Both may write, for they write the same; the one that finds a finished export says so."""
    reference(place, 6)
    command, outcomes = ["export", str(place / "whole")], Counter[str]()
    seconds = _timed([*command, str(place / "good")], place)
    for number in range(2 * count):
        out = place / f"model-{number}"
        delay = (
            chance.uniform(0.0, 1.0) * seconds if number % 2 else 0.0
        )  # an export is quick: also side by side
        codes, said = _both([*command, str(out)], place, delay)
        if codes not in ([0, 0], [0, 2]) or content(out) != content(place / "good"):
            raise Failure(f"two exports to one directory ended with {codes}: {said}")
        manifests = [
            json.loads((each / "manifest.json").read_text())["model"] for each in (out, place / "good")
        ]
        if manifests[0] != manifests[1]:
            raise Failure("two exports to one directory left another manifest")
        told = "both wrote it" if codes == [0, 0] else "one wrote it, the other got one sentence"
        outcomes[f"{told}, the same bits"] += 1
    return outcomes


def two_on_evaluation(place: Path, chance: random.Random, count: int) -> Counter[str]:
    """Both write the same file, whole; afterwards it is as one of them wrote it, and both are equal."""
    reference(place, 6)
    command = ["evaluate", str(place / "whole"), *LIKELIHOOD]
    seconds = _timed([*command, str(place / "good.json")], place)
    expected = json.loads((place / "good.json").read_text())["result"]
    for number in range(2 * count):
        out = place / f"result-{number}.json"
        codes, said = _both([*command, str(out)], place, chance.uniform(0.0, 0.5) * seconds)
        if codes != [0, 0] or json.loads(out.read_text())["result"] != expected:
            raise Failure(f"two evaluations to one file ended with {codes}: {said}")
        finish(["compare", str(out), str(out), "--json"], place / "words")
        if "is not as it was written" in (place / "words").read_text():
            raise Failure("two evaluations to one file left one whose digest does not fit")
    return Counter({"both ended well, one whole result": 2 * count})


def two_on_suite(place: Path, chance: random.Random, count: int) -> Counter[str]:
    """Two processes share the jobs of one directory."""
    seconds = _timed(suite(place / "whole", place / "runs-whole"), place)
    for number in range(count):
        command = suite(place / f"toy-{number}", place / f"runs-{number}")
        codes, said = _both(command, place, chance.uniform(0.0, 0.8) * seconds)
        if codes != [0, 0] or suite_numbers(place / f"toy-{number}") != suite_numbers(place / "whole"):
            raise Failure(f"two processes on one suite ended with {codes}: {said}")
    return Counter({"shared the jobs, the same numbers": count})


def two_on_frontier(place: Path, chance: random.Random, count: int) -> Counter[str]:
    """Two processes share the points of one directory."""
    command = study(place)
    seconds = _timed([*command, "--out", str(place / "whole")], place, count_letters)
    for number in range(count):
        out = place / f"study-{number}"
        delay = chance.uniform(0.0, 0.8) * seconds
        codes, said = _both([*command, "--out", str(out)], place, delay, count_letters)
        if codes != [0, 0] or frontier_result(out) != frontier_result(place / "whole"):
            raise Failure(f"two processes on one frontier ended with {codes}: {said}")
    return Counter({"shared the points, the same numbers": count})
