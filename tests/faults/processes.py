"""Commands in processes of their own, forked so that nothing has to be imported again."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import pkgutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import torch

import simplax
from simplax.cli import main

torch.set_num_threads(1)
# what commands import only when they need it: here once, instead of in every process
LATE = (
    "matplotlib.backends.backend_agg", "matplotlib.backends.backend_svg", "matplotlib.pyplot", "mpl_toolkits.mplot3d",
    "numpy.ctypeslib", "numpy.ma", "numpy.random", "torch._dynamo", "torch._inductor.config", "torch.onnx", "typeguard",
)  # fmt: skip


def import_all() -> None:
    """Everything, so that a process that is forked from this one is at work at once; what is not installed is left."""
    parts = [name for _, name, _ in pkgutil.walk_packages(simplax.__path__, "simplax.", lambda name: None)]
    for name in (*LATE, *parts):
        if not name.endswith("__main__"):
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
    with contextlib.redirect_stdout(io.StringIO()):
        main(["methods"])  # what the parser of arguments imports at its first use


class Failure(Exception):
    """Something that must not happen after any fault."""


class Child:
    """`simplax ARGUMENTS` in another process, its words in a file."""

    def __init__(self, arguments: list[str], words: Path, before: Callable[[], None] = lambda: None) -> None:
        self.arguments, self.words = arguments, words
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._run(before)

    def _run(self, before: Callable[[], None]) -> None:
        code = 70
        try:
            file = os.open(self.words, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
            os.dup2(file, 1)
            os.dup2(file, 2)
            sys.stdout = sys.stderr = open(self.words, "w", encoding="utf-8", buffering=1)  # noqa: SIM115
            before()
            code = main(self.arguments) or 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        _, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)

    def kill_after(self, seconds: float) -> int:
        """The exit code; that of the signal if it had not ended by then."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            done, status = os.waitpid(self.pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.002)
        self.kill()
        return self.wait()

    def sentence(self) -> str:
        """What was said at the end; anything but one sentence is a failure."""
        said = self.words.read_text(encoding="utf-8", errors="replace")
        if "Traceback" in said:
            raise Failure(f"{' '.join(self.arguments)}: {said.strip().splitlines()[-1]}")
        lines = [
            line for line in said.splitlines() if line.strip() and not line.startswith(("training ", "step "))
        ]
        return lines[-1] if lines else ""


def finish(
    arguments: list[str],
    words: Path,
    before: Callable[[], None] = lambda: None,
    allowed: tuple[int, ...] = (0, 2),
) -> tuple[int, str]:
    """The command to its end: exit code and last words, which must be one sentence if the code is 2."""
    child = Child(arguments, words, before)
    code = child.wait()
    said = child.sentence()
    if code not in allowed:
        raise Failure(f"{' '.join(arguments)} ended with {code}: {said}")
    lines = words.read_text(encoding="utf-8", errors="replace").splitlines()
    complaints = sum(line.startswith("simplax: ") for line in lines)
    ends = said.endswith((".", "?")) or "undo: " in said
    if code == 2 and not (said.startswith("simplax: ") and complaints == 1 and ends):
        raise Failure(f"{' '.join(arguments)} did not end with one sentence: {said}")
    return code, said
