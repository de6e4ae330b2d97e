"""Progress of long work, on stderr and only for people."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def first_process() -> bool:
    """Whether this is the only process, or the first of those that torchrun started: the one that prints."""
    return os.environ.get("RANK", "0") == "0"


@contextmanager
def progress(
    what: str, total: int, show: bool | None = None, *, rate: bool = True
) -> Iterator[Callable[[int], None]]:
    """A bar of the first process, on terminals or as `show` says; what it yields takes how many are done.

    It has the rate and the time left; the first makes no sense where what is counted is a share.
    """
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, ProgressColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        """How many per second lately, or in all once it is done."""

        def render(self, task: Any) -> Text:
            return Text(per_second(task.finished_speed or task.speed), style="progress.data.speed")

    bar = Progress(
        *Progress.get_default_columns()[:2],
        MofNCompleteColumn(),
        *([Rate()] if rate else []),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        disable=not (first_process() and (sys.stderr.isatty() if show is None else show)),
        transient=True,
    )
    with bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.update(task, completed=done)


def per_second(rate: float | None) -> str:
    """A rate as people say it: how many in a second or, if they are slow, in a minute or an hour."""
    if not rate:
        return ""
    times, unit = next(
        pair for pair in ((1, "s"), (60, "min"), (3600, "h")) if rate * pair[0] >= 1 or pair[1] == "h"
    )
    number = rate * times
    return f"{number:,.0f}/{unit}" if number >= 100 else f"{number:.3g}/{unit}"


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
