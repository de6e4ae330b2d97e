"""Damage to the files that say who works where: locks of runs, and claims of the points of a frontier."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections import Counter
from pathlib import Path

from kinds import SAID, SAME, bits, damage, damages, reference, training
from processes import Child, Failure, finish
from shared import count_letters, frontier_result, study

from simplax.io import lock as locks
from simplax.io.claims import Claims

LOCK = Path(locks.NAME)
KILLED, LIVING, CLAIM = Path("killed"), Path("living"), Path("claim")


def _impatient() -> None:
    """A holder whose machine cannot be told is watched for a second instead of a minute and a half."""
    locks.EXPIRES = 1.0


def _impatient_counting() -> None:
    _impatient()
    count_letters()


def damage_holders(place: Path, chance: random.Random, count: int) -> Counter[str]:
    """In turn: the lock of a run that was killed, of one that goes on, and a claim of a process that died."""
    expected, seconds = reference(place)
    killed = place / "killed"
    child = Child(training(killed), place / "words")
    _wait_for(killed / LOCK)
    child.kill()
    child.wait()
    command = study(place)
    finish([*command, "--out", str(place / "study")], place / "words", count_letters)
    points = frontier_result(place / "study")
    keys = [json.loads(path.read_text())["key"] for path in sorted((place / "study" / "points").iterdir())]
    outcomes: Counter[str] = Counter()
    for number, (holder, how) in enumerate(damages([KILLED, LIVING, CLAIM], chance, count)):
        if holder != CLAIM:
            run, whose = place / f"run-{number}", f"a {holder} run"
            if holder == KILLED:
                shutil.copytree(killed, run, symlinks=True)
                damage(run / LOCK, how, chance)
            else:
                child = Child(training(run), place / "words")
                _wait_for(run / LOCK)
                time.sleep(chance.uniform(0.0, 0.5) * seconds)
                whose += _spoiled(child, run / LOCK, how, chance)
            code, said = finish(training(run), place / "words", _impatient)
            if code or bits(run) != expected:
                raise Failure(f"the lock of {whose} was {how}, and the run did not go on: {said}")
            outcomes[f"lock of {whose} {how}: {SAME}"] += 1
            continue
        out = place / f"study-{number}"
        shutil.copytree(place / "study", out)
        key = chance.choice(keys)
        (out / "points" / f"{key[:24]}.json").unlink()
        _die_with(out / "claims", key)
        damage(out / "claims" / key, how, chance)
        code, said = finish([*command, "--out", str(out)], place / "words", _impatient_counting)
        if code or frontier_result(out) != points:
            raise Failure(f"a claim was {how}, and the frontier did not go on: {said}")
        outcomes[f"claim of a process that died {how}: the same numbers"] += 1
    return outcomes


def _spoiled(child: Child, lock: Path, how: str, chance: random.Random) -> str:
    """The lock of a living run is damaged; what the run says to it."""
    try:
        damage(lock, how, chance)
    except FileNotFoundError:
        child.wait()
        return " that had ended"
    code = child.wait()
    child.sentence()
    if code not in (0, 2):
        raise Failure(f"a run whose lock was {how} ended with {code}: {child.sentence()}")
    return f", which stopped with {SAID}" if code else ", which went on"


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.005)


def _die_with(directory: Path, key: str) -> None:
    """A process claims the key and is gone without a word."""
    pid = os.fork()
    if pid == 0:
        Claims(directory).claim(key)
        os._exit(0)
    os.waitpid(pid, 0)
