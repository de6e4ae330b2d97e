"""Every command that writes, where it cannot: on a full disk, or in a directory that may not be written."""

from __future__ import annotations

import ctypes
import errno
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

from kinds import SAID, bits, content, reference, text_command, training
from processes import Failure, finish
from shared import count_letters, frontier_result, study
from stores import suite, suite_numbers

from simplax.train import checkpoint as checkpoints

PAGE = 4096  # bytes that a file system in memory gives at a time


@dataclass(frozen=True)
class Writing:
    """A command that writes below a directory, and what it has written there, to be compared.

    `replaces` an earlier result of the same name, which must stay whole when the new one cannot be written.
    `partly` may fail in some of its rows, which it names, with exit status 1.
    """

    name: str
    arguments: Callable[[Path], list[str]]
    found: Callable[[Path], Any]
    before: Callable[[], None] = lambda: None
    replaces: bool = False
    partly: bool = False

    def run(self, out: Path, words: Path, before: Callable[[], None], reason: str) -> tuple[int, str]:
        """Exit status, and what it means if it is not 0; rows that failed must say the reason."""
        code, _ = finish(self.arguments(out), words, before, (0, 1, 2) if self.partly else (0, 2))
        said = words.read_text(encoding="utf-8", errors="replace")
        if code == 1 and reason not in said:
            raise Failure(f"{self.name} did not say {reason!r}: {said.strip().splitlines()[-1]}")
        return code, (SAID, "rows shown as failed, each with the reason", SAID)[code]


def writings(place: Path) -> list[Writing]:
    """With the models that they need, made below `place`."""
    reference(place, 6)
    run = str(place / "whole")
    likelihood = ["evaluate", run, "likelihood", "--num", "8", "--draws", "2", "--device", "cpu", "--out"]
    frontier, text = study(place), text_command(place)
    return [
        Writing("train", lambda out: training(out / "run"), lambda out: bits(out / "run")),
        Writing(
            "data text",
            lambda out: [*text, "--out", str(out / "data")],
            lambda out: content(out / "data"),
        ),
        Writing(
            "sample",
            lambda out: ["sample", run, "--device", "cpu", "--html", str(out / "page.html")],
            lambda out: (out / "page.html").read_bytes(),
            replaces=True,
        ),
        Writing(
            "evaluate",
            lambda out: [*likelihood, str(out / "result.json")],
            lambda out: json.loads((out / "result.json").read_text())["result"],
            replaces=True,
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
            "suite",
            lambda out: suite(out / "toy", out / "runs"),
            lambda out: suite_numbers(out / "toy"),
            partly=True,
        ),
    ]


@contextmanager
def small_disk(at: Path) -> Iterator[str | None]:
    """A file system of its own, or why there may be none."""
    at.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(at)]
    mounted = subprocess.run(mount, capture_output=True, text=True)
    if mounted.returncode:
        yield mounted.stderr.strip()
        return
    try:
        yield None
    finally:
        subprocess.run(["umount", str(at)], check=False)


@contextmanager
def filled(disk: Path, left: int) -> Iterator[None]:
    """With a file that takes all pages but `left`."""
    filler = disk / "filler"
    with open(filler, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, os.statvfs(disk).f_bavail * PAGE - left * PAGE))
    try:
        yield
    finally:
        filler.unlink()


def full_disk(place: Path, chance: random.Random, count: int) -> Counter[str]:
    """One sentence while there is no room, and what was to be written once there is.

    First with no room at all, then with less than is needed; where a file is replaced, every second time an earlier
    result is there already.
    """
    outcomes: Counter[str] = Counter()
    disk, words = place / "disk", place / "words"
    for writing in writings(place):
        whole = place / f"expected-{writing.name}"
        whole.mkdir()
        finish(writing.arguments(whole), words, writing.before)
        expected, needed = writing.found(whole), _pages(whole)
        for number in range(count):
            with small_disk(disk) as refused:
                if refused is not None:
                    return Counter({f"skipped: no small file system may be mounted here ({refused})": 1})
                earlier = writing.replaces and number % 2 == 1
                if earlier:
                    finish(writing.arguments(disk), words, writing.before)
                with filled(disk, chance.randrange(needed) if number and not earlier else 0):
                    code, outcome = writing.run(disk, words, writing.before, os.strerror(errno.ENOSPC))
                    if code == 0 and not number:
                        raise Failure(f"{writing.name} ended well where there was no room at all")
                    if code and writing.name == "train":
                        outcome += _checkpoint(disk / "run")
                    if earlier:
                        outcome += ", the earlier result is intact"
                        if writing.found(disk) != expected:
                            raise Failure(f"{writing.name} lost an earlier result on a full disk")
                if code and finish(writing.arguments(disk), words, writing.before)[0]:
                    raise Failure(f"{writing.name} does not go on when there is room: {words.read_text()}")
                if writing.found(disk) != expected:
                    raise Failure(f"{writing.name} on a disk that had been full wrote something else")
                after = f"{outcome}, and the same result when there is room" if code else "had room enough"
                outcomes[f"{writing.name}: {after}"] += 1
    return outcomes


def _pages(folder: Path) -> int:
    return sum(-(-path.stat().st_size // PAGE) for path in folder.rglob("*") if path.is_file())


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
        for again in (False, True):
            with forbidden(place, out):
                before = _ordinary(writing.before)
                code, outcome = writing.run(out, place / "words", before, os.strerror(errno.EACCES))
            if code == 0 and not again:
                raise Failure(f"{writing.name} wrote in a directory that may not be written")
            if again and writing.name == "export":
                shutil.rmtree(out / "model")
            allowed, said = finish(writing.arguments(out), place / "words", writing.before)
            if allowed:
                raise Failure(f"{writing.name} does not go on when it may write: {said}")
            found = writing.found(out)
            if again and found != expected:
                raise Failure(f"{writing.name} wrote {found} and not {expected} after it had been forbidden")
            expected = found
            outcome = f"{outcome}, and the result when it may" if code else "had nothing to write"
            outcomes[f"{writing.name}, {'again' if again else 'for the first time'}: {outcome}"] += 1
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
