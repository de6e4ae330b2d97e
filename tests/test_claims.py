"""Work shared through a directory by processes that know nothing of each other: each piece once, none lost."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from simplax.io import claims as module
from simplax.io import lock as locks
from simplax.io.claims import Claims, work_through
from simplax.io.lock import Lock
from test_train_lock import holder

WORKER = """
import os, sys, time
from pathlib import Path
from simplax.io.claims import Claims, work_through
place, keys = Path(sys.argv[1]), [str(n) for n in range(12)]
for key in work_through(keys, lambda key: (place / f"{key}.done").exists(), Claims(place / "claims")):
    with open(place / f"{key}.log", "a") as log:
        log.write(f"{os.getpid()}\\n")
    time.sleep(float(sys.argv[2]))
    (place / f"{key}.done").touch()
"""


def start(place: Path, seconds: float) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", WORKER, str(place), str(seconds)], text=True)


def test_three_processes_do_every_piece_once(tmp_path: Path) -> None:
    workers = [start(tmp_path, 0.02) for _ in range(3)]
    assert [worker.wait(60) for worker in workers] == [0, 0, 0]
    logs = [(tmp_path / f"{n}.log").read_text().split() for n in range(12)]
    assert all(len(log) == 1 for log in logs)
    assert list((tmp_path / "claims").iterdir()) == []


def test_what_a_killed_process_held_is_done_by_another(tmp_path: Path) -> None:
    dead = start(tmp_path, 600.0)
    deadline = time.monotonic() + 60
    while not (tmp_path / "0.log").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    dead.kill()
    dead.wait()
    assert start(tmp_path, 0.0).wait(60) == 0
    assert len((tmp_path / "0.log").read_text().split()) == 2
    assert all((tmp_path / f"{n}.done").exists() for n in range(12))


def test_a_claim_is_refused_without_a_wait_while_its_heart_beats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On another machine only the heartbeat tells: old, or unmoved for as long as we have watched."""
    claims = Claims(tmp_path)
    mine = claims.claim("a")
    assert isinstance(mine, Lock)
    mine._stop.set()
    mine._thread.join()
    text = (tmp_path / "a").read_text()
    (tmp_path / "a").write_text(text.replace(locks._place(), "another machine"))
    assert not isinstance(claims.claim("a"), Lock)
    ahead = time.time() + 1e6  # a clock that is wrong by days
    os.utime(tmp_path / "a", (ahead, ahead))
    assert not isinstance(claims.claim("a"), Lock)
    monkeypatch.setattr(locks, "EXPIRES", 0.05)
    time.sleep(0.1)
    taken = claims.claim("a")
    assert isinstance(taken, Lock)
    taken.release()


def test_who_does_not_wait_leaves_and_who_waits_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL", (0.01, 0.02))
    done: set[str] = set()
    told: list[dict[str, str]] = []
    (tmp_path / "claims").mkdir()
    with holder(tmp_path / "claims") as other:
        keys = ["a", locks.NAME]
        for key in work_through(
            keys, done.__contains__, Claims(tmp_path / "claims"), wait=False, waiting=told.append
        ):
            done.add(key)
        assert done == {"a"}
        assert list(told[0]) == [locks.NAME] and f"process {other.pid} on" in told[0][locks.NAME]
        other.kill()
        other.wait()
    assert list(work_through(keys, done.__contains__, Claims(tmp_path / "claims"))) == [locks.NAME]


def test_a_claim_is_given_up_when_the_work_fails(tmp_path: Path) -> None:
    work = work_through(["a"], lambda key: False, Claims(tmp_path))
    assert next(work) == "a" and (tmp_path / "a").exists()
    work.close()
    assert not (tmp_path / "a").exists()
