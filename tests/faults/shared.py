"""Faults of work that several processes do or that leaves results: two ranks, evaluations, frontiers, clocks."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from kinds import SAID, SAME, bits, damage, damages, files_below, reference, text_command, training
from processes import Child, Failure, finish

sys.path.insert(0, str(Path(__file__).parents[1]))  # the small text study of the tests

from simplax.io import lock as locks
from simplax.pretrained.model import from_pretrained

PATIENCE = (
    60.0  # seconds after which a process that lost the others counts as stuck, and is ended as torchrun would
)


def _port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def pair(command: list[str], place: Path) -> list[Child]:
    """The command in two processes that know of each other, as torchrun starts them."""
    port = _port()

    def rank(number: int) -> Callable[[], None]:
        values = {
            "RANK": number,
            "LOCAL_RANK": number,
            "WORLD_SIZE": 2,
            "LOCAL_WORLD_SIZE": 2,
            "MASTER_PORT": port,
        }

        def before() -> None:
            os.environ.update({name: str(value) for name, value in values.items()}, MASTER_ADDR="127.0.0.1")

        return before

    return [Child(command, place / f"words-{number}", rank(number)) for number in range(2)]


def weights(run: Path) -> list[torch.Tensor]:
    """All weights and their average, whether in one file or in shares."""
    kinds: tuple[Any, ...] = ("raw", "ema")
    return [t for kind in kinds for t in from_pretrained(run, weights=kind).denoiser.state_dict().values()]


def both_end(children: list[Child]) -> None:
    codes = [child.wait() for child in children]
    if codes != [0, 0]:
        raise Failure(f"two processes ended with {codes}: {[child.sentence() for child in children]}")


def kill_ranks(place: Path, chance: random.Random, count: int) -> Counter[str]:
    """One of two processes, or both, by DDP and by FSDP2; then both again, to the weights of an undisturbed pair."""
    outcomes: Counter[str] = Counter()
    for sharding in ("ddp", "fsdp"):
        command = [*training(place / sharding, 12), "--run.sharding", sharding]
        began = time.perf_counter()
        both_end(pair(command, place))
        seconds, expected = time.perf_counter() - began, weights(place / sharding)
        for number in range(max(3, count)):  # each of the ranks, and both
            run = place / f"{sharding}-{number}"
            again = [*training(run, 12), "--run.sharding", sharding]
            children = pair(again, place)
            time.sleep(chance.uniform(0.2, 1.0) * seconds)
            victims = ([0], [1], [0, 1])[number % 3]
            for victim in victims:
                children[victim].kill()
            codes = [child.kill_after(PATIENCE) for child in children]
            stuck = [n for n, code in enumerate(codes) if code == -9 and n not in victims]
            both_end(pair(again, place))
            if not all(torch.equal(a, b) for a, b in zip(weights(run), expected, strict=True)):
                raise Failure(f"{sharding}: a pair of which {victims} were killed ended with other weights")
            who = "both" if len(victims) == 2 else f"rank {victims[0]}"
            outcomes[f"{sharding}, {who}: {SAME}{', the other had to be ended' if stuck else ''}"] += 1
    return outcomes


def kill_evaluation(place: Path, chance: random.Random, count: int) -> Counter[str]:
    reference(place, 6)
    out = place / "result.json"
    command = [
        "evaluate",
        str(place / "whole"),
        "likelihood",
        "--num",
        "128",
        "--draws",
        "12",
        "--batch-size",
        "16",
    ]
    command += ["--out", str(out), "--device", "cpu"]
    began = time.perf_counter()
    finish(command, place / "words")
    seconds = time.perf_counter() - began
    expected = json.loads(out.read_text())["result"]
    outcomes: Counter[str] = Counter()
    for number in range(3 * count):
        if number % 2:
            out.unlink()  # otherwise an earlier result is there, and must stay whole
        Child(command, place / "words").kill_after(chance.uniform(0.05, 1.0) * seconds)
        if out.exists() and json.loads(out.read_text())["result"] != expected:
            raise Failure("a killed evaluation left another result")
        outcomes["complete result" if out.exists() else "no result"] += 1
        finish(command, place / "words")
        if json.loads(out.read_text())["result"] != expected:
            raise Failure("an evaluation after a killed one has another result")
    return outcomes


def study(place: Path) -> list[str]:
    """A frontier of a small model, judged by counts of characters."""
    from text_study import corpus, model

    (place / "corpus").mkdir()
    model(corpus(place / "corpus"), "udlm").save_pretrained(place / "model")
    return [
        "frontier",
        str(place / "model"),
        "--num",
        "8",
        "--temperatures",
        "0.8",
        "1",
        "--steps",
        "2",
        "4",
        "--json",
    ]


def count_letters() -> None:
    import simplax.evaluate.text
    from text_study import Counts

    simplax.evaluate.text.load_scorer = lambda name, device: Counts()  # type: ignore[assignment,misc]


def frontier_result(out: Path) -> Any:
    def timeless(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: timeless(item) for key, item in value.items() if key != "seconds"}
        return [timeless(item) for item in value] if isinstance(value, list) else value

    return timeless(json.loads((out / "frontier.json").read_text())["result"])


def kill_frontier(place: Path, chance: random.Random, count: int) -> Counter[str]:
    command = study(place)
    began = time.perf_counter()
    finish([*command, "--out", str(place / "whole")], place / "words", count_letters)
    seconds, expected = time.perf_counter() - began, frontier_result(place / "whole")
    outcomes: Counter[str] = Counter()
    for number in range(count):
        out = place / f"study-{number}"
        for _ in range(2):
            child = Child([*command, "--out", str(out)], place / "words", count_letters)
            if child.kill_after(chance.uniform(0.05, 0.9) * seconds) == 0:
                break
            outcomes["went on to the same numbers"] += 1
        finish([*command, "--out", str(out)], place / "words", count_letters)
        if frontier_result(out) != expected:
            raise Failure("a killed frontier ended with other numbers")
    return outcomes


def damage_frontier(place: Path, chance: random.Random, count: int) -> Counter[str]:
    command = study(place)
    finish([*command, "--out", str(place / "whole")], place / "words", count_letters)
    expected = frontier_result(place / "whole")
    files = [
        path
        for path in files_below(place / "whole")
        if path.suffix in (".json", ".npz", ".npy", ".safetensors")
    ]
    outcomes: Counter[str] = Counter()
    for path, how in damages(files, chance, count):
        out = place / "study"
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(place / "whole", out)
        damage(out / path, how, chance)
        lost = chance.choice([name for name in files if name.parts[0] == "points" and name != path])
        (out / lost).unlink()  # so that something is measured, and what that needs is read
        code, _ = finish([*command, "--out", str(out)], place / "words", count_letters)
        if code == 0 and frontier_result(out) != expected:
            raise Failure(f"{path} {how}: the frontier has other numbers")
        kind = path.parts[0] if len(path.parts) > 1 else path.name
        outcomes[f"{kind}/*{path.suffix} {how}: {'the same numbers' if code == 0 else SAID}"] += 1
    return outcomes


def damage_data(place: Path, chance: random.Random, count: int) -> Counter[str]:
    """Prepared data: what describes it is read with care, and `verify` notices every change of its content."""
    from simplax.data.text import Prepared
    from simplax.errors import UserError

    finish([*text_command(place), "--out", str(place / "whole")], place / "words")
    expected = Prepared.open(place / "whole").manifest
    outcomes: Counter[str] = Counter()
    for path, how in damages(files_below(place / "whole"), chance, count):
        shutil.rmtree(place / "data", ignore_errors=True)
        shutil.copytree(place / "whole", place / "data")
        damage(place / "data" / path, how, chance)
        same = (place / "data" / path).read_bytes() == (place / "whole" / path).read_bytes()
        try:
            found = Prepared.open(place / "data")
            found.verify()
        except UserError:
            outcomes[f"{path.name} {how}: {SAID}"] += 1
            continue
        except Exception as error:
            raise Failure(f"{path} {how}: {type(error).__name__}: {error}") from error
        if not same and path.name != "manifest.json":
            raise Failure(f"{path} {how}: nobody noticed")
        kept = found.manifest == expected
        outcomes[
            f"{path.name} {how}: {'the same data' if kept else 'the same tokens, another description'}"
        ] += 1
    return outcomes


def jump_clock(place: Path, chance: random.Random, count: int) -> Counter[str]:
    """The clock jumps while a run goes on: for the process itself, and for the file system its lock is on."""
    expected, seconds = reference(place)
    outcomes: Counter[str] = Counter()
    cases = [(sign, elsewhere) for sign in (-1.0, 1.0) for elsewhere in (False, True)]
    for number in range(max(len(cases), count)):
        run = place / f"run-{number}"
        # a process on another machine cannot see whether the first one lives
        sign, elsewhere = cases[number % len(cases)]
        offset = sign * chance.uniform(3600, 1e7)
        first = Child(training(run), place / "first", _jumping(offset, chance.uniform(0, seconds)))
        deadline = time.monotonic() + 60
        while not (run / "lock").exists() and time.monotonic() < deadline:
            time.sleep(0.005)
        moment = time.time() + offset
        if (run / "lock").exists():
            os.utime(run / "lock", (moment, moment))
        second = Child(training(run), place / "second", _elsewhere if elsewhere else lambda: None)
        codes = sorted((first.wait(), second.wait()))
        said = [child.sentence() for child in (first, second)]
        finish(training(run), place / "words")
        if bits(run) != expected:
            raise Failure(f"a run whose clock jumped by {offset:.0f} s ended with other weights")
        if codes not in ([0, 0], [0, 2]):
            raise Failure(f"a run whose clock jumped ended with {codes}: {said}")
        direction = "back" if offset < 0 else "forward"
        told = "the other got one sentence" if codes == [0, 2] else "one after the other"
        outcomes[
            f"{direction}, a second process {'elsewhere' if elsewhere else 'here'}: {told}, same bits"
        ] += 1
    return outcomes


def _jumping(offset: float, after: float) -> Callable[[], None]:
    def before() -> None:
        real, start = time.time, time.monotonic()
        time.time = lambda: real() + (offset if time.monotonic() - start > after else 0.0)

    return before


def _elsewhere() -> None:
    locks._place = lambda: "another machine"  # type: ignore[assignment]
    locks.EXPIRES = 4.0
