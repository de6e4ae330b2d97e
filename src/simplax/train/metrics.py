"""`metrics.jsonl`: one JSON object per row, appended as training goes; and the line on the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from simplax.errors import UserError
from simplax.io.files import write_text
from simplax.train.hooks import Hook


def read(path: Path) -> list[dict[str, Any]]:
    """All complete rows; a line that was cut short by a kill, or damaged, is left out."""
    rows = []
    for line in path.read_bytes().split(b"\n") if path.exists() else ():
        try:
            row = json.loads(line.decode("utf-8"))
        except ValueError:  # not JSON, or not text
            continue
        if isinstance(row, dict) and isinstance(row.get("step"), int):
            rows.append(row)
    return rows


def truncate(path: Path, step: int) -> None:
    """Forget rows after `step`, which the resumed run will write again."""
    kept = [row for row in read(path) if row["step"] <= step]
    write_text(path, "".join(json.dumps(row) + "\n" for row in kept))


class Metrics:
    """Appends rows to the file and hands their numbers to the hooks."""

    def __init__(self, path: Path, hooks: Sequence[Hook]) -> None:
        self.path, self.hooks = path, hooks

    def write(self, step: int, values: dict[str, Any]) -> None:
        try:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps({"step": step, **values}) + "\n")
        except OSError as error:
            raise UserError(
                f"could not write {self.path} ({error.strerror}): make room there, then resume; checkpoints are intact."
            ) from error
        numbers = {name: value for name, value in values.items() if isinstance(value, int | float)}
        for hook in self.hooks:
            hook.log(step, numbers)


class Display:
    """Progress on a terminal: loss, tokens per second, learning rate, time left. Elsewhere a line per validation."""

    def __init__(self, steps: int, done: int, quiet: bool) -> None:
        self._progress: Any = None
        self._noted = ""
        self.steps, self.done, self.quiet = steps, done, quiet
        self.enabled = not quiet and sys.stderr.isatty()

    def __enter__(self) -> Display:
        if self.enabled:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            self._progress = Progress(
                TextColumn("training"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[numbers]}"),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            self._task = self._progress.add_task("train", total=self.steps, completed=self.done, numbers="")
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def say(self, line: str) -> None:
        """A line that stays, above the bar if there is one."""
        if self._progress is not None:
            self._progress.console.print(line, markup=False, highlight=False)
        elif not self.quiet:
            print(line, file=sys.stderr, flush=True)

    def advance(self, step: int) -> None:
        self.done = step
        if self._progress is not None:
            self._progress.update(self._task, completed=step)

    def note(self, values: dict[str, float]) -> None:
        """What the last validation measured, besides the columns of every row."""
        self._noted = "".join(f"  {name.replace('_', ' ')} {value:.4f}" for name, value in values.items())
        if self._progress is None:
            self.say(f"step {self.done:,} of {self.steps:,}{self._noted}")

    def show(self, values: dict[str, Any]) -> None:
        if self._progress is not None:
            numbers = f"loss {values['loss']:.4f}  {values['tokens_per_second']:,.0f} tokens/s  lr {values['lr']:.2e}"
            self._progress.update(self._task, numbers=numbers + self._noted)
