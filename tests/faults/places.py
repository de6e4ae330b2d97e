"""Every command that writes, where it cannot: on a full disk, or in a directory that may not be written."""

from __future__ import annotations

import ctypes
import json
import os
import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kinds import SAID, bits, content, reference, training
from processes import Failure, finish
from shared import count_letters, frontier_result, study
from stores import suite, suite_numbers

from simplax.train import checkpoint as checkpoints


@dataclass(frozen=True)
class Writing:
    """A command that writes below a directory, and what it has written there, to be compared."""

    name: str
    arguments: Callable[[Path], list[str]]
    found: Callable[[Path], Any]
    before: Callable[[], None] = lambda: None


def writings(place: Path) -> list[Writing]:
    """With the models that they need, made below `place`."""
    reference(place, 6)
    run = str(place / "whole")
    likelihood = ["evaluate", run, "likelihood", "--num", "8", "--draws", "2", "--device", "cpu", "--out"]
    frontier = study(place)
    return [
        Writing("train", lambda out: training(out / "run"), lambda out: bits(out / "run")),
        Writing(
            "sample",
            lambda out: ["sample", run, "--device", "cpu", "--html", str(out / "page.html")],
            lambda out: (out / "page.html").read_bytes(),
        ),
        Writing(
            "evaluate",
            lambda out: [*likelihood, str(out / "result.json")],
            lambda out: _measured(out / "result.json"),
        ),
        Writing(
            "export",
            lambda out: ["export", run, str(out / "model")],
            lambda out: content(out / "model"),
        ),
        Writing(
            "frontier",
            lambda out: [*frontier, "--out", str(out / "study")],
            lambda out: frontier_result(out / "study"),
            count_letters,
        ),
        Writing(
            "suite", lambda out: suite(out / "toy", out / "runs"), lambda out: suite_numbers(out / "toy")
        ),
    ]


def _measured(path: Path) -> dict[str, Any]:
    """Without the entropy of the chain: its last digit depends on where in memory the library happens to compute."""
    found: dict[str, Any] = json.loads(path.read_text())["result"]
    return {name: value for name, value in found.items() if name != "data_entropy"}


@contextmanager
def small_disk(at: Path, kilobytes: int) -> Iterator[str | None]:
    """A file system of that size, or why there may be none."""
    at.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(at)]
    mounted = subprocess.run(mount, capture_output=True, text=True)
    if mounted.returncode:
        yield mounted.stderr.strip()
        return
    try:
        yield None
    finally:
        subprocess.run(["umount", str(at)], check=False)


def full_disk(place: Path, chance: random.Random, count: int) -> Counter[str]:
    """One sentence while there is no room, and what was to be written once there is."""
    outcomes: Counter[str] = Counter()
    disk = place / "disk"
    for writing in writings(place):
        whole = place / f"expected-{writing.name}"
        whole.mkdir()
        finish(writing.arguments(whole), place / "words", writing.before)
        expected, largest = writing.found(whole), max(16, _kilobytes(whole))
        for _ in range(count):
            with small_disk(disk, chance.randrange(8, largest)) as refused:
                if refused is not None:
                    return Counter({f"skipped: no small file system may be mounted here ({refused})": 1})
                code, said = finish(writing.arguments(disk), place / "words", writing.before)
                kept = _checkpoint(disk / "run") if writing.name == "train" and code else ""
                if code:
                    subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
                    again, said = finish(writing.arguments(disk), place / "words", writing.before)
                    if again:
                        raise Failure(f"{writing.name} does not go on when there is room: {said}")
                if writing.found(disk) != expected:
                    raise Failure(f"{writing.name} on a disk that had been full wrote something else")
                after = "the same result when there is room" if code else "had room enough"
                outcomes[f"{writing.name}: {f'{SAID}{kept}, and ' if code else ''}{after}"] += 1
    return outcomes


def _kilobytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) // 1024


def _checkpoint(run: Path) -> str:
    found = checkpoints.find(run) if (run / "checkpoints").exists() else None
    return ", the last checkpoint is intact" if found else ", no checkpoint yet"


def read_only(place: Path, chance: random.Random, count: int) -> Counter[str]:
    """As somebody who may not write there: once where nothing is yet, and once where the result is."""
    outcomes: Counter[str] = Counter()
    for writing in writings(place):
        out = place / f"out-{writing.name}"
        out.mkdir()
        expected = None
        for filled in (False, True):
            with forbidden(place, out):
                code, said = finish(writing.arguments(out), place / "words", _ordinary(writing.before))
            if code == 0 and not filled:
                raise Failure(f"{writing.name} wrote in a directory that may not be written: {said}")
            if filled and writing.name == "export":
                shutil.rmtree(out / "model")
            allowed, said = finish(writing.arguments(out), place / "words", writing.before)
            if allowed:
                raise Failure(f"{writing.name} does not go on when it may write: {said}")
            found = writing.found(out)
            if filled and found != expected:
                raise Failure(f"{writing.name} wrote {found} and not {expected} after it had been forbidden")
            expected = found
            outcome = "had nothing to write" if code == 0 else f"{SAID}, and the result when it may"
            outcomes[f"{writing.name}, {'again' if filled else 'for the first time'}: {outcome}"] += 1
    return outcomes


@contextmanager
def forbidden(place: Path, out: Path) -> Iterator[None]:
    """Everything below `out` may only be read; what the command says may still be written."""
    place.chmod(0o755)
    (place / "words").touch()
    (place / "words").chmod(0o666)
    paths = [out, *out.rglob("*")]
    modes = {path: path.stat().st_mode for path in paths if not path.is_symlink()}
    for path, mode in modes.items():
        path.chmod(mode & ~0o222 | 0o444)
    try:
        yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


def _ordinary(before: Callable[[], None]) -> Callable[[], None]:
    """Root may write everywhere, so the process gives up its privileges; it stays root, who may read the libraries."""

    def act() -> None:
        before()
        if os.getuid() == 0:
            version, nothing = 0x20080522, (ctypes.c_uint32 * 6)()
            if ctypes.CDLL(None, use_errno=True).capset((ctypes.c_uint32 * 2)(version, 0), nothing):
                raise OSError(ctypes.get_errno(), "privileges cannot be given up")

    return act
