"""One process at a time in a directory, also when the last one died without a word.

The lock is a small file that says who holds it; its time of change is a heartbeat. Whether a holder is alive is found
by asking the system if it runs here, and otherwise from the heartbeat, by the clock of the file system and not by our
own.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from simplax.errors import UserError
from simplax.io.files import create_json

NAME = "lock"
HEARTBEAT = 15.0
EXPIRES = 90.0
"""Seconds between heartbeats, and without one after which a holder on another machine counts as dead."""


class Lock:
    """A directory that is ours. `still_ours` is worth asking before something is written that cannot be undone."""

    def __init__(self, path: Path, token: str) -> None:
        self.path, self.token = path, token
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="lock heartbeat", daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        while not self._stop.wait(HEARTBEAT):
            if self.still_ours():
                with contextlib.suppress(OSError):
                    os.utime(self.path)

    def still_ours(self) -> bool:
        """False when somebody took the directory over, believing us dead (a process may sleep for long)."""
        return (_read(self.path) or {}).get("token") == self.token

    def check(self) -> None:
        """Stop before two processes write the same files."""
        if not self.still_ours():
            raise UserError(
                f"another process has taken over {self.path.parent} while this one stood still: nothing more is "
                "written here, let the other go on."
            )

    def release(self) -> None:
        self._stop.set()
        self._thread.join()
        if self.still_ours():
            self.path.unlink(missing_ok=True)


@contextmanager
def locked(directory: Path, say: Callable[[str], None] = lambda text: None) -> Iterator[Lock]:
    """Hold the directory; one sentence if a living process does."""
    lock = acquire(directory, say)
    try:
        yield lock
    finally:
        lock.release()


def acquire(directory: Path, say: Callable[[str], None] = lambda text: None) -> Lock:
    """The lock of a directory, which is made if need be; `say` is called with a message before a wait."""
    try:
        found = attempt(directory / NAME, lambda path: _beats(path, say))
    except OSError as error:
        raise UserError(
            f"cannot use {directory} for a run ({error.strerror}): choose another directory."
        ) from error
    if isinstance(found, Lock):
        return found
    raise UserError(
        f"{name_of(found)} is working in {directory}: wait until it has finished, stop it, or choose another directory."
    )


def attempt(path: Path, beats: Callable[[Path], bool]) -> Lock | dict[str, Any]:
    """The lock of that file, or who holds it; `beats` says whether the heartbeat of a holder elsewhere goes on."""
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        me = _myself()
        if create_json(path, me):
            return Lock(path, me["token"])
        holder = _read(path)
        if holder is None and not path.exists():
            continue  # released in this moment
        if _alive(path, holder or {}, beats):
            return holder or {}
        _remove(path, holder)


def name_of(holder: dict[str, Any]) -> str:
    return f"process {holder.get('pid', '?')} on {holder.get('host', 'an unknown machine')}"


def _myself() -> dict[str, Any]:
    return {
        "token": uuid4().hex,
        "host": socket.gethostname(),
        "place": _place(),
        "pid": os.getpid(),
        "started": _started(os.getpid()),
        "job": os.environ.get("SLURM_JOB_ID"),
        "restarts": int(os.environ.get("SLURM_RESTART_COUNT") or 0),
    }


def _place() -> str:
    """Where process numbers mean the same: a running kernel and a name space in it."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()


def _started(pid: int) -> str | None:
    """When a process began, in the system's own ticks: a number that came round again belongs to another process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None


def _read(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _alive(path: Path, holder: dict[str, Any], beats: Callable[[Path], bool]) -> bool:
    pid = holder.get("pid")
    if holder.get("place") == _place() and isinstance(pid, int) and pid > 0:
        return _runs(pid, holder.get("started"))
    me, before = _myself(), holder.get("restarts")
    same_job = me["job"] is not None and me["job"] == holder.get("job")
    if same_job and isinstance(before, int) and me["restarts"] > before:
        return False  # the scheduler ended this job before it started it again
    return beats(path)


def _runs(pid: int, started: str | None) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    if _zombie(pid):
        return False
    return started is None or _started(pid) in (None, started)


def _zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (OSError, IndexError):
        return False


def _beats(path: Path, say: Callable[[str], None]) -> bool:
    """Whether the heartbeat goes on: it is watched until it moves, or has not for as long as a dead one would not."""
    seen = changed(path)
    if seen is None:
        return False
    age = clock(path) - seen
    left = EXPIRES - age if age >= 0 else EXPIRES
    if left > 0:
        say(
            f"{path.parent} was in use {max(age, 0):.0f} s ago on another machine: waiting to see whether it still is"
        )
    deadline = time.monotonic() + left
    while time.monotonic() < deadline:
        time.sleep(min(1.0, EXPIRES / 10))
        now = changed(path)
        if now is None:
            return False
        if now != seen:
            return True
    return False


def changed(path: Path) -> float | None:
    """The last heartbeat; None if there is no such lock."""
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def clock(path: Path) -> float:
    """Now, as the file system would say: machines disagree about the time."""
    probe = path.with_name(f".{path.name}-{uuid4().hex}")
    try:
        probe.touch()
        return probe.stat().st_mtime
    finally:
        probe.unlink(missing_ok=True)


def _remove(path: Path, holder: dict[str, Any] | None) -> None:
    """Take a dead holder's file away, but not one that somebody quicker than us has put in its place."""
    aside = path.with_name(f".{path.name}-{uuid4().hex}")
    try:
        os.rename(path, aside)
    except FileNotFoundError:
        return
    if _read(aside) != holder:
        with contextlib.suppress(OSError):
            os.link(aside, path)
    aside.unlink(missing_ok=True)
