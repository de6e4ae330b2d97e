"""What made a number: one JSON record beside every evaluation, enough to repeat it."""

from __future__ import annotations

import datetime
import itertools
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import torch

from simplax.errors import UserError
from simplax.io.digest import with_digest, without_digest
from simplax.io.environment import versions
from simplax.io.files import create_json, write_json
from simplax.io.sharding import current

FORMAT = "simplax-manifest-1"


def environment() -> dict[str, Any]:
    """When, with what and by which command."""
    return {
        "format": FORMAT,
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": shlex.join([_program(), *sys.argv[1:]]),
        "versions": versions(),
        "threads": torch.get_num_threads(),
        "processes": current().size,
    }


def _program() -> str:
    """How the command was called, without where it happens to be installed."""
    called = Path(sys.argv[0])
    if called.name in ("__main__.py", "simplax"):
        return "simplax"
    return called.name if called.is_absolute() else str(called)


def write(path: str | Path, record: dict[str, Any]) -> Path:
    """Store a result with its digest, making its directory; say where.

    One that is not complete yet does not take the place of one that is: it waits beside it as NAME.partial.json.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.stem}.partial{path.suffix}")
    if record.get("complete") is False and _is_complete(path):
        write_json(partial, with_digest(record))
        return partial
    write_json(path, with_digest(record))
    if record.get("complete"):
        partial.unlink(missing_ok=True)
    return path


def write_new(directory: Path, name: str, record: dict[str, Any]) -> Path:
    """Store a result as NAME.json, or NAME-2.json and so on: a file of its own, whoever else writes there."""
    directory.mkdir(parents=True, exist_ok=True)
    stored = with_digest(record)
    names = (f"{name}.json" if number == 1 else f"{name}-{number}.json" for number in itertools.count(1))
    return next(path for path in (directory / one for one in names) if create_json(path, stored))


def read(path: Path) -> Any:
    """A stored result without its digest; one that cannot be read, or was changed since, is refused."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"the result {path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise UserError(f"{path} is not a result of simplax: it is not JSON.") from error
    content = without_digest(found) if isinstance(found, dict) else found
    if content is None:
        raise UserError(f"{path} is not as it was written: measure it again.")
    return content


def _is_complete(path: Path) -> bool:
    try:
        record = read(path)
        return "result" in record and record.get("complete", True)
    except (UserError, AttributeError, TypeError):
        return False
