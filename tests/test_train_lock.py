"""One process at a time in a run, with real processes; and a dead one's run is taken over."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from simplax.errors import UserError
from simplax.io import lock as locks
from simplax.io.lock import acquire, locked
from test_train_failures import one_sentence
from test_train_toy import ToySource, assert_same_run, fit, newest, rows, toy, work, worker

HOLD = """
import sys, time
from pathlib import Path
from simplax.io.lock import acquire
acquire(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


@contextmanager
def holder(directory: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the directory."""
    command = [sys.executable, "-c", HOLD, str(directory)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process
    finally:
        process.kill()
        process.wait()


def pretend(directory: Path, **changed: Any) -> None:
    """Let the lock say something else of who holds it."""
    path = directory / locks.NAME
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))


def test_a_lock_is_held_once_and_given_back(tmp_path: Path) -> None:
    with locked(tmp_path / "run") as lock:
        assert lock.still_ours()
        with pytest.raises(UserError, match=f"process {os.getpid()} on .* is working in") as error:
            acquire(tmp_path / "run")
        assert one_sentence(error)
    assert list((tmp_path / "run").iterdir()) == []
    with locked(tmp_path / "run"):
        pass


def test_a_second_process_gets_a_sentence_and_changes_nothing(tmp_path: Path) -> None:
    fit(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with holder(tmp_path) as other:
        with pytest.raises(UserError, match=f"process {other.pid} on") as error:
            fit(tmp_path)
        assert one_sentence(error)
        assert {p: p.read_bytes() for p in before} == before
        other.kill()
        other.wait()
        fit(tmp_path)  # its holder is dead, so the run is free
    assert not (tmp_path / locks.NAME).exists()


def test_a_number_that_came_round_again_is_another_process(tmp_path: Path) -> None:
    with holder(tmp_path):
        pretend(tmp_path, started="1")
        acquire(tmp_path).release()


def test_a_holder_elsewhere_lives_as_long_as_its_heart_beats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(locks, "EXPIRES", 0.6)
    monkeypatch.setattr(locks, "HEARTBEAT", 0.1)
    mine = acquire(tmp_path)
    pretend(tmp_path, place="another machine", host="elsewhere")
    with pytest.raises(UserError, match="on elsewhere is working"):
        acquire(tmp_path, said.append)
    assert "waiting to see" in said[0]
    mine._stop.set()  # it dies without a word
    mine._thread.join()
    other = acquire(tmp_path)
    assert other.still_ours() and not mine.still_ours()
    with pytest.raises(UserError, match="has taken over") as error:
        mine.check()
    assert one_sentence(error)
    mine.release()  # does not take away what is not its own
    assert other.still_ours()
    other.release()


def test_an_old_heartbeat_is_dead_at_once(tmp_path: Path) -> None:
    mine = acquire(tmp_path)
    pretend(tmp_path, place="another machine")
    os.utime(tmp_path / locks.NAME, (0, 0))
    mine._stop.set()
    began = time.monotonic()
    acquire(tmp_path).release()
    assert time.monotonic() - began < locks.EXPIRES / 2


def test_a_requeued_job_takes_over_its_own_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    mine = acquire(tmp_path)
    pretend(tmp_path, place="another machine")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    acquire(tmp_path, lambda text: pytest.fail(text)).release()
    mine.release()


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"pid": "x", "restarts": null}', "\x00\x00"])
def test_a_damaged_lock_is_judged_by_its_age(
    tmp_path: Path, content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "EXPIRES", 0.3)
    (tmp_path / locks.NAME).write_text(content)
    acquire(tmp_path).release()


def test_two_that_find_a_dead_lock_do_not_both_get_it(tmp_path: Path) -> None:
    """The slower one must not remove the lock of the quicker one."""
    dead = {"token": "dead", "pid": 0}
    with locked(tmp_path) as quick:
        locks._remove(tmp_path / locks.NAME, dead)
        assert quick.still_ours()


class _Stolen(ToySource):
    """Somebody else takes the run while a step's data is made."""

    def __init__(self, directory: Path) -> None:
        object.__setattr__(self, "directory", directory)
        super().__init__()

    def batch(self, indices: Any) -> Any:
        if int(indices[0]) // 8 == 3:
            pretend(self.directory, token="somebody else")  # type: ignore[attr-defined]
        return super().batch(indices)


def test_who_lost_the_run_saves_nothing_more(tmp_path: Path) -> None:
    from simplax.methods import UDLM
    from simplax.train import train
    from test_train_toy import SHORT

    with pytest.raises(UserError, match="has taken over"):
        train(UDLM(), toy(), _Stolen(tmp_path), SHORT, tmp_path, device="cpu", quiet=True)
    assert newest(tmp_path).step == 2


@pytest.mark.slow
def test_two_processes_on_one_run(tmp_path: Path) -> None:
    """One trains, the other gets a sentence; the first is killed, and a third ends with the bits of one."""
    run = {"steps": 200_000, "log_every": 1000, "save_every": 1000}
    job = {"directory": str(tmp_path / "run"), "run": run}
    command = [sys.executable, str(Path(__file__).with_name("test_train_toy.py")), json.dumps([job])]
    first = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "run" / "config.json").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        second = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert f"process {first.pid} on" in second.stderr and second.returncode != 0
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    found = newest(tmp_path / "run").step if (tmp_path / "run" / "latest").exists() else 0
    ends = found + 4
    for name in ("run", "whole"):
        work({"directory": tmp_path / name, "run": {**run, "steps": ends, "save_every": 0}})
    steps = [row["step"] for row in rows(tmp_path / "run")]
    assert steps == sorted(set(steps))
    assert_same_run(tmp_path / "run", tmp_path / "whole")


def test_tasks_without_torchrun_get_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    for task in ("0", "1"):
        monkeypatch.setenv("SLURM_PROCID", task)
        monkeypatch.setenv("SLURM_NTASKS", "2")
        with pytest.raises(UserError, match="SLURM started 2 tasks") as error:
            fit(tmp_path / "run")
        assert one_sentence(error)
    assert not (tmp_path / "run").exists()
    monkeypatch.setenv("SLURM_NTASKS", "1")
    fit(tmp_path / "run")


@pytest.mark.slow
def test_srun_without_torchrun_in_real_processes(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "simplax",
        "train",
        "toy-udlm",
        "--smoke",
        "--out",
        str(tmp_path / "run"),
    ]
    for task in ("0", "1"):
        told = {**os.environ, "SLURM_PROCID": task, "SLURM_NTASKS": "2"}
        told.pop("WORLD_SIZE", None)
        refused = subprocess.run(command, env=told, capture_output=True, text=True, timeout=60)
        assert refused.returncode == 2 and "Traceback" not in refused.stderr
        assert refused.stderr.replace("\n", " ").count("SLURM started 2 tasks") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_run_of_two_processes_is_held_by_the_first(tmp_path: Path) -> None:
    with holder(tmp_path) as other:
        refused = worker([{"directory": str(tmp_path)}], processes=2)
        assert f"process {other.pid} on" in refused.stderr and refused.returncode != 0
    assert not (tmp_path / "config.json").exists()
