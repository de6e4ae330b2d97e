"""How far a preparation is, kept on disk so that it can go on after any interruption."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from simplax.data.text.chunks import CHUNK
from simplax.data.text.options import same_options
from simplax.data.text.tokenizers import FILE
from simplax.errors import UserError
from simplax.io.files import remove_unfinished, write_json

STATE, CHUNKS, EXPANDED = "state.json", "chunks", ".expanded"


@dataclass
class State:
    """With the shards cut back to `rows`, all that is needed to go on: the next chunk, and per split what waits.

    `facts` is what the first pass over the documents found, None before it is done.
    """

    options: dict[str, Any]
    sources: list[Any]
    chunk_bytes: int = CHUNK
    chunk: int = 0
    facts: dict[str, Any] | None = None
    splits: dict[str, dict[str, Any]] = field(default_factory=dict)

    def of(self, split: str) -> dict[str, Any]:
        nothing = {"documents": 0, "tokens": 0, "rows": 0, "cut": 0, "dropped": 0}
        return self.splits.setdefault(split, {**nothing, "rest": [], "lengths": []})

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
    same = same_options(stored.options, fresh.options)
    if same and (stored.sources, stored.chunk_bytes) == (fresh.sources, fresh.chunk_bytes):
        return stored
    begun = any(split["rows"] for split in stored.splits.values()) or (directory / CHUNKS).exists()
    if not begun:  # it failed before it wrote a row
        (directory / FILE).unlink(missing_ok=True)
        fresh.save(directory)
        return fresh
    if not same:
        raise UserError(f"{directory} holds data begun with other options: choose another directory.")
    raise UserError(
        f"the source has changed since {directory} was begun: remove the directory and start again."
    )


def discard(directory: Path) -> None:
    """Remove everything that an attempt has written: its input is wrong, so nothing of it can be used."""
    for path in (*directory.glob("train-*.*"), *directory.glob("validation-*.*")):
        path.unlink()
    for name in (FILE, STATE):
        (directory / name).unlink(missing_ok=True)
    remove_unfinished(directory)
    for name in (CHUNKS, EXPANDED):
        shutil.rmtree(directory / name, ignore_errors=True)


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
