"""Progress of long work, on stderr and only for people."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def first_process() -> bool:
    """Whether this is the only process, or the first of those that torchrun started: the one that prints."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def progress(what: str, total: int, show: bool | None = None) -> Iterator[Callable[[int], None]]:
    """A bar of the first process, on terminals or as `show` says; what it yields takes how many are done."""
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

    bar = Progress(
        *Progress.get_default_columns()[:2],
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not (first_process() and (sys.stderr.isatty() if show is None else show)),
        transient=True,
    )
    with bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


def duration(seconds: float) -> str:
    """Roughly how long, in the two largest units that matter."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min" if minutes >= 10 else f"{minutes} min {rest} s" if minutes else f"{rest} s"
