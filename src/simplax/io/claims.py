"""Pieces of work that several processes share through one directory, without knowing of each other.

A piece is claimed with a lock of its own (host, process, heartbeat), so that nobody does it twice; the claim of a
process that died is taken over. Whether a piece is finished is for the caller to say, usually by a file that appears
whole: claims are only about who works on what.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

from simplax.io import lock as locks
from simplax.io.lock import Lock

POLL = 0.5, 10.0
"""Seconds between two looks at what others are doing: at first, and at most."""


class Claims:
    """The claims of a directory, a file each; `key` must be a file name."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._heartbeats: dict[Path, tuple[float, float]] = {}

    def claim(self, key: str) -> Lock | dict[str, Any]:
        """A lock to be released, or who holds it. It never waits."""
        return locks.attempt(self.directory / key, self._beats)

    def _beats(self, path: Path) -> bool:
        """Whether a heartbeat goes on: not if it is old by the clock of the file system, or has not moved for as long
        while we were watching, which no clock can spoil."""
        beat = locks.changed(path)
        if beat is None:
            return False
        seen, since = self._heartbeats.get(path, (None, 0.0))
        if seen != beat:
            since = time.monotonic()
            self._heartbeats[path] = beat, since
        return locks.clock(path) - beat < locks.EXPIRES and time.monotonic() - since < locks.EXPIRES


def work_through(
    keys: Sequence[str],
    finished: Callable[[str], bool],
    claims: Claims,
    *,
    wait: bool = True,
    waiting: Callable[[dict[str, str]], None] = lambda others: None,
) -> Generator[str]:
    """Keys to do, one at a time and claimed, until all are finished: by this process or by others.

    The caller makes its result visible before it asks for the next key; then the claim is given up. When others hold
    all that is left, `waiting` is called with who has which, and what they leave undone is done here; with
    `wait=False` it ends there.
    """
    left = list(dict.fromkeys(keys))
    pause, longest = POLL
    while left:
        others: dict[str, str] = {}
        for key in list(left):
            if finished(key):
                left.remove(key)
                continue
            mine = claims.claim(key)
            if not isinstance(mine, Lock):
                others[key] = locks.name_of(mine)
                continue
            try:
                if not finished(key):  # by one who was quicker than our two looks
                    pause = POLL[0]
                    yield key
                left.remove(key)
            finally:
                mine.release()
        if others and len(others) == len(left):
            waiting(others)
            if not wait:
                return
            time.sleep(pause)
            pause = min(2 * pause, longest)
