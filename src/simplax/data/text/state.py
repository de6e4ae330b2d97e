"""How far a preparation is, kept on disk so that it can go on after any interruption."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from simplax.data.text.documents import START
from simplax.data.text.tokenizers import FILE
from simplax.errors import UserError
from simplax.io.files import write_json

STATE = "state.json"


@dataclass
class State:
    """With the shards cut back to `rows`, all that is needed to go on: the job, where it reads, what waits."""

    options: dict[str, Any]
    sources: list[Any]
    job: int = 0
    documents: int = 0
    cursor: list[int] = field(default_factory=lambda: list(START))
    rest: list[int] = field(default_factory=list)
    splits: dict[str, dict[str, int]] = field(default_factory=dict)

    def of(self, split: str) -> dict[str, int]:
        return self.splits.setdefault(split, {"documents": 0, "tokens": 0, "rows": 0, "cut": 0, "dropped": 0})

    def save(self, directory: Path) -> None:
        write_json(directory / STATE, asdict(self))


def resume(directory: Path, fresh: State) -> State:
    """Where an earlier attempt stopped, or `fresh`; attempts at something else are not overwritten."""
    try:
        stored = State(**json.loads((directory / STATE).read_text(encoding="utf-8")))
    except FileNotFoundError:
        if any(directory.glob("*-[0-9]*.bin")):
            raise UserError(f"{directory} holds other data: choose another directory.") from None
        fresh.save(directory)
        return fresh
    except (ValueError, TypeError):
        raise UserError(f"{directory / STATE} is damaged: remove the directory and start again.") from None
    if (stored.options, stored.sources) == (fresh.options, fresh.sources):
        return stored
    if not any(split["rows"] for split in stored.splits.values()):  # it failed before it wrote a row
        (directory / FILE).unlink(missing_ok=True)
        fresh.save(directory)
        return fresh
    if stored.options != fresh.options:
        raise UserError(f"{directory} holds data begun with other options: choose another directory.")
    raise UserError(
        f"the source has changed since {directory} was begun: remove the directory and start again."
    )


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """One process prepares, the others wait and find the result; where files cannot be locked nobody waits."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(directory / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
