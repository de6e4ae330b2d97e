"""A real server process to test against."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PUZZLE = "030028900000900040080005130000002609002890470001000002050000020900600780103004006"
SOLUTION = "437128965615937248289465137348572619562891473791346852856719324924653781173284596"
JSON = {"content-type": "application/json"}


@dataclass(frozen=True)
class Server:
    url: str
    process: subprocess.Popen[str]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@contextmanager
def running(
    *options: str, log: Path | None = None, seconds: float = 120, **environment: str
) -> Iterator[Server]:
    """`simplax serve` on a free port with these options, ended afterwards."""
    with open(log or os.devnull, "w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "simplax", "serve", "--port", "0", "--json", *options],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, **environment},
        )
        try:
            yield Server(json.loads(_line(process, seconds))["url"].rstrip("/"), process)
        finally:
            if process.poll() is None:
                process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _line(process: subprocess.Popen[str], seconds: float) -> str:
    assert process.stdout is not None
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        if select.select([process.stdout], [], [], 0.2)[0]:
            return process.stdout.readline()
    raise AssertionError("the server did not start")
